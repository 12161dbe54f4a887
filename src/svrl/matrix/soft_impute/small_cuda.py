"""SI-RF on a GPU: launches the kernel of small_cuda.cu, one block a matrix.

It serves matrices (m, n) of at most 32 columns whose work fits in the shared memory of a block: 512 x 32 on an
H200 in float32, 128 x 18 on every GPU. Nothing here waits for the device, and the launch can be captured
in a CUDA graph, once the kernel has been compiled by a call outside of it.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from importlib import resources
from typing import NamedTuple

import torch

from svrl.matrix.cuda_compiler import Kernel, NoCompilerError, compiled
from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.solution import Solution

LANES = 32
"""Threads of a warp."""
MOST_COLUMNS = LANES
"""A lane for each."""
MOST_WARPS = 16
FINEST_IN_SINGLE = 1e-3
"""Shrinkages below this share of the largest singular value are worked on in float64."""
SCALINGS = {"none": 0, "minmax": 1, "row": 2}
"""As `Scaling` in small_cuda.cu."""
REALS = {torch.float32: "float", torch.float64: "double"}


class Completed(NamedTuple):
    """Matrices completed inside a scaling: matrix and estimate (B, m, n), rank and code (B,)."""

    matrix: torch.Tensor
    estimate: torch.Tensor
    rank: torch.Tensor
    code: torch.Tensor


def solve_small_cuda(
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
    """Complete values (B, m, n), m >= n; shrinkage (B,), or None for ratio times the largest singular value."""
    kind = values.dtype
    values = values.to(working_type(kind, shrinkage, ratio))
    result = torch.empty_like(values, memory_format=torch.contiguous_format)
    levels = values.new_zeros(len(values), dtype=torch.float64) if shrinkage is None else shrinkage.double().clone()
    ratio = ratio if shrinkage is None else 0.0
    start = None if start is None else start.to(values.dtype).contiguous()
    ends = _launch(values, mask, start, result, None, levels, SCALINGS["none"], ratio, tolerance, max_steps, fill)
    result = result.to(kind)
    return Solution(
        filled=result if fill else None,
        estimate=None if fill else result,
        shrinkage=levels,
        rank=ends.rank,
        iterations=ends.steps,
        change=ends.change,
        code=ends.code,
    )


def complete_scaled_cuda(
    q: torch.Tensor,
    mask: torch.Tensor,
    *,
    scaling: str,
    fill: bool,
    ratio: float,
    tolerance: float,
    max_steps: int,
) -> Completed:
    """Scale q (B, m, n), m >= n, estimate, scale back and fill, in one launch: all of structured targets."""
    matrix, estimate = (torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(2))
    levels = q.new_empty(len(q), dtype=torch.float64)
    ends = _launch(q, mask, None, matrix, estimate, levels, SCALINGS[scaling], ratio, tolerance, max_steps, fill)
    return Completed(matrix, estimate, ends.rank, ends.code)


class _Ends(NamedTuple):
    change: torch.Tensor
    steps: torch.Tensor
    rank: torch.Tensor
    code: torch.Tensor


def _launch(
    values: torch.Tensor,
    mask: torch.Tensor,
    start: torch.Tensor | None,
    result: torch.Tensor,
    estimate: torch.Tensor | None,
    levels: torch.Tensor,
    scaling: int,
    ratio: float,
    tolerance: float,
    max_steps: int,
    fill: bool,
) -> _Ends:
    batch, m, n = values.shape
    values, mask = values.contiguous(), mask.contiguous()
    change = torch.empty_like(levels)
    steps, rank, code = (torch.empty(batch, dtype=torch.int64, device=values.device) for _ in range(3))
    ends = (Outcome.CONVERGED, Outcome.OUT_OF_STEPS, Outcome.NOT_FINITE)
    numbers = (m, n, scaling), (ratio, tolerance), (max_steps, int(fill), *(end.code for end in ends))
    with torch.cuda.device(values.device):
        _kernel(values.dtype, m, n, values.device)(
            *(values, mask, start, result, estimate, levels, change, steps, rank, code),
            *map(ctypes.c_int, numbers[0]),
            *map(ctypes.c_double, numbers[1]),
            *map(ctypes.c_int, numbers[2]),
            blocks=batch,
            threads=32 * max(_even(n) // 2, min(MOST_WARPS, m)),
            shared=_shared_bytes(m, n, values.dtype),
        )
    return _Ends(change, steps, rank, code)


def working_type(dtype: torch.dtype, shrinkage: torch.Tensor | None, ratio: float) -> torch.dtype:
    """float64 where the shrinkage may be lost in float32: where it is a small share, or nobody knows which."""
    return dtype if shrinkage is None and ratio >= FINEST_IN_SINGLE else torch.float64


def serves(m: int, n: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel takes matrices (m, n), m >= n, of its working type here; if it cannot be compiled, says so."""
    if device.type != "cuda" or dtype not in REALS or n > MOST_COLUMNS:
        return False
    most = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 48 << 10)
    if _shared_bytes(m, n, dtype) > most:
        return False
    try:
        _kernel(dtype, m, n, device)
    except NoCompilerError as error:
        _say_once(str(error))
        return False
    return True


def _even(n: int) -> int:
    return n + n % 2


def _shared_bytes(m: int, n: int, dtype: torch.dtype) -> int:
    """As the kernel lays its work out: two copies of the rows, the turned columns, two squares, and odds and ends."""
    n = _even(n)
    return dtype.itemsize * (2 * m * (n + 1) + m * n + 2 * n * n + 2 * n + 96 + m) + 4 * m


def _kernel(dtype: torch.dtype, m: int, n: int, device: torch.device) -> Kernel:
    definitions: dict[str, str | int] = {"REAL": REALS[dtype], "N": _even(n), "ROWS": -(-m // LANES)}
    return compiled(_source(), "soft_impute_small", definitions, device)


@functools.cache
def _source() -> str:
    return resources.files("svrl.matrix.soft_impute").joinpath("small_cuda.cu").read_text(encoding="utf-8")


@functools.cache
def _say_once(reason: str) -> None:
    warnings.warn(f"Soft-Impute on the GPU goes without its kernel, which is slower. {reason}", stacklevel=4)
