"""Structured value-based planning (SVP): back up some pairs, recover the others by matrix estimation.

This is the paper's algorithm 1. In iteration t every pair is observed with probability p and backed up,

    Q^(s, a) = r(s, a) + gamma * E[max_a' Q_t(s', a')]        for (s, a) observed,

and Q_{t+1} = ME(observed entries). `StructuredValueIteration` is that loop with options, and `paper_svp` has the
paper's choices.

The default differs from it where measurements were better. It subtracts row means first. Otherwise the result depends
on a constant added to the reward: shrinkage pulls missing entries towards zero, and if Q is negative they win the
maximum. The recovered matrix only proposes an action for each state. The value is an exact backup there (`verify`), or
the best observed entry if that is larger. Then V_{t+1} <= T V_t always, an error of the estimate cannot feed on itself,
and the only loss is the gap between the proposed action and the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from svrl.matrix import Estimate, Estimator, FactorALS, Observed, SoftImpute
from svrl.matrix.arrays import Output, check_whole
from svrl.matrix.scaling import means_of_rows
from svrl.planning.method import Meter, MethodResult
from svrl.planning.sampling import (
    Drawn,
    SampledState,
    best_of_rows,
    check_share,
    first_policy,
    first_values,
    observe,
    settle,
)


@dataclass(kw_only=True)
class SVPState(SampledState):
    """State of SVP."""

    q: Tensor | None = None  # the last estimate (S, A)
    start: Estimate | None = None  # warm start of the next estimation


@dataclass(frozen=True, kw_only=True)
class StructuredValueIteration:
    """Structured value-based planning.

    Attributes:
        p: Probability that a pair is backed up in an iteration.
        cover: Add a pair to every empty row and column; no estimator can recover those.
        estimator: Recovers Q from the observed pairs. With `centre` it sees values of root mean square 1.
        centre: Subtract each row's observed mean before the estimation, and add it after.
        warm_start: Start each estimation from the last one.
        clip: Keep estimates in the attainable range [r_min, r_max] / (1 - gamma).
        verify: Set the value of a state to the larger of its best observed pair and one exact backup at the
            estimate's best action; otherwise to the estimate's maximum, as in the paper.
        final_sweep: End with one full sweep, counted in the ledger.
        tolerance: Stop once the mean change of V stays below this share of the attainable range, for enough
            iterations that they draw nearly every pair.
        max_iterations: Most iterations.
        name: Short name.
    """

    p: float = 0.2
    cover: bool = True
    estimator: Estimator = field(default_factory=lambda: FactorALS(rank=10, ridge=1e-3, max_steps=1, tolerance=1e-6))
    centre: bool = True
    warm_start: bool = True
    clip: bool = True
    verify: bool = True
    final_sweep: bool = True
    tolerance: float = 1e-6
    max_iterations: int = 200
    name: str = "svp"

    def __post_init__(self) -> None:
        check_share(self.name, self.p)
        check_whole(self.name, max_iterations=self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> SVPState:
        """Start from pessimistic values with `verify`, which keeps every V_t below V*; otherwise from zeros."""
        if self.p * meter.n_actions < 1.0:
            raise ValueError(
                f"{self.name} would observe {self.p * meter.n_actions:.2g} actions of a state, and no matrix "
                f"estimation recovers an empty row. Set p to at least {1.0 / meter.n_actions:.2g}."
            )
        first = first_values(meter, v)
        if v is None and not self.verify:
            first = torch.zeros_like(first)
        return SVPState(v=first, policy=first_policy(meter))

    def step(self, meter: Meter, state: SVPState, generator: torch.Generator) -> SVPState:
        """Observe and back up, complete, verify."""
        drawn = observe(meter, state.v, self.p, generator, cover=self.cover)
        if not self.cover:
            empty = torch.bincount(drawn.states, minlength=meter.n_states) == 0
            if bool(empty.any()):
                state.finished = True
                state.outcome = (
                    f"{self.name} observed no action of state {int(empty.nonzero()[0])}, and no matrix estimation "
                    f"recovers an empty row. Set p above {self.p}."
                )
                return state

        with meter.estimating():
            state.q, policy = self._complete(meter, state, drawn, generator)
        v = state.q.gather(1, policy[:, None]).squeeze(1).double()
        if self.verify:
            proposed = meter.backup_policy(state.v, policy)
            best, action = best_of_rows(meter, drawn)
            v = torch.maximum(best, proposed)
            policy = torch.where(best > proposed, action, policy)
        low, high = meter.value_range
        settle(state, v, policy, self.tolerance * (high - low), self.p, on_average=True)
        return state

    def finish(self, meter: Meter, state: SVPState, generator: torch.Generator) -> MethodResult:
        """Return the last iteration's actions, or those of one full sweep."""
        v, policy = meter.improve(state.v) if self.final_sweep else (state.v, state.policy)
        return MethodResult(policy=policy, v=v, q=state.q)

    def _complete(
        self, meter: Meter, state: SVPState, drawn: Drawn, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Estimate Q (S, A) and its best actions (S,). Keeps its rank and the next start in the state."""
        states, actions, values = drawn
        shape = meter.n_states, meter.n_actions
        offset, unit = torch.zeros(meter.n_states, dtype=torch.float64, device=meter.device), 1.0
        if self.centre:
            offset = means_of_rows(states, values, meter.n_states)
            unit = float((values - offset[states]).square().mean().sqrt())
            unit = unit if unit > 0.0 else 1.0
        dense = torch.zeros(shape, dtype=torch.float32, device=meter.device)
        mask = torch.zeros(shape, dtype=torch.bool, device=meter.device)
        index = states * meter.n_actions + actions
        dense.view(-1)[index] = ((values - offset[states]) / unit).float()
        mask.view(-1)[index] = True
        estimate = self.estimator(Observed.trusted(dense, mask), start=state.start, generator=generator)
        state.rank = int(estimate.rank)
        # The start of the next estimation is the matrix, or factors without the matrix that they form.
        state.start = estimate if self.warm_start else None
        if self.warm_start and estimate.factors is not None:  # factors that vanished would stay zero for ever
            whole = int(estimate.rank) == estimate.factors[0].shape[-1]
            state.start = replace(estimate, dense=None) if whole else None
        q = torch.as_tensor(estimate.matrix).mul(unit)
        policy = q.argmax(1)  # before the offset, which may be so large that it rounds differences away
        q.add_(offset.float()[:, None])
        return q.clamp_(*meter.value_range) if self.clip else q, policy


def paper_svp(*, p: float = 0.2, max_iterations: int = 200, output: Output = "fill") -> StructuredValueIteration:
    """The paper's algorithm with its Soft-Impute: shrinkage of 1/50 of the largest singular value, tolerance 1e-3.

    Each estimation starts from the last one, which changes its time and not its optimum. `output` "fill" keeps observed
    entries, as in the authors' code; "estimate" returns the minimiser, as in the paper.
    """
    estimator = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output=output)
    return StructuredValueIteration(
        p=p,
        cover=False,
        estimator=estimator,
        centre=False,
        clip=False,
        verify=False,
        final_sweep=False,
        max_iterations=max_iterations,
        name="paper-svp",
    )
