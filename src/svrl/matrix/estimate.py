"""Estimate, Outcome and the Estimator protocol: what goes into matrix estimation and what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from svrl.matrix.arrays import Array, Generator, as_tensor, torch_generator
from svrl.matrix.observed import Observed

if TYPE_CHECKING:
    from svrl.matrix.certificate import Certificate

Factors = tuple[torch.Tensor, torch.Tensor]
"""Left (B, m, r) and right (B, n, r) of a batch of matrices left @ right.mT."""

FEWEST_TO_HIDE = 20
"""With fewer observed entries than this, none can be spared for a held-out error."""


class Outcome(Enum):
    """How an estimation ended, as a sentence; the empty sentence is success.

    The order is from best to worst, so the outcome of a batch is its largest code.
    """

    CONVERGED = ""
    OUT_OF_STEPS = "Ran out of steps before the change fell below the tolerance: raise max_steps, or the tolerance."
    NOT_LOW_ENOUGH = "The largest allowed rank does not reach the tolerance: allow a larger one."
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
    """A recovered matrix, or a batch of them, and how the estimator found it.

    Arrays are NumPy or torch, like the observed values. Per-matrix numbers have the batch
    shape (...), which is () for a single matrix, and stay on the device.

    Attributes:
        dense: (..., m, n), or None while only factors exist. Use `matrix`.
        factors: (left (..., m, r), right (..., n, r)) with matrix = left @ right.mT, or None.
        code: Outcome codes (...), int64; 0 is success.
        rank: Rank of the estimate (...), int64, before the centre was added and observed entries copied back.
        iterations: Outer iterations spent (...), int64.
        change: Last relative change (...), the number compared with the tolerance.
        shrinkage: Nuclear-norm weight used (...), in units of the values, or None.
        offset: What centring subtracted from the values, (..., m, 1) or (..., 1, 1), or None.
        kept: Whether observed entries were copied back (output "fill").
        held_out: Relative error (...) on the entries that were hidden while a rank was chosen, or None.
            Near 1, no rank predicts them: do not trust the estimate, whatever its outcome.

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
            left, right = self.factors
            if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
                product: Array = left @ right.swapaxes(-1, -2)
            else:
                # In torch too: NumPy brings its own BLAS, which rounds differently on some CPUs. torch has no
                # read-only tensors and would warn, so a read-only array is copied.
                parts = [torch.from_numpy(np.require(part, requirements="W")) for part in (left, right)]
                product = (parts[0] @ parts[1].mT).numpy()
            object.__setattr__(self, "dense", product)
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
        """Objective, duality gap and optimality conditions of the convex problem that this estimate solves.

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
            values = (values - offset).masked_fill(~mask, 0)
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
        end = "converged" if outcome else outcome.value
        if self.code.ndim == 0:
            return f"Estimate(shape={shape}, rank={int(self.rank)}, iterations={int(self.iterations)}, {end})"
        return f"Estimate(shape={shape}, ranks {int(self.rank.min())}..{int(self.rank.max())}, {end})"


Start = Estimate | torch.Tensor | np.ndarray | None
"""What may warm-start an estimator: an earlier Estimate, a full matrix, or nothing."""


@runtime_checkable
class Estimator(Protocol):
    """A frozen record of parameters that recovers a matrix from some of its entries.

    Implementations are pure: equal arguments and equal generators give equal results, the inputs
    and the global random state do not change. `check_estimator` tests that and more on any object.
    """

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix behind `observed`."""
        ...


State = TypeVar("State", bound=tuple[torch.Tensor, ...])


def repeat(
    step: Callable[..., tuple[Any, torch.Tensor]], state: State, tolerance: float, max_steps: int
) -> tuple[State, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Repeat a step until every matrix of a batch has settled. A settled matrix no longer changes.

    Args:
        step: Takes the tensors of the state, (B, ...) each; returns the new state and the relative changes (B,).
        state: The first state.
        tolerance: A matrix has settled once its change is below this.
        max_steps: Most steps.

    Returns:
        The last state; steps (B,), the last change (B,) and outcome codes (B,).
    """
    running = torch.ones(len(state[0]), dtype=torch.bool, device=state[0].device)
    steps = torch.zeros_like(running, dtype=torch.int64)
    change = torch.zeros(0)
    for k in range(max_steps):
        new, moved = step(*state)
        state = choose(running, new, state)
        change = torch.where(running, moved, change) if k else moved
        steps = steps + running
        running = running & (moved >= tolerance)  # NaN stops too
        if not bool(running.any()):
            break
    code = torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code)
    finite = torch.stack([torch.isfinite(part.reshape(len(part), -1)).all(-1) for part in state]).all(0)
    return state, steps, change, torch.where(finite, code, Outcome.NOT_FINITE.code)


def choose(condition: torch.Tensor, yes: State, no: State) -> State:
    """Take each tensor (B, ...) from `yes` where the condition (B,) holds, else from `no`."""
    if bool(condition.all()):
        return yes
    parts = zip(yes, no, strict=True)
    return tuple(torch.where(condition.view(-1, *[1] * (one.ndim - 1)), one, other) for one, other in parts)  # type: ignore[return-value]


def complete(
    matrix: Array | Sequence[Any],
    mask: Array | Sequence[Any] | None = None,
    *,
    estimator: Estimator | None = None,
    allow_empty: bool = False,
    generator: Generator | None = None,
) -> Estimate:
    """Recover a matrix from some of its entries, in one call.

    Args:
        matrix: (..., m, n), float32 or float64, or nested lists of numbers. Without a mask, NaN marks a missing entry.
        mask: (..., m, n), True where an entry is observed.
        estimator: The method; by default `FactorALS()`, which chooses its rank by held-out error.
        allow_empty: Accept rows and columns with no observed entry.
        generator: Source of randomness, if the estimator uses any.

    Returns:
        An Estimate whose `matrix` is of the same kind, shape and precision as the input.
    """
    from svrl.matrix.factor_als import FactorALS

    values, shown = (_from_lists(given, name) for given, name in ((matrix, "matrix"), (mask, "mask")))
    if shown is None:
        observed = Observed.from_nan(values, allow_empty=allow_empty)
    else:
        observed = Observed(values=values, mask=shown, allow_empty=allow_empty)
    if estimator is not None and not callable(estimator):
        raise TypeError(f"estimator must be a record such as SoftImpute(), got {estimator!r}.")
    return (estimator or FactorALS())(observed, generator=generator)


def _from_lists(given: Any, name: str) -> Any:
    """Nested lists as a NumPy array; anything else unchanged."""
    try:
        return np.asarray(given) if isinstance(given, list | tuple) else given
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths. Give each row the same number of entries.") from None


def held_out_error(
    estimator: Estimator, observed: Observed, *, share: float = 0.05, generator: Generator | None = None
) -> float | None:
    """Relative root-mean-square error on hidden observed entries of one matrix.

    Every row and column keeps at least one shown entry: no method could recover it otherwise.

    Args:
        estimator: Recovers the matrix from the other entries.
        observed: One matrix (m, n).
        share: Share of the observed entries to hide.
        generator: Chooses the entries.

    Returns:
        |recovered - hidden|_F / |hidden|_F, or None where there are too few entries to hide any.
    """
    values, mask = observed.tensors
    if values.ndim != 2:
        raise ValueError(f"A held-out error is for one matrix (m, n), got shape {tuple(values.shape)}.")
    source = torch_generator(generator, values.device)
    at = torch.nonzero(mask)
    at = at[torch.randperm(len(at), generator=source, device=values.device)]
    if len(at) < FEWEST_TO_HIDE:
        return None
    # Hide the first entries of this order that leave no row and no column empty.
    count, rows, columns = math.ceil(share * len(at)), mask.sum(1).tolist(), mask.sum(0).tolist()
    chosen: list[tuple[int, int]] = []
    for i, j in at[: 4 * count].tolist():
        if len(chosen) < count and rows[i] > 1 and columns[j] > 1:
            rows[i], columns[j] = rows[i] - 1, columns[j] - 1
            chosen.append((i, j))
    if not chosen:
        return None
    hidden = torch.zeros_like(mask)
    hidden[tuple(torch.tensor(chosen, device=mask.device).T)] = True
    shown = mask & ~hidden
    estimate = estimator(Observed(values=values, mask=shown, allow_empty=True), generator=source)
    truth = values[hidden].double()
    unit = truth.abs().max()  # squares of very large or small numbers would leave the range
    if float(unit) == 0:
        return float(torch.linalg.vector_norm(as_tensor(estimate.matrix)[hidden].double()))
    wrong = (as_tensor(estimate.matrix)[hidden].double() - truth) / unit
    return float(torch.linalg.vector_norm(wrong) / torch.linalg.vector_norm(truth / unit))
