"""SI-RF for batches of small matrices: the numba kernel on the CPU, its torch twin elsewhere."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from svrl.matrix.arrays import as_array
from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.small_twin import solve_small_twin
from svrl.matrix.soft_impute.solution import Solution

LONGEST_SIDE, SHORTEST_SIDE = 512, 64
"""Up to this size the kernel's fixed basis in cache beats everything that works on large matrices."""

_WORTH_A_THREAD = 1 << 16
"""Batches with fewer than this many m * n * n operations finish before a second thread has woken up."""


def is_small(m: int, n: int) -> bool:
    """Whether SI-RF is the solver for this shape."""
    return max(m, n) <= LONGEST_SIDE and min(m, n) <= SHORTEST_SIDE


def solve_small(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor | None,
    ratio: float,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> Solution:
    """Complete values (B, m, n); shrinkage (B,) absolute, or None for ratio times the largest singular value."""
    turn = values.shape[-2] < values.shape[-1]
    if turn:
        values, mask, start = values.mT, mask.mT, None if start is None else start.mT
    if values.device.type != "cpu":
        solution = solve_small_twin(values, mask, shrinkage, ratio, start, tolerance, max_steps, fill=fill)
    else:
        found = solve_small_arrays(
            as_array(values),
            as_array(mask),
            None if shrinkage is None else as_array(shrinkage),
            ratio,
            None if start is None else as_array(start),
            tolerance,
            max_steps,
            fill=fill,
        )
        result = torch.from_numpy(found.result)
        solution = Solution(
            filled=result if fill else None,
            estimate=None if fill else result,
            shrinkage=torch.from_numpy(found.shrinkage),
            rank=torch.from_numpy(found.rank),
            iterations=torch.from_numpy(found.iterations),
            change=torch.from_numpy(found.change),
            code=torch.from_numpy(found.code),
        )
    return solution.transposed() if turn else solution


class SmallArrays(NamedTuple):
    """What the kernel found, as NumPy arrays: result (B, m, n), the others (B,)."""

    result: np.ndarray
    shrinkage: np.ndarray
    rank: np.ndarray
    iterations: np.ndarray
    change: np.ndarray
    code: np.ndarray


def solve_small_arrays(
    values: np.ndarray,
    mask: np.ndarray,
    shrinkage: np.ndarray | None,
    ratio: float,
    start: np.ndarray | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> SmallArrays:
    """The kernel on contiguous (B, m, n), m >= n. No torch: for one small matrix its calls would cost most."""
    from svrl.matrix.soft_impute.small_kernel import solve_range

    batch, m, n = values.shape
    result = np.empty(values.shape, values.dtype)
    steps, ranks = np.empty(batch, np.int64), np.empty(batch, np.int64)
    changes = np.empty(batch)
    shrinkages = np.zeros(batch) if shrinkage is None else shrinkage.astype(np.float64)

    def solve(low: int, high: int) -> None:
        solve_range(
            values,
            mask,
            values if start is None else start,
            start is not None,
            shrinkages,
            ratio if shrinkage is None else 0.0,
            tolerance,
            max_steps,
            fill,
            low,
            high,
            result,
            steps,
            ranks,
            changes,
        )

    if batch == 1 or batch * m * n * n < _WORTH_A_THREAD or torch.get_num_threads() == 1:
        solve(0, batch)
    else:
        # Several pieces a thread, because matrices need different numbers of iterations.
        threads = min(torch.get_num_threads(), batch)
        pieces = min(batch, 4 * threads)
        bounds = [batch * k // pieces for k in range(pieces + 1)]
        list(_threads(os.getpid(), threads).map(solve, bounds[:-1], bounds[1:]))
    code = (changes >= tolerance) * np.int64(Outcome.OUT_OF_STEPS.code)
    return SmallArrays(result, shrinkages, ranks, steps, changes, code)


@lru_cache(maxsize=4)
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """A pool that sleeps between calls; the process id makes a forked child build its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="svrl-soft-impute")
