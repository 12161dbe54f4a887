"""Estimate, Outcome and the Estimator protocol: what goes into matrix estimation and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch

from svrl.matrix.arrays import Array, Generator, as_tensor, from_lists
from svrl.matrix.observed import Observed

if TYPE_CHECKING:
    from svrl.matrix.certificate import Certificate


class Outcome(Enum):
    """How an estimation ended, as a sentence; the empty sentence is success.

    The order is from best to worst, so the outcome of a batch is its largest code.
    """

    CONVERGED = ""
    OUT_OF_STEPS = "Ran out of steps before the change fell below the tolerance: raise max_steps, or the tolerance."
    NOT_LOW_ENOUGH = "The largest rank that was allowed does not reach the tolerance: allow a larger one."
    NOT_FINITE = "The iterates are no longer finite: use float64, more shrinkage, or centre the values."

    @property
    def code(self) -> int:
        """Position in the order above: 0 is success."""
        return _CODES[self]

    @classmethod
    def from_code(cls, code: int) -> Outcome:
        """The outcome with this code."""
        return list(cls)[code]

    def __bool__(self) -> bool:
        """True for success, so that `if estimate.outcome` reads as it should."""
        return self is Outcome.CONVERGED


_CODES = {outcome: code for code, outcome in enumerate(Outcome)}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate:
    """A recovered matrix, or a batch of them, and how it was reached.

    Arrays are NumPy or torch, as the observed values were. Per-matrix numbers have the batch
    shape (...), which is () for a single matrix, and stay on the device.

    Attributes:
        dense: (..., m, n), or None while only factors exist. Use `matrix`.
        factors: (left (..., m, r), right (..., n, r)) with matrix = left @ right.mT, or None.
        code: Outcome codes (...), int64; 0 is success.
        rank: Rank of the estimate (...), int64, before the centre was added and observed entries copied back.
        iterations: Outer iterations spent (...), int64.
        change: Last relative change (...), the number compared with the tolerance.
        shrinkage: Nuclear-norm weight used (...), in units of the values, or None.
        offset: What centring took out of the values, (..., m, 1) or (..., 1, 1), or None.
        kept: Whether observed entries were copied back (output "fill").
        held_out: Relative error (...) on the entries that were hidden while a rank was chosen, or None.
            Near 1 it says that no rank predicts them: do not trust the estimate, whatever its outcome.

    Pass an Estimate as `start` of the next call to warm-start it.
    """

    dense: Array | None
    factors: tuple[Array, Array] | None
    code: Array
    rank: Array
    iterations: Array
    change: Array
    shrinkage: Array | None = None
    offset: Array | None = None
    kept: bool = False
    held_out: Array | None = None

    @property
    def matrix(self) -> Array:
        """The estimate (..., m, n); formed from the factors on first use and then kept."""
        if self.dense is None:
            if self.factors is None:
                raise ValueError("This Estimate has neither a matrix nor factors.")
            object.__setattr__(self, "dense", _product(*self.factors))
        assert self.dense is not None
        return self.dense

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the batch. Reading it synchronises the device."""
        return Outcome.from_code(int(self.code.max()))

    @property
    def converged(self) -> bool:
        """True if every matrix of the batch converged."""
        return bool(self.outcome)

    def certify(self, observed: Observed) -> Certificate:
        """Objective, duality gap and optimality conditions of the convex problem this solved.

        Where observed entries were copied back, the minimiser behind them is recovered first by
        one singular-value shrinkage of the filled matrix.
        """
        from svrl.matrix.certificate import certify, shrink_singular_values

        if self.shrinkage is None:
            raise ValueError("This estimator minimises no nuclear-norm objective, so there is nothing to certify.")
        values, mask = observed.tensors
        shrinkage = as_tensor(self.shrinkage)
        matrix = as_tensor(self.matrix)
        if self.offset is not None:
            offset = as_tensor(self.offset)
            matrix = matrix - offset
            values = torch.where(mask, values - offset, torch.zeros((), dtype=values.dtype, device=values.device))
        if self.kept:
            matrix = shrink_singular_values(matrix, shrinkage)[0]
        centred = Observed(values=values, mask=mask, allow_empty=True)
        certificate = certify(centred, matrix, shrinkage)
        return certificate.to_numpy() if observed.numpy else certificate

    def __repr__(self) -> str:
        shape = tuple(self.dense.shape) if self.dense is not None else None
        if shape is None and self.factors is not None:
            left, right = self.factors
            shape = (*left.shape[:-1], right.shape[-2])
        outcome = self.outcome
        said = "converged" if outcome else outcome.value
        if self.code.ndim == 0:
            return f"Estimate(shape={shape}, rank={int(self.rank)}, iterations={int(self.iterations)}, {said})"
        return f"Estimate(shape={shape}, ranks {int(self.rank.min())}..{int(self.rank.max())}, {said})"


def _product(left: Array, right: Array) -> Array:
    """left @ right.mT, of the kind of the factors; NumPy's too by torch, in the layout they have.

    NumPy brings a BLAS of its own, and on some CPUs the two round differently: then equal factors would give
    unequal matrices.
    """
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        return left @ right.swapaxes(-1, -2)
    # A read-only array is copied: torch has none, and would warn.
    shared = [torch.from_numpy(np.require(part, requirements="W")) for part in (left, right)]
    return (shared[0] @ shared[1].mT).numpy()


Start = Estimate | torch.Tensor | np.ndarray | None
"""What may warm-start an estimator: an earlier Estimate, a full matrix, or nothing."""


@runtime_checkable
class Estimator(Protocol):
    """A frozen record of parameters that recovers a matrix from some of its entries.

    Implementations are pure: equal arguments and equal generators give equal results, the inputs
    are not written to and the global random state is left alone. `check_estimator` tests that
    and more on any object.
    """

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix behind `observed`."""
        ...


def complete(
    matrix: Array | Sequence[Any],
    mask: Array | Sequence[Any] | None = None,
    *,
    estimator: Estimator | None = None,
    allow_empty: bool = False,
    generator: Generator | None = None,
) -> Estimate:
    """Recover a matrix from some of its entries: the short way in.

    Args:
        matrix: (..., m, n), float32 or float64, or nested lists of numbers. Without a mask, NaN marks a missing entry.
        mask: (..., m, n), True where an entry is observed.
        estimator: How; by default `FactorALS()`, which chooses its rank by held-out error.
        allow_empty: Accept rows and columns with no observed entry.
        generator: Source of randomness, where the estimator uses any.

    Returns:
        An Estimate whose `matrix` is of the same kind, shape and precision as the input.
    """
    from svrl.matrix.factor_als import FactorALS

    values, shown = from_lists(matrix, "matrix"), from_lists(mask, "mask")
    observed = (
        Observed.from_nan(values, allow_empty=allow_empty)
        if shown is None
        else Observed(values=values, mask=shown, allow_empty=allow_empty)
    )
    if estimator is not None and not callable(estimator):
        raise TypeError(f"estimator must be a record such as SoftImpute(), got {estimator!r}.")
    return (estimator or FactorALS())(observed, generator=generator)
