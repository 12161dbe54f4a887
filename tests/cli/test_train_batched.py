"""svrl train --batched: many seeds at once, each with the folder of a finished run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from svrl.agents.agent import load_agent
from svrl.agents.config import AgentConfig
from svrl.runtime.rows import read_rows
from svrl.runtime.stop_signals import Signals, Stopped
from svrl.training.batched import train_batched
from svrl.training.population import Member

ENV = "control/three-motor-pendulum"
SMALL = ("--preset", "smoke", "--actions", 8, "--hidden", 8, "--steps", 240, "--eval-every", 100, "--n-envs", 4)
BATCHED = ("train", ENV, "--batched", "--device", "cpu", *SMALL)


def test_every_seed_has_the_folder_of_a_finished_run(svrl, svrl_json, tmp_path):
    options = (*BATCHED, "--agents", "dqn,lowrank,sv-dqn", "--seeds", 3, "--out", tmp_path)
    rows = svrl_json(*options)
    assert [(row["arm"], row["seed"]) for row in rows] == [
        (arm, k) for arm in ("dqn", "lowrank", "sv-dqn") for k in (0, 1, 2)
    ]
    run = tmp_path / "lowrank-seed1"
    evaluations = read_rows(run / "evaluations.jsonl")
    assert [row["steps"] for row in evaluations] == [100, 200, 240]
    assert rows[4]["evaluation"]["mean"] == evaluations[-1]["mean"]
    assert rows[4]["overestimation"] == evaluations[-1]["overestimation"]
    agent = load_agent(run)
    assert (agent.seed, agent.steps, agent.config.head, agent.env) == (1, 240, "low-rank", ENV)
    assert svrl_json("eval", run, "--episodes", 2)["arm"] == "lowrank"
    assert json.loads((run / "config.json").read_text())["batched"] is True
    assert (tmp_path / "learning_curves.png").exists()
    assert {row["state"] for row in svrl_json("runs", tmp_path)} == {"finished"}
    again = svrl(*options)
    assert (again.exit_code, "holds a run. Add --resume to keep it" in again.stderr) == (2, True)


def test_the_table_compares_arms_over_seeds(svrl, tmp_path):
    said = svrl(*BATCHED, "--agents", "dqn,additive", "--seeds", 2, "--out", tmp_path).stdout
    assert all(word in said for word in ("overestimation", "better", "additive", "of all seeds together"))
    alone = svrl(*BATCHED, "--agent", "dqn", "--out", tmp_path / "one").stdout
    assert "better" not in alone
    assert (tmp_path / "one" / "agent.npz").exists()


def test_resume_trains_what_is_missing_and_keeps_the_rest(svrl_json, tmp_path):
    first = svrl_json(*BATCHED, "--agents", "dqn,double", "--seeds", 1, "--out", tmp_path)
    kept = (tmp_path / "dqn-seed0" / "agent.npz").stat().st_mtime_ns
    rows = svrl_json(*BATCHED, "--agents", "dqn,double", "--seeds", 2, "--out", tmp_path, "--resume")
    assert (tmp_path / "dqn-seed0" / "agent.npz").stat().st_mtime_ns == kept
    assert [row["seed"] for row in rows] == [0, 1, 0, 1]
    assert rows[0] == first[0]
    whole = svrl_json(*BATCHED, "--agents", "dqn,double", "--seeds", 2, "--out", tmp_path / "whole")
    look = np.zeros((2, 3), np.float32)
    both = [load_agent(folder / "dqn-seed1").q(look).numpy() for folder in (tmp_path, tmp_path / "whole")]
    np.testing.assert_allclose(*both, rtol=1e-3, atol=1e-4)
    assert len(whole) == 4


def test_resume_refuses_other_settings_and_begins_killed_runs_again(svrl, svrl_json, tmp_path):
    svrl_json(*BATCHED, "--agent", "dqn", "--seeds", 2, "--out", tmp_path)
    result = svrl(*BATCHED, "--agent", "dqn", "--seeds", 2, "--out", tmp_path, "--resume", "--gamma", 0.5)
    assert (result.exit_code, "gamma was 0.99 and is 0.5" in result.stderr) == (2, True)
    ordinary = svrl("train", ENV, *SMALL, "--device", "cpu", "--agent", "double", "--seeds", 1, "--out", tmp_path)
    assert ordinary.exit_code == 0
    result = svrl(*BATCHED, "--agent", "double", "--seeds", 1, "--out", tmp_path, "--resume")
    assert (result.exit_code, "batched was not given and is True" in result.stderr) == (2, True)
    killed = tmp_path / "dqn-seed1"
    whole = json.loads((killed / "result.json").read_text())
    for name in ("result.json", "agent.npz"):
        (killed / name).unlink()
    rows = svrl_json(*BATCHED, "--agent", "dqn", "--seeds", 2, "--out", tmp_path, "--resume")
    assert rows[1]["evaluation"]["mean"] == pytest.approx(whole["evaluation"]["mean"], rel=1e-3)


def test_a_folder_alone_does_not_resume_seeds_that_were_trained_at_once(svrl, svrl_json, tmp_path):
    svrl_json(*BATCHED, "--agent", "dqn", "--seeds", 2, "--out", tmp_path)
    for folder in (tmp_path, tmp_path / "dqn-seed0"):
        result = svrl("train", folder, "--resume", "--steps", 400)
        assert (result.exit_code, "Repeat its whole command, with --batched --resume" in result.stderr) == (2, True)


def test_a_signal_keeps_the_arms_that_are_done(tmp_path):
    config = AgentConfig.for_env(ENV, "smoke", actions=8, hidden=(8,), steps=160, n_envs=4)
    members = [
        Member(env=ENV, config=config.replace(agent=arm), folder=tmp_path / f"{arm}{seed}", seed=seed)
        for arm in ("dqn", "double")
        for seed in (0, 1)
    ]
    signals = Signals()

    def progress(at_work, steps):
        if at_work[0].config.agent == "double":
            signals.came = 2

    with pytest.raises(Stopped):
        train_batched(members, signals=signals, progress=progress)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dqn0", "dqn1"]
    assert all((path / "result.json").exists() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--keep-best",), "--keep-best has no place beside --batched"),
        (("--together", 2), "--together has no place beside --batched"),
        (("--n-steps", 3), "--n-steps must be 1 where many seeds are trained at once, got 3"),
    ],
)
def test_what_batches_of_seeds_do_not_have_is_answered(svrl, tmp_path, options, words):
    result = svrl(*BATCHED, "--seeds", 2, "--out", tmp_path / "run", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "run").exists()


def test_other_environments_are_answered(svrl, tmp_path):
    result = svrl("train", "CartPole-v1", "--batched", "--preset", "smoke", "--out", tmp_path / "run")
    assert (result.exit_code, "Many seeds at once train on control tasks" in result.stderr) == (2, True)
