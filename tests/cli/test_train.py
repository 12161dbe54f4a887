from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from training_runs import ROWS, SMOKE, names, unexplained

from svrl.agents.config import FIELD_ALIASES, AgentConfig
from svrl.cli.flags import whole_number
from svrl.cli.train import arms_of, config_of
from svrl.runtime.rows import read_rows

FILES = {"config.json", *ROWS, "agent.npz", "learning_curve.png", "result.json"}


# What can be asked for.


def test_given_options_go_over_the_preset():
    config = config_of("CartPole-v1", {"hidden": "16,8", "p": 0.5, "clip_rewards": True, "steps": None})
    assert config == AgentConfig.of("classic", hidden=(16, 8), p=0.5, clip_rewards=True)
    assert arms_of("dqn, sv-double") == ["dqn", "sv-double"]
    assert config_of("CartPole-v1", {"agent": "sv-double"}).arm == "sv-double"
    assert config_of("minatar/breakout", {"preset": "smoke"}).network == "minatar"


@pytest.mark.parametrize(("text", "number"), [("1e6", 10**6), ("1e5", 10**5), ("1_000_000", 10**6), ("64.0", 64)])
def test_whole_numbers_may_be_written_as_people_do(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("given", "meant"), [("--discount", "--gamma"), ("--lr=1", "--learning-rate"), ("--double", "--agent double")]
)
def test_a_flag_of_another_library_leads_to_ours(svrl, given, meant):
    result = svrl("train", "CartPole-v1", given, 1)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: svrl train has no {given.partition('=')[0]}. Did you mean {meant}?\n"
    assert set(FIELD_ALIASES.values()) <= set(AgentConfig.__dataclass_fields__)


def test_options_of_structure_are_taken_where_one_agent_is_structured(svrl_json, tmp_path, plain):
    short = (*SMOKE, "--steps", 80, "--p", 0.5)
    assert svrl_json(*short, "--structured", "--out", tmp_path / "one")["arm"] == "sv-dqn-network"
    results = svrl_json(*short, "--agents", "dqn,sv-dqn", "--out", tmp_path / "two")
    assert [result["arm"] for result in results] == ["dqn", "sv-dqn"]


def test_several_agents_are_asked_for_with_agents(svrl, svrl_json, tmp_path, plain):
    result = svrl(*SMOKE, "--agent", "dqn,sv-dqn", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert (
        result.stderr == "Error: --agent takes one name, got dqn,sv-dqn. To train several, give --agents dqn,sv-dqn.\n"
    )
    results = svrl_json(*SMOKE, "--steps", 80, "--agents", "sv-dqn", "--out", tmp_path)
    assert [Path(result["run"]).name for result in results] == ["sv-dqn-seed0"]
    results = svrl_json(*SMOKE, "--steps", 80, "--agents", "dqn", "--seeds", 3, "--out", tmp_path)
    assert [result["seed"] for result in results] == [0, 1, 2]


@pytest.mark.parametrize(("there", "given"), [(True, ()), (True, ("--device", "cpu")), (False, ())])
def test_a_gpu_is_taken_where_there_is_one(svrl, tmp_path, monkeypatch, there, given):
    taken = []

    def trained(place: Path, members: list, *_: object, **__: object) -> None:
        taken.extend(members)
        raise ValueError("That will do.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"NVIDIA {index}")
    monkeypatch.setattr("svrl.cli.train._train_in", trained)
    result = svrl("train", "CartPole-v1", "--seeds", 2, *given, "--out", tmp_path / "runs")
    auto = there and not given
    told = "Training on cuda:0 (NVIDIA 0). --device cpu trains on the CPU.\n" if auto else ""
    assert result.stderr == f"{told}Error: That will do.\n"
    assert {(member.device, member.precision) for member in taken} == {("cuda", "tf32") if auto else ("cpu", "float32")}


# What comes out.


def test_a_run_leaves_its_files_and_says_what_it_reached(svrl_json, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    result = svrl_json(*SMOKE, "--seed", 3, "--eval-every", 150, "--eval-episodes", 3)
    assert torch.get_num_threads() == before
    assert {"run", "env", "agent", "structured", "seed", "updates", "score_last_100", "steps_per_second"} <= set(result)
    assert unexplained(result) == []
    run = tmp_path / "runs" / "CartPole-v1-dqn-seed3"
    assert result["run"] == "runs/CartPole-v1-dqn-seed3"
    assert names(run) == FILES
    assert json.loads((run / "result.json").read_text()) == result
    episodes, learning, evaluations = (read_rows(run / name) for name in ROWS)
    assert len(episodes) == result["episodes"]
    assert [row["steps"] for row in episodes] == list(np.cumsum([row["length"] for row in episodes]))
    assert result["score_last_100"] == pytest.approx(np.mean([row["score"] for row in episodes][-100:]))
    assert [row["steps"] for row in learning] == [100, 200, 300, 400]
    assert learning[-1]["updates"] == result["updates"] == 84
    assert [row["steps"] for row in evaluations] == [150, 300, 400]
    assert result["evaluation"]["mean"] == pytest.approx(np.mean(evaluations[-1]["scores"]))
    assert result["evaluation"]["ci_low"] <= result["evaluation"]["mean"] <= result["evaluation"]["ci_high"]
    assert result["evaluation"]["episodes"] == 3
    config = json.loads((run / "config.json").read_text())
    assert AgentConfig.from_json(
        {name: config[name] for name in AgentConfig.__dataclass_fields__ if name in config}
    ) == AgentConfig.for_env("CartPole-v1", "smoke", hidden=(32,), eval_every=150, eval_episodes=3)
    assert set(config["versions"]) >= {"svrl", "torch", "python"}
    assert (run / "learning_curve.png").stat().st_size > 5000


def test_the_table_and_the_warning(svrl, tmp_path, plain):
    result = svrl(*SMOKE, "--structured", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    for word in ("CartPole-v1", "sv-dqn", "evaluation", "steps/s", "bootstrap", str(tmp_path / "run")):
        assert word in re.sub(r"\s+", " ", result.stdout)
    assert "2 actions leave little structure to find" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_score_ends_training_and_the_best_agent_is_named(svrl, svrl_json, tmp_path, plain):
    command = (*SMOKE, "--eval-every", 50, "--eval-episodes", 2, "--stop-at", 1, "--keep-best")
    result = svrl_json(*command, "--out", tmp_path / "run")
    assert (result["steps"], result["stopped_early"]) == (50, True)
    assert result["best"] == {"steps": 50, "mean": result["evaluation"]["mean"]}
    assert names(tmp_path / "run") == {*FILES, "best.npz"} - {"learning.jsonl"}
    table = svrl(*command, "--out", tmp_path / "again")
    assert "stopped early: dqn seed 0 after 50 steps\n" in table.stdout
    assert f"best evaluation: dqn seed 0 after 50 steps, {result['best']['mean']:.5g}\n" in table.stdout
    assert svrl_json("runs", tmp_path / "run")[0]["state"] == "finished"


# Several runs.


def test_arms_and_seeds(svrl, svrl_json, tmp_path, plain):
    out = tmp_path / "both"
    command = (*SMOKE, "--agents", "dqn,sv-double", "--seeds", 2, "--seed", 5, "--steps", 150, "--out", out)
    results = svrl_json(*command)
    folders = ["dqn-seed5", "dqn-seed6", "sv-double-seed5", "sv-double-seed6"]
    assert [Path(result["run"]).name for result in results] == folders
    assert [(result["agent"], result["structured"]) for result in results] == [("dqn", False)] * 2 + [
        ("double", True)
    ] * 2
    assert names(out) == {*folders, "runs.json", "learning_curves.png"}
    assert "holds a run" in svrl(*command).stderr
    # One is lost and one was interrupted: only they are trained again.
    kept = {name: (out / name / "agent.npz").stat().st_mtime_ns for name in folders}
    (out / "dqn-seed6" / "result.json").unlink()
    for file in (out / "sv-double-seed5").iterdir():
        file.unlink()
    (out / "sv-double-seed5").rmdir()
    again = svrl_json(*command, "--resume")
    changed = {name for name in folders if (out / name / "agent.npz").stat().st_mtime_ns != kept[name]}
    assert changed == {"dqn-seed6", "sv-double-seed5"}
    rates = ("steps_per_second",)
    for first, second in zip(results, again, strict=True):
        assert {k: v for k, v in first.items() if k not in rates} == {k: v for k, v in second.items() if k not in rates}
    table = svrl(*command, "--resume")
    assert table.stdout.count("sv-double") == 2


def test_several_runs_are_gone_on_with_under_their_own_settings(svrl, svrl_json, tmp_path, plain):
    out = tmp_path / "both"
    command = (*SMOKE, "--agents", "dqn,double", "--steps", 120, "--out", out)
    results = svrl_json(*command)
    refused = svrl(*command, "--learning-rate", 0.5, "--resume")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert "learning-rate was" in refused.stderr
    assert "is 0.5" in refused.stderr
    assert svrl_json(*command, "--steps", 100, "--resume") == results
    # Nothing is trained if one of them is another run.
    for file in (out / "dqn-seed0").iterdir():
        file.unlink()
    assert svrl(*command, "--learning-rate", 0.5, "--resume").exit_code == 2
    assert names(out / "dqn-seed0") == set()


# Who else listens.


def test_tensorboard_gets_the_rows(svrl_json, tmp_path, plain):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    svrl_json(*SMOKE, "--tensorboard", "--out", run)
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    seen = [(event.step, event.value) for event in board.Scalars("episode/score")]
    assert seen == [(row["steps"], row["score"]) for row in read_rows(run / "episodes.jsonl")]
    assert [event.step for event in board.Scalars("learning/loss")] == [100, 200, 300, 400]
    assert len(board.Scalars("evaluation/score")) == 1


def test_a_missing_package_is_named_with_its_command(svrl, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = svrl(*SMOKE, "--tensorboard", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert 'pip install "svrl[tensorboard]"' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_lines_where_there_is_no_terminal(svrl, tmp_path, monkeypatch, plain):
    monkeypatch.setattr("svrl.cli.progress.LINE_EVERY", 0.02)
    monkeypatch.setattr("svrl.cli.train.REFRESH", 0.0)
    result = svrl(*SMOKE, "--seeds", 2, "--together", 2, "--out", tmp_path)
    lines = result.stderr.splitlines()
    for seed in range(2):
        said = " ".join(line for line in lines if line.startswith(f"CartPole-v1 dqn seed {seed}: "))
        for word in ("%, ", "of 400 steps", "steps/s", "score", "epsilon"):
            assert word in said
