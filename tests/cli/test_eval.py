from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from training_runs import SMOKE

from svrl.agents.agent import load_agent
from svrl.agents.config import AgentConfig
from svrl.runtime.arrays import read_arrays, write_arrays
from svrl.runtime.rows import read_rows
from svrl.training.session import Habits, train_in_directory

KEYS = {"run", "env", "arm", "episodes", "mean", "ci_low", "ci_high", "human_normalised", "scores", "epsilon", "seed"}


def test_the_games_are_those_of_the_library(svrl_json, trained):
    row = svrl_json("eval", trained, "--episodes", 9, "--seed", 4)
    assert set(row) >= KEYS
    agent = load_agent(trained)
    games = agent.evaluate(episodes=9, seed=4)
    assert row["scores"] == list(games.scores)
    assert row["mean"] == pytest.approx(np.mean(games.scores))
    assert (row["ci_low"], row["ci_high"]) == games.interval()
    assert row["ci_low"] < row["mean"] < row["ci_high"]
    assert row["epsilon"] == agent.config.eval_epsilon
    assert row["human_normalised"] is None
    assert row["human_normalised_reason"]
    assert svrl_json("eval", trained, "--episodes", 9, "--seed", 5)["scores"] != row["scores"]


def test_atari_is_measured_by_humans(svrl, svrl_json, tmp_path):
    pytest.importorskip("ale_py")
    options = (
        "--preset",
        "smoke",
        "--steps",
        64,
        "--device",
        "cpu",
        "--threads",
        1,
        "--eval-epsilon",
        1,
        "--out",
        tmp_path / "run",
    )
    svrl_json("train", "atari/breakout", *options)
    row = svrl_json("eval", tmp_path / "run", "--episodes", 2, "--epsilon", 1)
    assert row["human_normalised"] == pytest.approx((row["mean"] - 1.7) / (30.5 - 1.7), abs=0.01)
    assert "human-normalised" in svrl("eval", tmp_path / "run", "--episodes", 1, "--epsilon", 1).stdout


def test_an_unfinished_run_plays_as_its_checkpoint(svrl_json, stopped):
    row = svrl_json("eval", stopped, "--episodes", 2)
    assert (row["steps"], row["arm"]) == (89, "dqn")


def test_the_agent_with_the_best_evaluation(svrl, svrl_json, tmp_path, monkeypatch, plain):
    run = tmp_path / "run"
    options = (*SMOKE, "--eval-every", 50, "--eval-episodes", 3, "--keep-best", "--out", run)
    best = svrl_json(*options)["best"]
    rows = read_rows(run / "evaluations.jsonl")
    assert best["mean"] == max(row["mean"] for row in rows)
    assert best["steps"] == next(row["steps"] for row in rows if row["mean"] == best["mean"]) < 400
    row = svrl_json("eval", run, "--best", "--episodes", 4)
    assert (row["steps"], row["scores"]) == (
        best["steps"],
        list(load_agent(run, best=True).evaluate(episodes=4).scores),
    )
    (run / "agent.npz").unlink()  # as of an unfinished run
    assert svrl_json("eval", run, "--best", "--episodes", 4) == row
    assert svrl("watch", run, "--best", "--max-steps", 3, "--out", tmp_path / "film.gif").exit_code == 0
    small = ("--batches", 5, "--states", 40, "--batch-size", 8, "--plot", tmp_path / "rank.png")
    assert svrl_json("rank", run, "--best", *small)["steps"] == row["steps"]


def test_a_run_without_it_says_how_to_get_it(svrl, trained):
    result = svrl("eval", trained, "--best")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {trained} has no best.npz. svrl train --keep-best")
    assert result.stderr.count("\n") == 1


PACKAGE = """
from pathlib import Path

import gymnasium

Path(__file__).with_name("ran").touch()
gymnasium.register(id="Mine-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=50)
"""


@pytest.fixture
def foreign(svrl_json, tmp_path, monkeypatch, plain):
    """A run on an environment of a package, which has not been imported since."""
    (tmp_path / "my_games.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_games", raising=False)
    run = tmp_path / "run"
    short = ("--preset", "smoke", "--hidden", 32, "--steps", 80, "--threads", 1, "--device", "cpu")
    svrl_json("train", "my_games:Mine-v0", *short, "--out", run)
    monkeypatch.delitem(sys.modules, "my_games")
    (tmp_path / "ran").unlink()
    return run


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("eval", ("--episodes", 2)),
        ("rank", ("--batches", 5, "--states", 50, "--batch-size", 8)),
        ("watch", ("--max-steps", 5)),
    ],
    ids=["eval", "rank", "watch"],
)
def test_a_package_is_imported_only_if_the_user_names_it(svrl, svrl_json, foreign, command, more):
    if command == "watch":
        pytest.importorskip("pygame")
        more = (*more, "--out", foreign.parent / "film.gif")
    refused = svrl(command, foreign, *more)
    assert refused.exit_code == 2
    assert "would import my_games" in refused.stderr
    assert refused.stderr.endswith("Or repeat it: --env my_games:Mine-v0\n")
    assert not (foreign.parent / "ran").exists()
    assert svrl_json(command, foreign, *more, "--env", "my_games:Mine-v0")["env"] == "my_games:Mine-v0"
    assert (foreign.parent / "ran").exists()
    other = svrl(command, foreign, *more, "--env", "MountainCar-v0")
    assert other.exit_code == 2
    assert "does not fit --env MountainCar-v0" in other.stderr


OWN = """
from pathlib import Path

from torch import nn

Path(__file__).with_name("ran").touch()


def make(spec):
    return nn.Sequential(nn.Linear(spec.observation_shape[0], 8), nn.ReLU(), nn.Linear(8, spec.n_actions))
"""


@pytest.mark.parametrize("command", ["eval", "rank", "watch"])
def test_a_network_is_imported_from_the_current_folder_only_if_the_user_names_it(
    svrl, svrl_json, tmp_path, monkeypatch, plain, command
):
    (tmp_path / "my_networks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    short = ("--preset", "smoke", "--steps", 80, "--threads", 1, "--out", "run")
    train = ("train", "CartPole-v1", "--network", "my_networks:make", *short)
    result = svrl_json(*train)
    assert (result["layers"], result["parameters"]) == ("linear 8-2", 4 * 8 + 8 + 8 * 2 + 2)
    assert json.loads(Path("run/config.json").read_text())["network"] == "my_networks:make"
    monkeypatch.delitem(sys.modules, "my_networks")
    Path("ran").unlink()
    more = {
        "eval": ("--episodes", 2),
        "rank": ("--batches", 5, "--states", 50, "--batch-size", 8),
        "watch": ("--max-steps", 5, "--out", "film.gif"),
    }[command]
    if command == "watch":
        pytest.importorskip("pygame")
    refused = svrl(command, "run", *more)
    assert refused.exit_code == 2
    assert refused.stderr.endswith("Or repeat it: --network my_networks:make\n")
    assert not Path("ran").exists()
    svrl_json(command, "run", *more, "--network", "my_networks:make")
    assert Path("ran").exists()
    wrong = svrl(command, "run", *more, "--network", "my_networks:build")
    assert wrong.exit_code == 2
    assert "my_networks has no function build" in wrong.stderr


def test_what_is_not_a_run_is_told_apart(svrl, tmp_path, trained):
    for name in ("d", "b", "a", "c"):
        (tmp_path / "many" / name).mkdir(parents=True)
        (tmp_path / "many" / name / "config.json").write_bytes((trained / "config.json").read_bytes())
    (tmp_path / "file").write_text("")
    for name, words in (("many", "holds runs: a, b, c and more"), ("nowhere", "does not exist"), ("file", "is a file")):
        result = svrl("eval", tmp_path / name)
        assert result.exit_code == 2
        assert f"{tmp_path / name} {words}" in result.stderr
        assert result.stderr.count("\n") == 1, result.stderr


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """An unfinished run with a checkpoint."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    config = AgentConfig.for_env("CartPole-v1", "smoke", hidden=(8,), steps=100)
    with pytest.raises(ZeroDivisionError):
        train_in_directory(
            "CartPole-v1",
            config,
            folder=run,
            habits=Habits(checkpoint_every=1e-9),
            watch=lambda event: 1 / (90 - event.steps),
        )
    return run


@pytest.mark.parametrize("command", ["eval", "rank", "watch"])
def test_folders_without_an_agent(svrl, tmp_path, trained, stopped, command):
    empty, begun, planned, broken = (tmp_path / name for name in ("empty", "begun", "planned", "broken"))
    damaged = shutil.copytree(stopped, tmp_path / "damaged")
    for file in (damaged / "checkpoints").iterdir():
        file.write_bytes(file.read_bytes()[:-100])
    for folder in (empty, begun, planned, broken):
        folder.mkdir()
    (begun / "config.json").write_bytes((trained / "config.json").read_bytes())
    (planned / "config.json").write_text(json.dumps({"task": "toy"}))
    (broken / "agent.npz").write_bytes((trained / "agent.npz").read_bytes()[:-100])
    more = ("--out", tmp_path / "film.gif") if command == "watch" else ()
    for folder in (Path(tmp_path / "nowhere"), empty, begun, planned, broken, damaged):
        result = svrl(command, folder, *more)
        assert result.exit_code == 2, folder
        assert str(folder) in result.stderr
        assert result.stderr.count("\n") == 1, result.stderr
        assert "resume" not in result.stderr, "this cannot be"
    assert not (tmp_path / "film.gif").exists()


ABOUT = {
    "env": [5, None, "Acrobot-v1", "Nope-v0", "\x1b[31mred"],
    "steps": ["many"],
    "seed": [None],
    "config": [None, {}, {"hidden": 5}, {"hidden": [10**9]}],
    "spec": [{"frame_shape": [-1]}, {"frame_shape": [10**9]}, {"high": "x"}, {"family": "x"}, {"n_actions": 0}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ABOUT.items() for value in values])
def test_odd_fields_of_an_agent_name_its_file(svrl, tmp_path, trained, name, value):
    tree = read_arrays(trained / "agent.npz")
    about = json.loads(tree["about"])
    about[name] = {**about[name], **value} if isinstance(value, dict) and value else value
    write_arrays(tmp_path / "agent.npz", {**tree, "about": json.dumps(about)})
    result = svrl("eval", tmp_path, "--episodes", 1)
    assert result.exit_code == 2, result.exception
    assert f"{tmp_path / 'agent.npz'}" in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "\x1b" not in result.stderr


CONFIGS = [{"env": 5}, {"env": None}, {"env": "Nope-v0"}, {"seed": None}, {"hidden": "x"}, {}]


@pytest.mark.parametrize("value", [*CONFIGS, '{"env": "Cart', "[" * 200_000, "[]"], ids=lambda value: str(value)[:20])
def test_odd_fields_of_a_configuration_name_its_file(svrl, tmp_path, stopped, value):
    run = shutil.copytree(stopped, tmp_path / "run")
    whole = json.loads((run / "config.json").read_text())
    text = value if isinstance(value, str) else json.dumps({**whole, **value} if value else {})
    (run / "config.json").write_text(text)
    result = svrl("eval", run)
    assert result.exit_code == 2, result.exception
    assert f"{run / 'config.json'}" in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
