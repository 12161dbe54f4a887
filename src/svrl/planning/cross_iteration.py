"""Value iteration on a few rows and columns of Q, without ever forming the matrix.

r rows I and r columns J determine a matrix of rank r: Q = C G^+ R with C = Q[:, J], R = Q[I, :] and G = Q[I, J] (see
`svrl.cross`). Each iteration backs up only those, r (S + A) pairs, and one more pair per state at the best action of
the skeleton, where the backup is exact. The value of a state is the larger of that backup and its best entry in C. So
V_{t+1} <= T V_t, and errors cannot feed on themselves.

The pivots of C and R (QR with exchange) are the rows and columns of the next iteration, which costs no backup. Maxima
over actions are computed from the factors block by block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.matrix.arrays import check_positive, check_whole
from svrl.matrix.cross import pivots, skeleton
from svrl.planning.method import Meter, MethodResult
from svrl.planning.sampling import SampledState, first_policy, first_values, settle

BLOCK = 1 << 22
"""Entries of Q formed at once in the search for maxima."""
CUT = 1e-6
"""Singular values of G below this share of the largest are left out."""
HELD_OUT = 64
"""Rows, and columns, whose crossings judge the factors."""
FAR_OFF = 0.25
"""Allowed root mean square error there, over the spread between actions. Good plans had at most .07, poor ones .4."""


@dataclass(kw_only=True)
class CrossState(SampledState):
    """State of the cross method."""

    rows: Tensor | None = None  # backed up in the next iteration; None before the first
    columns: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None  # of Q, left (S, r) and right (A, r)
    before: Tensor | None = None  # the values (S,) whose backup the factors approximate


@dataclass(frozen=True, kw_only=True)
class CrossValueIteration:
    """Value iteration through the skeleton decomposition of Q.

    Attributes:
        rank: Rows and columns backed up in an iteration, r.
        final_sweep: End with one full sweep, counted in the ledger.
        tolerance: Stop once the mean change of V is below this share of the attainable range.
        max_iterations: Most iterations.
    """

    rank: int = 12
    final_sweep: bool = False
    tolerance: float = 1e-6
    max_iterations: int = 300
    name = "cross"

    def __post_init__(self) -> None:
        check_whole("CrossValueIteration", rank=self.rank, max_iterations=self.max_iterations)
        check_positive("CrossValueIteration", tolerance=self.tolerance)

    def begin(self, meter: Meter, v: Tensor | None) -> CrossState:
        """Pessimistic values; rows and columns are drawn in the first step."""
        return CrossState(v=first_values(meter, v), policy=first_policy(meter))

    def step(self, meter: Meter, state: CrossState, generator: torch.Generator) -> CrossState:
        """Back up rows and columns, complete, verify, and choose the next rows and columns."""
        if state.rows is None or state.columns is None:
            state.rows, state.columns = (
                torch.randperm(n, generator=generator, device=meter.device)[: self.rank]
                for n in (meter.n_states, meter.n_actions)
            )
        columns = state.columns
        c = meter.backup_columns(state.v, columns)
        r = meter.backup_rows(state.v, state.rows)
        with meter.estimating():
            left, right = skeleton(c, r, columns, CUT)
            proposed = argmax_of_product(left, right)
            state.rows, state.columns = pivots(c, self.rank), pivots(r.mT, self.rank)
        state.factors, state.before, state.rank = (left, right.mT), state.v, left.shape[1]
        value, best = meter.backup_policy(state.v, proposed), c.max(1)
        policy = torch.where(best.values > value, columns[best.indices], proposed)
        low, high = meter.value_range
        v = torch.maximum(value, best.values)
        settle(state, v, policy, self.tolerance * (high - low), 0.9, on_average=True)
        return state

    def finish(self, meter: Meter, state: CrossState, generator: torch.Generator) -> MethodResult:
        """Return the factors and the verified actions, or those of one full sweep."""
        v, policy = state.v, state.policy
        if not state.outcome:
            state.outcome = self._judged(meter, state, generator)
        if self.final_sweep:
            v, policy = meter.improve(state.v)
        return MethodResult(policy=policy, v=v, factors=state.factors)

    def _judged(self, meter: Meter, state: CrossState, generator: torch.Generator) -> str:
        """An empty string, or a sentence that says how far off the factors are."""
        shape = meter.n_states, meter.n_actions
        some = [torch.randperm(n, generator=generator, device=meter.device)[:HELD_OUT] for n in shape]
        states, actions = (index.reshape(-1) for index in torch.meshgrid(*some, indexing="ij"))
        assert state.before is not None
        assert state.factors is not None
        exact = meter.backup_at(state.before, states, actions).reshape(len(some[0]), len(some[1]))
        left, right = state.factors
        fitted = left[some[0]] @ right[some[1]].mT
        error, spread = (
            float(of.square().mean().sqrt()) for of in (fitted - exact, exact - exact.mean(1, keepdim=True))
        )
        low, high = meter.value_range
        if error <= max(FAR_OFF * spread, self.tolerance * max(high - low, abs(low), abs(high))):
            return ""
        return (
            f"Q is not of rank {state.rank}: on held-out rows and columns the error is {error:.2g}, and the spread "
            f"between actions is {spread:.2g}. Raise the rank, or use a method without structure."
        )


def argmax_of_product(left: Tensor, right: Tensor) -> Tensor:
    """First action of the largest entry in every row of left (S, k) @ right (k, A), block by block."""
    left, right = left.float(), right.float()
    rows = max(1, BLOCK // right.shape[1])
    best = torch.empty(len(left), dtype=torch.int64, device=left.device)
    # One buffer for all blocks: freeing and allocating large ones fragments gigabytes of the heap.
    block = torch.empty(rows, right.shape[1], dtype=left.dtype, device=left.device)
    for low in range(0, len(left), rows):
        some = left[low : low + rows]
        product = torch.mm(some, right, out=block[: len(some)])
        torch.argmax(product, 1, out=best[low : low + rows])
    return best
