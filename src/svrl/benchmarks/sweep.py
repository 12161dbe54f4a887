"""What a sweep costs beside its runs: many trivial runs by `run_locally`, against loops that keep no books.

A run is a training of 100 steps on CartPole. It is done in three ways, as many at a time as there are cores: by the
sweep, by a loop that starts `python -m svrl train ...`, and by a loop that forks the same command from the server that
the sweep forks from. The ways take turns in blocks, so that whatever else the machine does falls on all of them.
Starting the server once is part of the sweep's time beside the first loop; the second shares the server.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from svrl.benchmarks.rows import Row, seconds
from svrl.sweeps.child import words_to
from svrl.sweeps.engine import Effort
from svrl.sweeps.forked import fork_server
from svrl.sweeps.local_engine import run_locally
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.settings import spec_of
from svrl.sweeps.work import run_command

RUNS, QUICK = 200, 20
BLOCKS, QUICK_BLOCKS = 10, 2
STEPS = 100


@dataclass(frozen=True, kw_only=True)
class Ways:
    """Seconds of each block, done in each way."""

    sweep: tuple[float, ...]
    processes: tuple[float, ...]
    forked: tuple[float, ...]


def measure_sweep(quick: bool, runs: int | None = None) -> Iterator[Row]:
    """Rows for a sweep against a bare loop of processes, and against one that forks as the sweep does.

    Args:
        quick: 20 runs instead of 200.
        runs: How many, in place of those numbers; at least as many as there are blocks.
    """
    count, blocks = runs or (QUICK if quick else RUNS), QUICK_BLOCKS if quick else BLOCKS
    specs = [
        spec_of("train", {"env": "CartPole-v1", "preset": "smoke", "seed": seed, "steps": STEPS, "eval_episodes": 1})
        for seed in range(count)
    ]
    with tempfile.TemporaryDirectory(prefix="svrl-bench-sweep-") as folder:
        place, jobs = Path(folder), _cores()
        # Once before: the server starts, and files that all ways read are in the system's memory.
        start = seconds(lambda: _by_sweep(specs[:1], place / "start", jobs))
        again = seconds(lambda: _by_sweep(specs[:1], place / "again", jobs))
        _by_processes(specs[:1], place / "once", jobs)
        found = _in_turns(specs, place, jobs, blocks)
    server = max(0.0, start - again)
    note = {"runs": count, "at_a_time": jobs, "blocks": blocks, "seconds_start": server}
    yield _row(count, sum(found.sweep) + server, found.processes, "a bare loop of processes", note)
    added = [ours / bare - 1.0 for ours, bare in zip(found.sweep, found.forked, strict=True)]
    note = {**note, "added": sum(found.sweep) / sum(found.forked) - 1.0, "added_median_of_blocks": _median(added)}
    yield _row(count, sum(found.sweep), found.forked, "a bare loop that forks", note)


def _row(runs: int, ours: float, peer: Sequence[float], name: str, note: dict[str, Any]) -> Row:
    return Row(
        name=f"sweep of {runs} trivial runs",
        unit="s a run",
        ours=ours / runs,
        peer=sum(peer) / runs,
        peer_name=name,
        note=note,
    )


def _in_turns(specs: Sequence[RunSpec], place: Path, jobs: int, blocks: int) -> Ways:
    ways: list[Callable[[Sequence[RunSpec], Path, int], None]] = [_by_sweep, _by_processes, _by_forks]
    taken: dict[Callable[..., None], list[float]] = {way: [] for way in ways}
    for block in range(blocks):
        part = specs[block::blocks]
        turn = block % len(ways)
        for way in ways[turn:] + ways[:turn]:
            folder = place / f"{way.__name__}-{block}"
            taken[way].append(seconds(partial(way, part, folder, jobs)))
    sweep, processes, forked = (tuple(taken[way]) for way in ways)
    return Ways(sweep=sweep, processes=processes, forked=forked)


def _by_sweep(specs: Sequence[RunSpec], place: Path, jobs: int) -> None:
    found = run_locally(specs, str(place), effort=Effort(jobs=jobs))
    if found.count("done") != len(specs):
        raise ValueError(f"Runs of the benchmark failed: {found.failures or found.states}.")


def _by_processes(specs: Sequence[RunSpec], place: Path, jobs: int) -> None:
    place.mkdir()
    waiting, running = list(reversed(specs)), dict[int, subprocess.Popen[bytes]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            spec = waiting.pop()
            with (place / f"{spec.id}.txt").open("wb") as log:
                words = [sys.executable, "-m", "svrl", *spec.argv(place / spec.id, resume=False, threads=1)]
                process = subprocess.Popen(words, stdout=log, stderr=log)
            running[os.pidfd_open(process.pid)] = process
        for ended in wait(list(running)):
            assert isinstance(ended, int)
            if running.pop(ended).wait() != 0:
                raise ValueError("A process of the benchmark failed.")
            os.close(ended)


def _by_forks(specs: Sequence[RunSpec], place: Path, jobs: int) -> None:
    place.mkdir()
    context = fork_server(["train"])
    waiting, running = list(reversed(specs)), dict[Any, Any]()
    while waiting or running:
        while waiting and len(running) < jobs:
            spec = waiting.pop()
            argv = spec.argv(place / spec.id, resume=False, threads=1)
            process = context.Process(target=_forked, args=(argv, place / f"{spec.id}.txt"))
            process.start()
            running[process.sentinel] = process
        for ended in wait(list(running)):
            process = running.pop(ended)
            process.join()
            if process.exitcode != 0:
                raise ValueError("A process of the benchmark failed.")
            process.close()


def _forked(argv: Sequence[str], log: Path) -> None:
    with words_to(log):
        code = run_command(argv)
    sys.exit(code)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))
