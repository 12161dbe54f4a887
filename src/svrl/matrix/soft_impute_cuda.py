"""SI-RF on a GPU: launches the kernel of soft_impute_cuda.cu, one block per matrix.

It supports matrices (m, n) of at most 32 columns whose work fits in the shared memory of a block: 512 x 32 on an
H200 in float32, 128 x 18 on every GPU. Nothing here waits for the device, and a CUDA graph can capture the
launch once a call outside the graph has compiled the kernel.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from importlib import resources

import torch

from svrl.matrix.estimate import Outcome
from svrl.matrix.scaling import Completed, Scale
from svrl.matrix.soft_impute_reference import FINEST_IN_SINGLE, Solution
from svrl.runtime.nvrtc import Kernel, NoCompilerError, compiled

LANES = 32
"""Threads of a warp."""
MOST_COLUMNS = LANES
"""Each column takes a thread of a warp."""
MOST_WARPS = 16
SCALES: tuple[Scale, ...] = ("none", "minmax", "row")
"""In the order of `Scaling` in soft_impute_cuda.cu."""
REALS = {torch.float32: "float", torch.float64: "double"}


def solve_on_gpu(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor | None,
    ratio: float,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> Solution[torch.Tensor]:
    """Complete values (B, m, n), m >= n; shrinkage (B,), or None for ratio times the largest singular value."""
    given = values.to(working_type(values.dtype, shrinkage, ratio))
    matrix = torch.empty_like(given, memory_format=torch.contiguous_format)
    levels = values.new_zeros(len(values), dtype=torch.float64) if shrinkage is None else shrinkage.double().clone()
    ratio = ratio if shrinkage is None else 0.0
    start = None if start is None else start.to(given.dtype).contiguous()
    ends = _launch(given, mask, start, matrix, None, levels, "none", ratio, tolerance, max_steps, fill)
    return Solution(matrix.to(values.dtype), levels, *ends)


def complete_scaled_on_gpu(
    q: torch.Tensor, mask: torch.Tensor, *, scale: Scale, fill: bool, ratio: float, tolerance: float, max_steps: int
) -> Completed:
    """`svrl.matrix.scaling.complete_scaled` for q (B, m, n), m >= n, in one launch."""
    matrix, estimate = (torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(2))
    levels = q.new_empty(len(q), dtype=torch.float64)
    _, _, rank, code = _launch(q, mask, None, matrix, estimate, levels, scale, ratio, tolerance, max_steps, fill)
    return Completed(matrix, estimate, rank, code)


def _launch(
    values: torch.Tensor,
    mask: torch.Tensor,
    start: torch.Tensor | None,
    result: torch.Tensor,
    estimate: torch.Tensor | None,
    levels: torch.Tensor,
    scale: Scale,
    ratio: float,
    tolerance: float,
    max_steps: int,
    fill: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Write to result, estimate and levels; return change, iterations, rank and code, (B,) each."""
    batch, m, n = values.shape
    values, mask = values.contiguous(), mask.contiguous()
    change = torch.empty_like(levels)
    steps, rank, code = (torch.empty(batch, dtype=torch.int64, device=values.device) for _ in range(3))
    ends = (Outcome.CONVERGED, Outcome.OUT_OF_STEPS, Outcome.NOT_FINITE)
    with torch.cuda.device(values.device):
        _kernel(values.dtype, m, n, values.device)(
            *(values, mask, start, result, estimate, levels, change, steps, rank, code),
            *map(ctypes.c_int, (m, n, SCALES.index(scale))),
            *map(ctypes.c_double, (ratio, tolerance)),
            *map(ctypes.c_int, (max_steps, int(fill), *(end.code for end in ends))),
            blocks=batch,
            threads=LANES * max(_even(n) // 2, min(MOST_WARPS, m)),
            shared=_shared_bytes(m, n, values.dtype),
        )
    return change, steps, rank, code


def working_type(dtype: torch.dtype, shrinkage: object, ratio: float) -> torch.dtype:
    """float64 where float32 may lose the shrinkage, because it is a small or an unknown share."""
    return dtype if shrinkage is None and ratio >= FINEST_IN_SINGLE else torch.float64


def serves(m: int, n: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel supports matrices (m, n), m >= n, of this type on this device. Warns if it cannot compile."""
    if device.type != "cuda" or dtype not in REALS or n > MOST_COLUMNS:
        return False
    most = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 48 << 10)
    if _shared_bytes(m, n, dtype) > most:
        return False
    try:
        _kernel(dtype, m, n, device)
    except NoCompilerError as error:
        _warn_once(str(error))
        return False
    return True


def _even(n: int) -> int:
    return n + n % 2


def _shared_bytes(m: int, n: int, dtype: torch.dtype) -> int:
    """The size of the kernel's `Work`: two copies of the rows, the turned columns, two squares, and small arrays."""
    n = _even(n)
    return dtype.itemsize * (2 * m * (n + 1) + m * n + 2 * n * n + 2 * n + 96 + m) + 4 * m


def _kernel(dtype: torch.dtype, m: int, n: int, device: torch.device) -> Kernel:
    definitions: dict[str, str | int] = {"REAL": REALS[dtype], "N": _even(n), "ROWS": -(-m // LANES)}
    return compiled(_source(), "soft_impute", definitions, device)


@functools.cache
def _source() -> str:
    return resources.files("svrl.matrix").joinpath("soft_impute_cuda.cu").read_text(encoding="utf-8")


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"Soft-Impute on the GPU runs without its kernel, which is slower. {reason}", stacklevel=4)
