"""Centre and scale before an estimation, and undo both after it.

Shrinkage pulls missing entries towards zero, so it matters where zero is. Solvers see a batch of centred matrices
(B, m, n) in torch. `Problem` turns the caller's arrays into that batch and the result back into the caller's arrays: it
handles leading axes, NumPy, the centre, the range of floating point, clipping and copying observed entries.

SV-RL scales whole matrices of values, completes them and scales back (`complete_scaled`). A planning method may have a
list of entries instead, which `means_of_rows` centres.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from svrl.matrix.arrays import Bounds, Centre, Output, as_tensor, like
from svrl.matrix.estimate import Estimate, Estimator, Factors, Outcome, Start
from svrl.matrix.observed import Observed, check_observed
from svrl.runtime.kernels import njit


class Problem:
    """One call of an estimator: a batch of matrices to complete.

    Attributes:
        values: (B, m, n), centred, zero where unobserved.
        mask: (B, m, n).
        offset: (B, m, 1) or (B, 1, 1), what centring subtracted, or None.
        unit: (B, 1, 1), the divisor of everything here, or None for ordinary numbers.
        observed: The caller's record.
    """

    def __init__(self, observed: Observed, centre: Centre, *, rescale: bool = True) -> None:
        """Flatten the leading axes and subtract the centre.

        With `rescale`, a power of two divides numbers whose squares would leave the range of floating point, which
        loses nothing. This check synchronises the device.
        """
        check_observed(observed)
        self.observed = observed
        values, self.mask = (part.reshape(-1, *part.shape[-2:]) for part in observed.tensors)
        self.unit = unit_of(values) if rescale else None
        if self.unit is not None:
            values = values / self.unit
        self.offset = offset_of(values, self.mask, centre)
        if self.offset is not None:
            values = (values - self.offset).masked_fill_(~self.mask, 0)
        self.values = values

    def absolute(self, number: float) -> torch.Tensor:
        """Convert a number in the caller's units to the units of this problem, (B,), float64."""
        values = self.values
        numbers = torch.full(values.shape[:1], number, dtype=torch.float64, device=values.device)
        return numbers if self.unit is None else numbers / self.unit[:, 0, 0].double()

    def start_matrix(self, start: Start) -> torch.Tensor | None:
        """The caller's start as a centred batch (B, m, n), or None."""
        if start is None:
            return None
        matrix = as_tensor(start.matrix if isinstance(start, Estimate) else start)
        self._check_start(tuple(matrix.shape), matrix)
        matrix = matrix.to(self.values).reshape(self.values.shape)
        if self.unit is not None:
            matrix = matrix / self.unit
        return matrix if self.offset is None else matrix - self.offset

    def start_factors(self, start: Start) -> Factors | None:
        """The factors (B, m, r) and (B, n, r) of the caller's start, or None if it has none that fit unchanged."""
        if not isinstance(start, Estimate) or start.factors is None:
            return None
        if self.offset is not None or self.unit is not None:
            return None
        left, right = (as_tensor(factor) for factor in start.factors)
        self._check_start((*left.shape[:-1], right.shape[-2]), left, right)
        batch, m, n = self.values.shape
        return left.to(self.values).reshape(batch, m, -1), right.to(self.values).reshape(batch, n, -1)

    def _check_start(self, shape: tuple[int, ...], *parts: torch.Tensor) -> None:
        if shape != self.observed.shape:
            raise ValueError(
                f"start has shape {shape} but the observed matrix has {self.observed.shape}. "
                "Warm-start from an estimate of the same shape, or leave start out."
            )
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise ValueError("start must be finite, got NaN or infinity. Leave it out to start afresh.")

    def deliver(
        self,
        *,
        matrix: torch.Tensor | None = None,
        factors: Factors | None = None,
        rank: torch.Tensor,
        code: torch.Tensor | None = None,
        iterations: torch.Tensor | None = None,
        change: torch.Tensor | None = None,
        shrinkage: torch.Tensor | None = None,
        output: Output = "estimate",
        clip: Bounds = None,
        held_out: torch.Tensor | None = None,
    ) -> Estimate:
        """The solver's result in the caller's units, shape and kind of array; without a code, one step converged."""
        if factors is not None and (output == "fill" or clip is not None):
            matrix, factors = factors[0] @ factors[1].mT, None
        offset = self.offset
        if self.unit is not None:
            matrix = None if matrix is None else matrix * self.unit
            factors = None if factors is None else (factors[0] * self.unit, factors[1])
            offset = None if offset is None else offset * self.unit
            shrinkage = None if shrinkage is None else shrinkage * self.unit[:, 0, 0].double()
        if matrix is not None:
            if offset is not None:
                matrix = matrix + offset
            if clip is not None:
                matrix = matrix.clamp(*clip)
            if output == "fill":
                matrix = torch.where(self.mask, self.observed.tensors[0].reshape(matrix.shape), matrix)
        elif factors is not None and offset is not None:
            # One more factor carries the offset, so that a large matrix is never formed for it.
            (left, right), (batch, m, n) = factors, self.mask.shape
            factors = (
                torch.cat([left, offset.expand(batch, m, 1)], -1),
                torch.cat([right, right.new_ones(batch, n, 1)], -1),
            )
        zeros = torch.zeros_like(rank)

        def back(tensor: torch.Tensor | None) -> Any:
            if tensor is None:
                return None
            whole = tensor.reshape((*self.observed.shape[:-2], *tensor.shape[1:]))
            return like(whole, self.observed.numpy)

        return Estimate(
            dense=back(matrix),
            factors=None if factors is None else (back(factors[0]), back(factors[1])),
            code=back(zeros if code is None else code),
            rank=back(rank),
            iterations=back(zeros + 1 if iterations is None else iterations),
            change=back(zeros.double() if change is None else change),
            shrinkage=back(shrinkage),
            offset=back(offset),
            kept=output == "fill",
            held_out=back(held_out),
        )


def row_means(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of each row's observed entries, (..., m, 1); zero for an empty row. Values are zero elsewhere."""
    return values.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


def means_of_rows(rows: torch.Tensor, values: torch.Tensor, count: int) -> torch.Tensor:
    """The mean (count,) of each row's values, given all values (k,) and their rows (k,); zero for an empty row."""
    zeros = torch.zeros(count, dtype=values.dtype, device=values.device)
    listed = zeros.index_add(0, rows, torch.ones_like(values)).clamp_(min=1.0)
    return zeros.index_add(0, rows, values) / listed


def offset_of(values: torch.Tensor, mask: torch.Tensor, centre: Centre) -> torch.Tensor | None:
    """What to subtract from (B, m, n): nothing, one number per matrix (B, 1, 1) or per row (B, m, 1).

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


Scale = Literal["none", "minmax", "row"]


class Completed(NamedTuple):
    """The result of `complete_scaled`: matrix and estimate (..., m, n), rank and code (...)."""

    matrix: torch.Tensor
    estimate: torch.Tensor
    rank: torch.Tensor
    code: torch.Tensor


def complete_scaled(
    estimator: Estimator, q: torch.Tensor, mask: torch.Tensor, *, scale: Scale, fill: bool
) -> Completed:
    """Scale matrices q (..., m, n), estimate them from the entries in `mask`, scale back and fill.

    An estimator may have a faster method `complete_scaled(q, mask, scale=..., fill=...)` for the same result, which
    returns None for matrices that it does not support.

    Args:
        estimator: Completes the scaled matrices.
        q: (..., m, n), float32 or float64; all entries, observed or not.
        mask: (..., m, n), True where an entry is observed.
        scale: "minmax" maps the smallest and the largest entry to -1 and 1, and clips the estimate to that range;
            "row" subtracts the mean of each row's observed entries; "none" does nothing.
        fill: Keep the observed entries. A row without any, and a matrix whose estimate is not finite, keeps q.
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


@njit(cache=True, nogil=True, error_model="numpy")
def scale_on_cpu(q: Any, mask: Any, by_row: Any, by_range: Any, values: Any, offset: Any, factor: Any) -> Any:
    """`_scaled` without torch, whose calls would cost most for one small matrix; False if q (B, m, n) is not finite.

    Writes the scaled observed entries to `values` (B, m, n), which holds zeros. Offset (B, m) and factor (B,) receive
    what undoes the scaling. Sums each row in float64, one entry after the other.
    """
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
def unscale_on_cpu(
    q: Any, mask: Any, offset: Any, factor: Any, clip: Any, fill: Any, estimate: Any, matrix: Any
) -> None:
    """The end of `complete_scaled`: scales `estimate` back in place and writes the completed matrices to `matrix`."""
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
