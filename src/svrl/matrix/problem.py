"""Problem: one call of an estimator, between the caller's arrays and the solver's.

Solvers see a batch of centred matrices (B, m, n) in torch. What came before (leading axes, NumPy,
centring) and what comes after (adding the centre back, copying observed entries, clipping) is the
same for all of them and lives here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from svrl.matrix.arrays import Array, as_tensor
from svrl.matrix.estimate import Estimate, Start
from svrl.matrix.observed import Observed, check_observed
from svrl.matrix.parameters import Bounds, Centre, Output
from svrl.matrix.scaling import offset_of, unit_of


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A batch of matrices to complete.

    Attributes:
        values: (B, m, n), centred, zero where unobserved.
        mask: (B, m, n).
        offset: (B, m, 1) or (B, 1, 1) that centring took out, or None.
        unit: (B, 1, 1) by which everything here has been divided, or None for ordinary numbers.
        observed: The caller's record.
    """

    values: torch.Tensor
    mask: torch.Tensor
    offset: torch.Tensor | None
    unit: torch.Tensor | None
    observed: Observed

    @classmethod
    def of(cls, observed: Observed, centre: Centre, *, rescale: bool = True) -> Problem:
        """Flatten the leading axes and take the centre out.

        With `rescale`, numbers so large or small that their squares would leave the range of their
        precision are divided by a power of two, which loses nothing. Looking synchronises the device.
        """
        check_observed(observed)
        values, mask = observed.tensors
        batch = (-1, *values.shape[-2:])
        values, mask = values.reshape(batch), mask.reshape(batch)
        unit = unit_of(values) if rescale else None
        if unit is not None:
            values = values / unit
        offset = offset_of(values, mask, centre)
        if offset is not None:
            values = (values - offset).masked_fill_(~mask, 0)
        return cls(values=values, mask=mask, offset=offset, unit=unit, observed=observed)

    def absolute(self, number: float) -> torch.Tensor:
        """A number in the caller's units, (B,) and float64, in the units of this problem."""
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

    def start_factors(self, start: Start) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The factors of the caller's start (B, m, r) and (B, n, r), where it has any that can be used as they are."""
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
                f"start has shape {shape} but the observed matrix is {self.observed.shape}. "
                "Warm-start from an estimate of the same shape, or leave start out."
            )
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise ValueError("start must be finite, got NaN or infinity. Leave it out to start afresh.")

    def deliver(
        self,
        *,
        matrix: torch.Tensor | None = None,
        factors: tuple[torch.Tensor, torch.Tensor] | None = None,
        code: torch.Tensor,
        rank: torch.Tensor,
        iterations: torch.Tensor,
        change: torch.Tensor,
        shrinkage: torch.Tensor | None = None,
        output: Output = "estimate",
        clip: Bounds = None,
        held_out: torch.Tensor | None = None,
    ) -> Estimate:
        """Undo `of` on a solver's result and hand it back in the caller's kind of array."""
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
            factors = _append_offset(*factors, offset)
        numpy, batch = self.observed.numpy, self.observed.shape[:-2]

        def back(tensor: torch.Tensor) -> Array:
            shape = (*batch, *tensor.shape[1:])
            return tensor.numpy().reshape(shape) if numpy else tensor.reshape(shape)

        return Estimate(
            dense=None if matrix is None else back(matrix),
            factors=None if factors is None else (back(factors[0]), back(factors[1])),
            code=back(code),
            rank=back(rank),
            iterations=back(iterations),
            change=back(change),
            shrinkage=None if shrinkage is None else back(shrinkage),
            offset=None if offset is None else back(offset),
            kept=output == "fill",
            held_out=None if held_out is None else back(held_out),
        )


def _append_offset(left: torch.Tensor, right: torch.Tensor, offset: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Carry the offset as one more factor, so that a large matrix is never formed for it."""
    column = offset.expand(left.shape[0], left.shape[1], 1)
    ones = torch.ones(right.shape[0], right.shape[1], 1, dtype=right.dtype, device=right.device)
    return torch.cat([left, column], -1), torch.cat([right, ones], -1)
