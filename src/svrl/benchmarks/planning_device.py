"""Planning on a card against the CPU of the same machine: the inverted pendulum on the paper's largest grid.

10000 states and 4000 actions (quick: 400 and 100). Both devices tabulate the same task in single precision and start
from the same values. Measured are a full sweep, V <- max over actions of r + discount * E[V'], in single precision,
and one iteration of two methods, which keep V in double and matrices in single precision: `cross` (rank 12) and `svp`
(20% of the pairs observed). Ours is the card, the peer all cores of the CPU.

A sweep has to read the compact table once, 16 bytes a pair. Those bytes over the bandwidth of a copy on the card are
the floor of its time. A small table stays in the card's cache, so the floor of the quick grid means little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from svrl.benchmarks.rows import Row, median_seconds, seconds
from svrl.mdp.grid import GridMDP
from svrl.mdp.inverted_pendulum import inverted_pendulum
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.plan import TraceRow, advance, begin
from svrl.planning.structured import StructuredValueIteration
from svrl.runs.cores import usable_cores

TURNS, REPEATS = 5, 3
LEFT_OUT, TIMED = 2, 5
"""Iterations before the clock starts, a cold one and the first warm one, and those that are timed."""
LEAST_COPY = 1 << 26
"""Bytes of the smallest copy whose bandwidth is measured: more than the cache of a card holds twice."""
COPIES = 10
OBSERVE = 0.2


def measure_planning_device(quick: bool, device: str) -> Iterator[Row]:
    """Rows for a full sweep, for its floor, and for an iteration of each method.

    Args:
        quick: The small grid.
        device: As "cuda"; with "cpu" the CPU is measured against itself.

    Raises:
        ValueError: If there is no such device.
    """
    card = torch.device(device)
    if card.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"Planning on {device} needs a CUDA device, and torch finds none. Measure with device cpu.")
    task = inverted_pendulum(states=(20, 20) if quick else (100, 100), actions=100 if quick else 4000)
    with _all_cores() as cores:
        there = GridMDP(task, mode="table", device=card)
        here = GridMDP(task, mode="table", threads=cores)
        yield from _sweeps(there, here)
        steps = LEFT_OUT + TIMED
        for method in (
            CrossValueIteration(max_iterations=steps),
            StructuredValueIteration(observe=OBSERVE, max_iterations=steps),
        ):
            yield _iterations(there, here, method)


def _sweeps(there: GridMDP, here: GridMDP) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    values = [torch.from_numpy(5 * rng.standard_normal(here.n_states, dtype=np.float32)) for _ in range(TURNS)]
    calls = [(partial(_sweep, there, v.to(there.device)), partial(_sweep, here, v)) for v in values]
    best = [call()[0].cpu() for call in calls[0]]  # compiles, too
    ours, peer = median_seconds(calls, repeats=REPEATS)
    note = {"threads": here.threads, "sup_distance": float((best[0] - best[1]).abs().max())}
    name = f"{here.n_states}x{here.n_actions} full sweep on {there.device}"
    yield Row(name=name, unit="s", ours=ours, peer=peer, peer_name=_cpu(here), note=note)
    bandwidth = copy_bandwidth(max(there.table_bytes, LEAST_COPY), there.device)
    yield Row(
        name=f"{name}, against its floor",
        unit="s",
        ours=ours,
        peer=there.table_bytes / bandwidth,
        peer_name="the table's bytes over copy bandwidth",
        note={"table_bytes": there.table_bytes, "bytes_per_second": bandwidth},
    )


def _sweep(model: GridMDP, v: Tensor) -> tuple[Tensor, Tensor]:
    found = model.improve(v)
    _wait(model.device)
    return found


def copy_bandwidth(size: int, device: torch.device) -> float:
    """Bytes read and written a second by a copy of `size` bytes on the device; the best of some."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.ones_like(source)

    def copy() -> None:
        target.copy_(source)
        _wait(device)

    copy()
    return 2 * size / min(seconds(copy) for _ in range(COPIES))


def _iterations(there: GridMDP, here: GridMDP, method: Method) -> Row:
    """Median seconds of an iteration on both, and how they divide into backups and estimation."""
    ours, mine = _timed(there, method)
    peer, theirs = _timed(here, method)
    shares = {f"ours_{part}_s": time for part, time in mine.items()}
    shares |= {f"peer_{part}_s": time for part, time in theirs.items()}
    return Row(
        name=f"{here.n_states}x{here.n_actions} iteration of {method.name} on {there.device}",
        unit="s",
        ours=ours,
        peer=peer,
        peer_name=_cpu(here),
        note={"threads": here.threads, "iterations": TIMED, **shares},
    )


def _timed(model: GridMDP, method: Method) -> tuple[float, dict[str, float]]:
    run = begin(model, method, seed=0)
    moments, rows = [], []
    for row in advance(model, method, run):
        _wait(model.device)
        moments.append(time.perf_counter())
        rows.append(row)
    spent = {"backup": _medians(rows, lambda row: row.seconds_backup)}
    spent["estimate"] = _medians(rows, lambda row: row.seconds_estimate)
    return statistics.median(np.diff(moments[LEFT_OUT - 1 :]).tolist()), spent


def _medians(rows: list[TraceRow], so_far: Callable[[TraceRow], float]) -> float:
    return float(np.median(np.diff([so_far(row) for row in rows[LEFT_OUT - 1 :]])))


def _cpu(model: GridMDP) -> str:
    return f"CPU, {model.threads} thread{'s' if model.threads > 1 else ''}"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _all_cores() -> Iterator[int]:
    """Torch on every core that this process may use, and their number."""
    earlier, cores = torch.get_num_threads(), usable_cores()
    torch.set_num_threads(cores)
    try:
        yield cores
    finally:
        torch.set_num_threads(earlier)
