"""What a sweep costs beside its runs: many trivial runs by `run_locally`, against plain loops over the same call.

A run is a training of 100 steps on CartPole. The loops run in as many spawned processes as the sweep has workers, and
keep no books. Time is the CPU time of all processes, because other programs on the machine do not change it; starting
the processes is part of both.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from svrl.benchmarks.rows import Row
from svrl.runs.cores import usable_cores
from svrl.sweeps.driver import Effort
from svrl.sweeps.local import run_locally
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.settings import spec_of

RUNS, QUICK = 200, 20
STEPS = 100


def measure_sweep(quick: bool, runs: int | None = None) -> Iterator[Row]:
    """A row for a sweep against plain loops.

    Args:
        quick: 20 runs instead of 200.
        runs: How many, in place of those numbers.
    """
    count, jobs = runs or (QUICK if quick else RUNS), usable_cores()
    settings = {"env": "CartPole-v1", "preset": "smoke", "steps": STEPS, "eval_episodes": 1}
    specs = [spec_of("train", {**settings, "seed": seed}) for seed in range(count)]
    with tempfile.TemporaryDirectory(prefix="svrl-bench-sweep-") as folder:
        ours = _cpu_seconds(lambda: _by_sweep(specs, Path(folder) / "sweep", jobs))
        peer = _cpu_seconds(lambda: _by_loops(specs, Path(folder) / "loops", jobs))
    yield Row(
        name=f"sweep of {count} trivial runs",
        unit="s a run",
        ours=ours / count,
        peer=peer / count,
        peer_name="plain loops over the same call",
        note={"runs": count, "at_a_time": jobs, "added": ours / peer - 1.0, "time": "CPU time of all processes"},
    )


def _by_sweep(specs: Sequence[RunSpec], place: Path, jobs: int) -> None:
    found = run_locally(specs, str(place), effort=Effort(jobs=jobs))
    if found.count("done") != len(specs):
        raise ValueError(f"Runs of the benchmark failed: {found.failures or found.states}.")


def _by_loops(specs: Sequence[RunSpec], place: Path, jobs: int) -> None:
    context = multiprocessing.get_context("spawn")
    parts = [[spec.as_json() for spec in specs[at::jobs]] for at in range(jobs)]
    processes = [context.Process(target=_loop, args=(part, place)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise ValueError("A process of the benchmark failed.")


def _loop(part: Sequence[dict[str, object]], place: Path) -> None:
    import torch

    from svrl.experiments.training.session import train_in_directory

    torch.set_num_threads(1)
    for fields in part:
        spec = RunSpec.from_json(fields)
        folder = place / spec.id
        train_in_directory(spec.subject, spec.agent_config(), folder=folder, seed=spec.seed, env_threads=1)


def _cpu_seconds(work: Callable[[], None]) -> float:
    """CPU time of this process and of those that it started and that have ended."""

    def used() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(found.ru_utime + found.ru_stime for found in both)

    before = used()
    work()
    return used() - before
