"""Centring and scaling: what is taken out of matrices before an estimation, and put back after it.

Shrinkage pulls missing entries towards zero, so it matters where zero is. Estimators take an offset out of the observed
entries (`offset_of`), and divide by a power of two where squares would leave the range of floating point (`unit_of`).
SV-RL scales whole matrices of values, completes them and undoes it (`complete_scaled`). What a method of planning knows
is a list of entries: `means_of_rows` centres those.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from svrl.matrix.estimate import Estimator, Outcome
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Centre
from svrl.runtime.kernels import njit

Scale = Literal["none", "minmax", "row"]


class Completed(NamedTuple):
    """Matrices completed inside a scaling: matrix and estimate (..., m, n), rank and code (...)."""

    matrix: torch.Tensor
    estimate: torch.Tensor
    rank: torch.Tensor
    code: torch.Tensor


def complete_scaled(
    estimator: Estimator, q: torch.Tensor, mask: torch.Tensor, *, scale: Scale, fill: bool
) -> Completed:
    """Scale matrices q (..., m, n), estimate them from the entries in `mask`, scale back and fill.

    An estimator that can do all of this at once has a method `complete_scaled(q, mask, scale=..., fill=...)`, which
    returns None for matrices it cannot do it for; the lines below say what it computes.

    Args:
        estimator: Completes the scaled matrices.
        q: (..., m, n), float32 or float64; all entries, observed or not.
        mask: (..., m, n), what is observed.
        scale: "minmax" maps the smallest and the largest entry to -1 and 1, and clips the estimate to that range;
            "row" takes out the mean of each row's observed entries; "none" does nothing.
        fill: Keep the observed entries. A row without one, and a matrix whose estimate is not finite, keeps all.
    """
    at_once = getattr(estimator, "complete_scaled", None)
    done: Completed | None = None if at_once is None else at_once(q, mask, scale=scale, fill=fill)
    if done is not None:
        return done
    scaled, offset, factor = _scaled(q, mask, scale)
    found = estimator(Observed.trusted(torch.where(mask, scaled, 0.0), mask))
    estimate = torch.as_tensor(found.matrix)
    if scale == "minmax":
        estimate = estimate.clamp(-1.0, 1.0)
    estimate = estimate * factor + offset
    known = mask.any(-1, keepdim=True) & torch.isfinite(estimate).all(-1).all(-1)[..., None, None]
    take = known & ~mask if fill else known
    code = torch.where(torch.isfinite(q).flatten(-2).all(-1), torch.as_tensor(found.code), Outcome.NOT_FINITE.code)
    return Completed(torch.where(take, estimate, q), estimate, torch.as_tensor(found.rank), code)


def _scaled(
    q: torch.Tensor, mask: torch.Tensor, scale: Scale
) -> tuple[torch.Tensor, torch.Tensor | float, torch.Tensor | float]:
    """(scaled, offset, factor) with q = scaled * factor + offset."""
    if scale == "none":
        return q, 0.0, 1.0
    if scale == "row":
        # Relative to the row's first entry: the mean of large equal numbers would round.
        first = q[..., :1]
        offset = first + row_means(torch.where(mask, q - first, 0.0), mask)
        return q - offset, offset, 1.0
    low, high = q.amin((-2, -1), keepdim=True), q.amax((-2, -1), keepdim=True)
    factor = (high - low) / 2
    offset = low + factor
    return (q - offset) / torch.where(factor > 0, factor, 1.0), offset, factor


class Scaled(NamedTuple):
    """What `scale_on_cpu` makes of q (B, m, n): the values to estimate from, with what undoes it.

    Attributes:
        values: (B, m, n), zero where nothing is observed.
        offset: (B, m).
        factor: (B,).
    """

    values: np.ndarray
    offset: np.ndarray
    factor: np.ndarray


def scale_on_cpu(q: np.ndarray, mask: np.ndarray, scale: Scale) -> Scaled | None:
    """`_scaled` without torch, whose calls would cost most for one small matrix; None if q is not finite.

    Means of rows are summed in float64, one entry after the other.
    """
    scaled = Scaled(np.zeros_like(q), np.empty(q.shape[:2], q.dtype), np.empty(len(q), q.dtype))
    return scaled if _scale(q, mask, scale == "row", scale == "minmax", *scaled) else None


def unscale_on_cpu(
    q: np.ndarray, mask: np.ndarray, scaled: Scaled, estimate: np.ndarray, *, clip: bool, fill: bool
) -> np.ndarray:
    """The end of `complete_scaled`: scales `estimate` back in place, and returns the completed matrices."""
    matrix = np.empty_like(q)
    _unscale(q, mask, scaled.offset, scaled.factor, clip, fill, estimate, matrix)
    return matrix


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(q: Any, mask: Any, by_row: Any, by_range: Any, values: Any, offset: Any, factor: Any) -> Any:
    one, half = q.dtype.type(1), q.dtype.type(0.5)
    for b in range(q.shape[0]):
        low = high = q[b, 0, 0]
        for i in range(q.shape[1]):
            total, count = 0.0, 0
            for j in range(q.shape[2]):
                x = q[b, i, j]
                if not np.isfinite(x):
                    return False
                low, high = min(low, x), max(high, x)
                if mask[b, i, j]:
                    total += x - q[b, i, 0]
                    count += 1
            offset[b, i] = q[b, i, 0] + q.dtype.type(total / max(count, 1)) if by_row else 0
        factor[b] = half * (high - low) if by_range else one
        if by_range:
            offset[b, :] = low + factor[b]
        divisor = factor[b] if factor[b] > 0 else one
        for i in range(q.shape[1]):
            for j in range(q.shape[2]):
                if mask[b, i, j]:
                    values[b, i, j] = (q[b, i, j] - offset[b, i]) / divisor
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _unscale(q: Any, mask: Any, offset: Any, factor: Any, clip: Any, fill: Any, estimate: Any, matrix: Any) -> None:
    one = q.dtype.type(1)
    for b in range(q.shape[0]):
        finite = True
        for i in range(q.shape[1]):
            for j in range(q.shape[2]):
                x = estimate[b, i, j]
                if clip:
                    x = min(max(x, -one), one)
                estimate[b, i, j] = x * factor[b] + offset[b, i]
                finite &= np.isfinite(estimate[b, i, j])
        for i in range(q.shape[1]):
            known = False
            for j in range(q.shape[2]):
                known |= mask[b, i, j]
            for j in range(q.shape[2]):
                kept = not (finite and known) or (fill and mask[b, i, j])
                matrix[b, i, j] = q[b, i, j] if kept else estimate[b, i, j]


def row_means(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of each row's observed entries, (..., m, 1); zero for an empty row. Values are zero elsewhere."""
    return values.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


def means_of_rows(rows: torch.Tensor, values: torch.Tensor, count: int) -> torch.Tensor:
    """The mean (count,) of the values (k,) listed for each row, given their rows (k,); zero where none is listed."""
    zeros = torch.zeros(count, dtype=values.dtype, device=values.device)
    listed = zeros.index_add(0, rows, torch.ones_like(values)).clamp_(min=1.0)
    return zeros.index_add(0, rows, values) / listed


def offset_of(values: torch.Tensor, mask: torch.Tensor, centre: Centre) -> torch.Tensor | None:
    """What to subtract from (B, m, n): nothing, one number a matrix (B, 1, 1) or one a row (B, m, 1).

    A row without an observed entry takes the mean of the whole matrix.
    """
    if centre == "none":
        return None
    if centre == "midrange":
        low = values.masked_fill(~mask, torch.inf).amin((-2, -1), keepdim=True)
        high = values.masked_fill(~mask, -torch.inf).amax((-2, -1), keepdim=True)
        return (low + high) / 2
    mean = values.sum(-1, keepdim=True).sum(-2, keepdim=True) / mask.sum((-2, -1), keepdim=True)
    if centre == "mean":
        return mean
    return torch.where(mask.any(-1, keepdim=True), row_means(values, mask), mean)


def unit_of(values: torch.Tensor) -> torch.Tensor | None:
    """A power of two near the largest entry of each matrix (B, 1, 1), or None where none is needed."""
    largest = values.abs().amax((-2, -1), keepdim=True)
    reach = 1e8 if values.dtype == torch.float32 else 1e60
    if not bool(((largest > reach) | ((largest < 1 / reach) & (largest > 0))).any()):
        return None
    most = math.frexp(torch.finfo(values.dtype).max)[1] - 1  # the largest power of two that the precision has
    exponent = torch.frexp(largest).exponent.clamp(max=most)
    return torch.where(largest > 0, torch.ldexp(torch.ones_like(largest), exponent), torch.ones_like(largest))
