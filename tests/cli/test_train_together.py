from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from training_runs import SMOKE, assert_same_run, names, sending

from svrl.agents import evaluation
from svrl.agents.config import AgentConfig
from svrl.cli.train import TrainProgress, default_threads

ARMS = ("dqn", "sv-double-network")
TWO = (*SMOKE, "--agents", ",".join(ARMS), "--steps", 300, "--eval-every", 150, "--eval-episodes", 2)
FOLDERS = [f"{arm}-seed0" for arm in ARMS]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of TWO, each made by a command of its own."""
    from typer.testing import CliRunner

    from svrl.cli.main import app

    place = tmp_path_factory.mktemp("alone")
    single = [*map(str, SMOKE), *map(str, TWO[len(SMOKE) + 2 :])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svrl.plots.style.save_figure", lambda _, path: path.write_bytes(b"picture"))
        for folder, more in zip(FOLDERS, ([], ["--agent", "double", "--structured"]), strict=True):
            result = CliRunner().invoke(app, [*single, *more, "--out", str(place / folder)])
            assert result.exit_code == 0, result.stderr
    return place


def at_step(steps: int, act: Callable[[], object], label: str = "") -> Callable[[TrainProgress], None]:
    """A bar that does something once, when a run whose label holds `label` is so far."""
    done: list[bool] = []

    def call(self: TrainProgress) -> None:
        if not done and label in self._label and self._training.steps >= steps:
            done.append(True)
            act()

    return call


def fail() -> None:
    raise ValueError("The loss is nan.")


def test_runs_together_are_the_runs_alone(svrl_json, tmp_path, alone, plain):
    results = svrl_json(*TWO, "--together", 2, "--out", tmp_path)
    assert [result["arm"] for result in results] == list(ARMS)
    assert names(tmp_path) == {*FOLDERS, "runs.json", "learning_curves.png"}
    for folder, result in zip(FOLDERS, results, strict=True):
        assert_same_run(alone / folder, tmp_path / folder)
        for name in ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl"):
            assert (alone / folder / name).read_bytes() == (tmp_path / folder / name).read_bytes()
        assert json.loads((tmp_path / folder / "result.json").read_text()) == result


def test_a_stopped_population_becomes_what_it_would_have_been(svrl, tmp_path, monkeypatch, alone, plain):
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", at_step(60, sending(signal.SIGTERM)))
        result = svrl(*TWO, "--together", 2, "--out", tmp_path)
    assert result.exit_code == 143, result.stderr
    assert not list(tmp_path.glob("*/result.json"))
    line = result.stderr.strip().splitlines()[-1]
    again = shlex.split(line.removeprefix(f"Stopped; what was done is in {tmp_path}. Resume with: svrl "))
    assert again == ["train", "--together", "2", "--resume", str(tmp_path)]
    result = svrl(*again)
    assert result.exit_code == 0, result.stderr
    for folder in FOLDERS:
        assert_same_run(alone / folder, tmp_path / folder)
        assert not {"checkpoints", "replay"} & names(tmp_path / folder)


def test_a_run_of_a_stopped_population_goes_on_alone(svrl, tmp_path, monkeypatch, alone, plain):
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", at_step(60, sending(signal.SIGINT)))
        assert svrl(*TWO, "--together", 2, "--out", tmp_path).exit_code == 130
    single = (*SMOKE, *TWO[len(SMOKE) + 2 :], "--agent", "double", "--structured")
    result = svrl(*single, "--out", tmp_path / FOLDERS[1], "--resume")
    assert result.exit_code == 0, result.stderr
    assert_same_run(alone / FOLDERS[1], tmp_path / FOLDERS[1])
    assert not (tmp_path / FOLDERS[0] / "result.json").exists()


def test_a_signal_does_not_wait_for_evaluations_of_threads(svrl, tmp_path, monkeypatch, alone, plain):
    real = evaluation.evaluate
    both = threading.Barrier(2)

    def evaluate(*arguments, progress, **options):
        def told(done: int, of: int) -> None:
            if both.wait() == 0:
                sending(signal.SIGTERM)()
            for _ in range(200):  # until the main thread has heard it
                progress(done, of)
                threading.Event().wait(0.05)
            pytest.fail("waited")

        return real(*arguments, progress=told, **options)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "evaluate", evaluate)
        result = svrl(*TWO, "--together", 2, "--out", tmp_path)
    assert result.exit_code == 143, result.stderr
    assert all((tmp_path / folder / "checkpoints").exists() for folder in FOLDERS)
    assert svrl(*TWO, "--together", 2, "--out", tmp_path, "--resume").exit_code == 0
    for folder in FOLDERS:
        assert_same_run(alone / folder, tmp_path / folder)


@pytest.mark.parametrize("together", [1, 2])
def test_a_failed_run_leaves_the_others(svrl, tmp_path, monkeypatch, alone, plain, together):
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", at_step(60, fail, label=" dqn "))
        result = svrl(*TWO, "--together", together, "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stdout == ""
    failure, closing = result.stderr.strip().splitlines()[-2:]
    assert failure == f"Error: {tmp_path / FOLDERS[0]} failed: The loss is nan."
    assert closing.startswith(f"What was done is in {tmp_path}. When that is repaired, resume with: svrl train ")
    assert names(tmp_path) == {FOLDERS[1], "runs.json"}
    assert_same_run(alone / FOLDERS[1], tmp_path / FOLDERS[1])
    assert svrl(*shlex.split(closing.split("resume with: svrl ")[1])).exit_code == 0
    assert_same_run(alone / FOLDERS[0], tmp_path / FOLDERS[0])


def test_a_mistake_of_the_program_keeps_its_traceback(svrl, tmp_path, monkeypatch, plain):
    monkeypatch.setattr(TrainProgress, "__call__", at_step(60, lambda: [] + 1, label=" dqn "))  # type: ignore[operator]
    result = svrl(*TWO, "--together", 2, "--out", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, TypeError)
    assert f"Error: {tmp_path / FOLDERS[0]} failed: TypeError: " in result.stderr
    assert (tmp_path / FOLDERS[1] / "result.json").exists()


TWICE = """
import os, signal, time
from svrl.agents.checkpoint import Checkpoints
from svrl.cli.main import app

def save(*_):
    while True:  # it takes for ever, and somebody is impatient
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

Checkpoints.save = save
app({})
"""


def test_a_second_signal_ends_at_once(tmp_path):
    options = [*map(str, TWO), "--together", "2", "--checkpoint-every", "1e-9", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", TWICE.format(options)], capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"Stopped; what was done is in {tmp_path}. Resume with: svrl train ")


def test_runs_with_different_threads_are_not_trained_together(svrl, tmp_path, monkeypatch, plain):
    for arm, threads in (("dqn", 1), ("double", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(TrainProgress, "__call__", at_step(20, sending(signal.SIGINT)))
            command = (*SMOKE[:-1], threads, "--steps", 60, "--agents", arm, "--out", tmp_path)
            assert svrl(*command).exit_code == 130
    command = (*SMOKE[:-2], "--steps", 60, "--agents", "dqn,double", "--out", tmp_path, "--resume", "--together")
    refused = svrl(*command, 2)
    assert refused.exit_code == 2
    assert "these want 1 and 2. Train them one at a time" in refused.stderr
    result = svrl(*command, 1, "--json")
    assert [found["threads"] for found in json.loads(result.stdout)] == [1, 2]


# What is taken where nothing is given.


def test_large_networks_on_the_cpu_share_its_cores(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    large, small = AgentConfig.of("authors"), AgentConfig.of("classic")
    assert [default_threads(large, "cpu", together) for together in (1, 4, 40)] == [16, 4, 1]
    assert default_threads(large, "cuda", 4) == default_threads(small, "cpu", 4) == 1
