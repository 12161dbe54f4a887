"""SI-RF for batches of small matrices: a numba kernel on the CPU, a CUDA kernel on a GPU, torch twins for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from svrl.matrix.arrays import as_array
from svrl.matrix.soft_impute.small_cuda import FINEST_IN_SINGLE, serves, solve_small_cuda, working_type
from svrl.matrix.soft_impute.small_matmul import solve_small_matmul
from svrl.matrix.soft_impute.small_twin import solve_small_twin
from svrl.matrix.soft_impute.solution import Solution
from svrl.runtime.threads import share_out

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
        solve = _on_gpu(values, working_type(values.dtype, shrinkage, ratio))
        solution = solve(values, mask, shrinkage, ratio, start, tolerance, max_steps, fill=fill)
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


def _on_gpu(values: torch.Tensor, kind: torch.dtype) -> Callable[..., Solution]:
    """The kernel where it serves; else the twin, or what can be recorded in a graph while one is."""
    m, n = values.shape[-2:]
    if serves(m, n, kind, values.device):
        return solve_small_cuda
    recording = values.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return solve_small_matmul if recording else solve_small_twin


class SmallArrays(NamedTuple):
    """What the kernel found, as NumPy arrays: result (B, m, n), the others (B,)."""

    result: np.ndarray
    shrinkage: np.ndarray
    change: np.ndarray
    iterations: np.ndarray
    rank: np.ndarray
    code: np.ndarray


def solve_small_arrays(
    values: np.ndarray,
    mask: np.ndarray,
    shrinkage: float | np.ndarray | None,
    ratio: float,
    start: np.ndarray | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> SmallArrays:
    """The kernel on contiguous (B, m, n), m >= n. No torch: for one small matrix its calls would cost most."""
    from svrl.matrix.soft_impute.small_kernel import solve_range

    if values.dtype == np.float32 and _too_fine(values, shrinkage, ratio):
        wide = solve_small_arrays(
            values.astype(np.float64),
            mask,
            shrinkage,
            ratio,
            None if start is None else start.astype(np.float64),
            tolerance,
            max_steps,
            fill=fill,
        )
        return wide._replace(result=wide.result.astype(np.float32))
    batch, m, n = values.shape
    result, real, whole = np.empty(values.shape, values.dtype), np.empty((2, batch)), np.empty((3, batch), np.int64)
    if shrinkage is not None:
        real[0], ratio = shrinkage, 0.0
    guess, warm = (values, False) if start is None else (start, True)

    def solve(low: int, high: int) -> None:
        solve_range(values, mask, guess, warm, ratio, tolerance, max_steps, fill, low, high, result, real, whole)

    threads = 1 if batch * m * n * n < _WORTH_A_THREAD else torch.get_num_threads()
    share_out(solve, batch, threads, pieces_each=4)  # matrices need different numbers of iterations
    return SmallArrays(result, real[0], real[1], whole[0], whole[1], whole[2])


def _too_fine(values: np.ndarray, shrinkage: float | np.ndarray | None, ratio: float) -> bool:
    """Whether float32 would lose the shrinkage in I - W, whose smallest entries are about its share."""
    if shrinkage is None:
        return ratio < FINEST_IN_SINGLE
    return bool(np.min(shrinkage) < FINEST_IN_SINGLE * np.abs(values).max())
