"""A sweep whose runs share a GPU as a population: one process, and each run what it is alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from tests.runs.local_rig import Told, all_of, at_first, has_checkpoint, leftovers, process_of, trainings

from svrl.runs.local import run_locally
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.store import Store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_the_gpu(steps: int) -> list[RunSpec]:
    return trainings(steps, seeds=2, arms=("dqn", "sv-dqn"), device="cuda")


def processes(address: Path, specs: list[RunSpec]) -> set[int]:
    return {process_of(address, spec) for spec in specs}


def test_a_population_is_one_process_and_its_runs_are_those_alone(tmp_path: Path) -> None:
    specs = on_the_gpu(600)
    together, alone = tmp_path / "together", tmp_path / "alone"
    for address, gpus in ((together, 0.25), (alone, 1.0)):
        summary = run_locally(specs, str(address), effort=Effort(gpus=gpus))
        assert summary.count("done") == len(specs), summary.failures
    assert (len(processes(together, specs)), len(processes(alone, specs))) == (1, 1)
    assert all_of(together, specs) == all_of(alone, specs)
    assert leftovers(together) == []


def test_a_population_that_was_killed_goes_on_and_each_run_is_done_once(tmp_path: Path) -> None:
    specs = on_the_gpu(8_000)
    killed: list[int] = []

    def kill() -> None:
        killed.append(process_of(tmp_path, specs[0]))
        os.kill(killed[0], signal.SIGKILL)

    told = Told(at_first(lambda: all(has_checkpoint(tmp_path, spec) for spec in specs), kill))
    effort = Effort(gpus=0.25, checkpoint_every=0.3)
    summary = run_locally(specs, str(tmp_path), effort=effort, listener=told)
    assert summary.count("done") == len(specs), summary.failures
    assert killed[0] not in processes(tmp_path, specs)
    for spec in specs:
        outcomes = [row["outcome"] for row in Store(tmp_path).attempts(spec.id) if "outcome" in row]
        assert outcomes == ["killed", "done"]
    assert leftovers(tmp_path) == []


def test_runs_on_cores_wait_until_those_on_the_gpu_are_over(tmp_path: Path) -> None:
    cores, gpu = trainings(300)[0], trainings(1_000, device="cuda")[0]
    told = Told()
    summary = run_locally([gpu, cores], str(tmp_path), effort=Effort(gpus=1.0), listener=told)
    assert summary.count("done") == 2, summary.failures
    assert [run for run, _, _ in told.ended] == [gpu.id, cores.id]
