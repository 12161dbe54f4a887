"""A run is resumed by its folder alone, with its own options."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from training_runs import SMOKE, assert_same_run, interrupting, names, sending

from svrl.cli.train import TrainProgress
from svrl.runtime.run_directory import is_finished

OPTIONS = (*SMOKE, "--agent", "sv-double", "--p", 0.5, "--seed", 3, "--steps", 300, "--eval-every", 100)


def stopped_after(calls: int, svrl: Any, monkeypatch: pytest.MonkeyPatch, *command: object) -> str:
    """Interrupt a command after so many steps, and return its last line."""
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", interrupting(calls, sending(signal.SIGINT)))
        result = svrl(*command)
    assert result.exit_code == 130, result.stderr
    return str(result.stderr.strip().splitlines()[-1])


def changed(file: Path, **changes: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    found = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))


def test_the_folder_is_enough(svrl, tmp_path, monkeypatch, plain):
    straight, run = tmp_path / "straight", tmp_path / "a run"
    assert svrl(*OPTIONS, "--out", straight).exit_code == 0
    line = stopped_after(120, svrl, monkeypatch, *OPTIONS, "--out", run)
    assert line == f"Stopped; what was done is in {run}. Resume with: svrl train --resume '{run}'"
    result = svrl("train", "--resume", run)
    assert result.exit_code == 0, result.stderr
    assert f"Resuming {run} at step 120 of 300.\n" in result.stderr
    assert_same_run(straight, run)
    again = svrl("train", run, "--resume")
    assert again.exit_code == 2
    assert "holds a finished run of 300 steps" in again.stderr


def test_more_steps_and_how_it_is_kept(svrl, svrl_json, tmp_path, monkeypatch, plain):
    straight, run = tmp_path / "straight", tmp_path / "run"
    svrl_json(*SMOKE, "--seed", 3, "--steps", 300, "--out", straight)
    stopped_after(50, svrl, monkeypatch, *SMOKE, "--seed", 3, "--steps", 100, "--keep-replay", "--out", run)
    assert svrl_json("train", "--resume", run)["steps"] == 100
    assert {"checkpoints", "replay"} <= names(run), "--keep-replay is an option of the run"
    line = stopped_after(50, svrl, monkeypatch, "train", "--resume", run, "--steps", 300, "--keep-best")
    assert shlex.split(line)[-5:] == ["train", "--steps", "300", "--resume", str(run)]
    result = svrl_json("train", "--resume", run)
    assert (result["steps"], "best" in result) == (300, True)
    for name in ("episodes.jsonl", "learning.jsonl"):
        assert (run / name).read_bytes() == (straight / name).read_bytes()


def test_options_that_are_the_runs_own_may_be_repeated(svrl, tmp_path, monkeypatch, plain):
    run = tmp_path / "run"
    stopped_after(100, svrl, monkeypatch, *OPTIONS, "--out", run)
    for option in ("--agent=sv-dqn", "--p=0.6", "--seed=4", "--preset=classic", "--hidden=16", "--scale=row"):
        result = svrl("train", "--resume", run, option)
        assert result.exit_code == 2
        assert "was begun with another configuration" in result.stderr
        assert result.stderr.count("\n") == 1
    same = ("--agent=sv-double", "--p=0.5", "--seed=3", "--preset=smoke", "--hidden=32", "--device=auto")
    assert svrl("train", "CartPole-v1", "--resume", "--out", run, *same).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("RUN",), "holds a run already. Add --resume to resume it, or name an environment."),
        (("RUN", "--resume", "--out", "x"), "a run with settings of its own, so --out has no place beside it."),
        (("RUN", "--resume", "--seeds", 2), "so --seeds has no place beside it."),
        (("RUN", "--resume", "--agents", "dqn,double"), "so --agents has no place beside it."),
        (("RUN", "--resume", "--steps", 5), "steps was 300 and is 5"),
        (("RUN", "--resume", "--device", "cuda:7"), "cuda:7 is not available"),
        (("RUN/none", "--resume"), "There is no run to resume: neither"),
        (("CartPole-v1", "--resume"), "neither CartPole-v1 nor runs/CartPole-v1-dqn-seed0 holds one."),
        (("CartPole-v1", "--resume", "--out", "none"), "neither CartPole-v1 nor none holds one."),
    ],
)
def test_wrong_input_is_one_sentence(svrl, tmp_path, monkeypatch, plain, arguments, said):
    run = tmp_path / "run"
    stopped_after(20, svrl, monkeypatch, *OPTIONS, "--out", run)
    monkeypatch.chdir(tmp_path)
    result = svrl("train", *(str(word).replace("RUN", str(run)) for word in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"env": None}, "names no environment"),
        ({"env": 5}, "names no environment"),
        ({"seed": "3"}, "is damaged: seed is a whole number from 0"),
        ({"threads": 10**9}, "is damaged: threads is a whole number from 1"),
        ({"precision": "bf16"}, "is damaged: precision bf16 needs a CUDA device"),
        ({"device": None}, "is not that of a training: 'device' is missing"),
        ({"gamma": 2.0}, "is damaged: gamma"),
        ({"hidden": 7}, "is damaged: "),
        ({"habits": {"checkpoint_every": "a"}}, "are not the habits of a training"),
        ({"habits": {"pickle": 1}}, "are not the habits of a training"),
        ({"habits": 3}, "are not the habits of a training"),
        ({"device": "cuda:7"}, "was begun on cuda:7, which this machine does not have"),
    ],
    ids=str,
)
def test_a_config_from_anybody_is_checked(svrl, tmp_path, monkeypatch, plain, changes, said):
    run = tmp_path / "run"
    stopped_after(20, svrl, monkeypatch, *OPTIONS, "--out", run)
    changed(run / "config.json", **changes)
    result = svrl("train", "--resume", run)
    assert result.exit_code == 2, result.exception
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_no_package_is_imported_because_a_file_names_it(svrl, tmp_path, monkeypatch, plain):
    (tmp_path / "her_games.py").write_text(
        "import gymnasium\n"
        'gymnasium.register("Other-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=50)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    line = stopped_after(20, svrl, monkeypatch, "train", "her_games:Other-v0", *SMOKE[2:], "--out", run)
    sys.modules.pop("her_games")
    refused = svrl("train", "--resume", run)
    assert refused.exit_code == 2
    assert "would import her_games" in refused.stderr
    assert "her_games" not in sys.modules
    named = refused.stderr.strip().split("yourself: svrl ")[1]
    assert svrl(*shlex.split(named)).exit_code == 0
    assert shlex.split(line.split("Resume with: svrl ")[1])[:2] == ["train", "her_games:Other-v0"]


# Several runs.

SEVERAL = (*SMOKE, "--agents", "dqn,sv-double", "--steps", 200, "--p", 0.5, "--together", 1)


def test_a_folder_of_runs_resumes_those_that_are_left(svrl, svrl_json, tmp_path, monkeypatch, plain):
    straight, out = tmp_path / "straight", tmp_path / "runs"
    wanted = svrl_json(*SEVERAL, "--out", straight)
    stopped_after(50, svrl, monkeypatch, *SEVERAL, "--out", out)
    assert names(out) == {"dqn-seed0", "runs.json"}, "the other has not begun"
    found = svrl_json("train", "--resume", out)
    assert [(row["arm"], row["steps"]) for row in found] == [(row["arm"], row["steps"]) for row in wanted]
    for name in ("dqn-seed0", "sv-double-seed0"):
        assert_same_run(straight / name, out / name)
    assert names(out) == {"dqn-seed0", "sv-double-seed0", "runs.json", "learning_curves.png"}
    assert svrl_json("train", "--resume", out) == found, "nothing is left"


def test_a_refused_command_changes_no_list(svrl, tmp_path, monkeypatch, plain):
    stopped_after(50, svrl, monkeypatch, *SEVERAL, "--out", tmp_path)
    before = (tmp_path / "runs.json").read_bytes()
    for more in ((), ("--resume",)):
        assert svrl(*SEVERAL, "--p", 0.7, "--gamma", 0.8, "--out", tmp_path, *more).exit_code == 2
    assert (tmp_path / "runs.json").read_bytes() == before


def test_a_folder_without_a_list_resumes_what_was_begun(svrl, svrl_json, tmp_path, monkeypatch, plain):
    stopped_after(50, svrl, monkeypatch, *SMOKE, "--out", tmp_path / "one")
    stopped_after(50, svrl, monkeypatch, *SMOKE, "--seed", 1, "--steps", 100, "--out", tmp_path / "two")
    svrl_json("plan", "toy", "--method", "value-iteration", "--iterations", 1, "--out", tmp_path / "plan")
    results = svrl_json("train", "--resume", tmp_path)
    assert [(row["seed"], row["steps"]) for row in results] == [(0, 400), (1, 100)]
    assert not (tmp_path / "runs.json").exists()
    assert is_finished(tmp_path / "one")


@pytest.mark.parametrize("name", ["../dqn-seed0", "..", "/tmp/x", ""])
def test_a_list_names_folders_of_its_own(svrl, tmp_path, monkeypatch, plain, name):
    stopped_after(50, svrl, monkeypatch, *SEVERAL, "--out", tmp_path)
    listed = json.loads((tmp_path / "runs.json").read_text())
    (tmp_path / "runs.json").write_text(json.dumps({name: listed["dqn-seed0"]}))
    result = svrl("train", "--resume", tmp_path)
    assert result.exit_code == 2
    assert f"is damaged: {name!r} is not the name of a run" in result.stderr


def test_runs_that_cannot_begin_leave_no_list(svrl, tmp_path):
    result = svrl("train", "Nothing-v0", "--agents", "dqn,double", "--device", "cpu", "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []
