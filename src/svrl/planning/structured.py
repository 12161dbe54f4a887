"""Structured value-based planning (SVP): back up some pairs, recover the others by matrix estimation.

The paper's algorithm 1. In iteration t every pair is observed with probability p and backed up,

    Q^(s, a) = r(s, a) + discount * E[max_a' Q_t(s', a')]        for (s, a) observed,

and Q_{t+1} = ME(observed entries). `StructuredValueIteration` is that loop with options, and
`paper_svp` the named instance with the paper's choices.

The default differs where measurements said so. Row means are taken out first, since otherwise the
result depends on a constant added to the reward: shrinkage pulls missing entries towards zero,
and if Q is negative they win the maximum. The recovered matrix only proposes an action for each
state; an exact backup there (`verify`), or the best observed entry if that is larger, is the value.
Then V_{t+1} <= T V_t always, an error of the estimate cannot feed on itself, and what is lost is
the gap between the proposed action and the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from svrl.matrix import Estimate, Estimator, FactorALS, Observed, SoftImpute
from svrl.matrix.parameters import check_whole
from svrl.matrix.scaling import means_of_rows
from svrl.planning.meter import Meter
from svrl.planning.method import Found, State
from svrl.planning.sampled_iteration import best_of_rows, first_values, observe, quiet_long_enough


@dataclass(frozen=True, kw_only=True)
class StructuredValueIteration:
    """SVP.

    Attributes:
        observe: Probability p that a pair is backed up in an iteration.
        cover: Add a pair to every row and column that came out empty; nothing recovers an empty one.
        estimator: Recovers Q from the observed pairs. With `centre` it sees values of root-mean-square 1.
        centre: Take each row's observed mean out before, and put it back after.
        warm_start: Start each estimation from the last one.
        clip: Keep estimates in the attainable range [r_min, r_max] / (1 - discount).
        verify: Value of a state = the larger of its best observed pair and one exact backup at the
            estimate's best action; otherwise the estimate's maximum, as in the paper.
        final_sweep: End with one full sweep, counted in the ledger.
        tolerance: Stop once the mean change of V stays below this share of the attainable range, for so many
            iterations that hardly any pair was left out of all of them.
        max_iterations: Most iterations.
        name: Short name.
    """

    observe: float = 0.2
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
        if not 0.0 < self.observe <= 1.0:
            raise ValueError(f"{self.name} needs a share to observe in (0, 1], got {self.observe}.")
        check_whole(self.name, max_iterations=self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Pessimistic values with `verify`, which keeps every V_t below V*; zeros otherwise, as the authors."""
        if self.observe * meter.n_actions < 1.0:
            raise ValueError(
                f"{self.name} would observe {self.observe * meter.n_actions:.2g} actions of a state, and no matrix "
                f"estimation recovers an empty row. Observe at least {1.0 / meter.n_actions:.2g}."
            )
        first = first_values(meter, v)
        if v is None and not self.verify:
            first = torch.zeros_like(first)
        return State(v=first)

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """Observe, back up, complete, and take values from the result."""
        states, actions, values = observe(meter, state.v, self.observe, generator, cover=self.cover)
        with meter.estimating():
            q, policy, estimate = self._complete(meter, state, states, actions, values, generator)
        v = q.gather(1, policy[:, None]).squeeze(1).double()
        if self.verify:
            proposed = meter.backup_at(state.v, torch.arange(meter.n_states, device=meter.device), policy)
            best, action = best_of_rows(meter, states, actions, values)
            v = torch.maximum(best, proposed)
            policy = torch.where(best > proposed, action, policy)
        low, high = meter.value_range
        moved = (v - state.v).abs()
        state.residual = float(moved.max())
        state.finished = quiet_long_enough(state, float(moved.mean()) <= self.tolerance * (high - low), self.observe)
        state.rank = int(estimate.rank)
        state.v = v
        state.memory.update(q=q, policy=policy)
        return state

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The last iteration's actions, or those of one full sweep."""
        q = state.memory["q"]
        if not self.final_sweep:
            return Found(policy=state.memory["policy"], v=state.v, q=q)
        v, policy = meter.improve(state.v)
        return Found(policy=policy, v=v, q=q)

    def _complete(
        self,
        meter: Meter,
        state: State,
        states: Tensor,
        actions: Tensor,
        values: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, Estimate]:
        """The estimate of Q (S, A), its best actions (S,), and how it was made."""
        shape = meter.n_states, meter.n_actions
        offset, unit = self._centre_of(meter, states, values)
        dense = torch.zeros(shape, dtype=torch.float32, device=meter.device)
        mask = torch.zeros(shape, dtype=torch.bool, device=meter.device)
        index = states * meter.n_actions + actions
        dense.view(-1)[index] = ((values - offset[states]) / unit).float()
        mask.view(-1)[index] = True
        if not bool(mask.any(1).all()):
            row = int((~mask.any(1)).nonzero()[0])
            raise ValueError(
                f"{self.name} observed no action of state {row}, and no matrix estimation recovers an empty row. "
                f"Observe more than {self.observe}."
            )
        observed = Observed.trusted(dense, mask)
        start = _recall(state.memory) if self.warm_start else None
        estimate = self.estimator(observed, start=start, generator=generator)
        if self.warm_start:
            _remember(state.memory, estimate)
        q = _dense(estimate).mul(unit)
        policy = q.argmax(1)  # before the offset, which may be so large that differences are rounded away
        q.add_(offset.float()[:, None])
        return q.clamp_(*meter.value_range) if self.clip else q, policy, estimate

    def _centre_of(self, meter: Meter, states: Tensor, values: Tensor) -> tuple[Tensor, float]:
        """Row means (S,) of the observed values, and the root mean square of what is left."""
        if not self.centre:
            return torch.zeros(meter.n_states, dtype=torch.float64, device=meter.device), 1.0
        mean = means_of_rows(states, values, meter.n_states)
        unit = float((values - mean[states]).square().mean().sqrt())
        return mean, unit if unit > 0.0 else 1.0


def paper_svp(*, observe: float = 0.2, max_iterations: int = 200, output: str = "fill") -> StructuredValueIteration:
    """The paper's algorithm with its Soft-Impute: shrinkage of 1/50 of the largest singular value, tolerance 1e-3.

    Warm-started from the last estimate, which changes the time and not the optimum. `output` "fill"
    keeps observed entries, as the authors' code does; "estimate" is the minimiser, as the paper writes.
    """
    estimator = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output=output)  # type: ignore[arg-type]
    return StructuredValueIteration(
        observe=observe,
        cover=False,
        estimator=estimator,
        centre=False,
        clip=False,
        verify=False,
        final_sweep=False,
        max_iterations=max_iterations,
        name="paper-svp",
    )


def _dense(estimate: Estimate) -> Tensor:
    return torch.as_tensor(estimate.matrix)


def _remember(memory: dict[str, Tensor], estimate: Estimate) -> None:
    """Keep what warm-starts the next estimation, as tensors that a checkpoint can hold.

    Factors that vanished would stay zero for ever: the next estimation then starts afresh.
    """
    for name in ("left", "right", "start"):
        memory.pop(name, None)
    if estimate.factors is None:
        memory["start"] = _dense(estimate)
    elif int(estimate.rank) == estimate.factors[0].shape[-1]:
        memory["left"], memory["right"] = (torch.as_tensor(factor) for factor in estimate.factors)


def _recall(memory: dict[str, Tensor]) -> Estimate | Tensor | None:
    if "left" not in memory:
        return memory.get("start")
    nothing = torch.zeros((), dtype=torch.int64)
    factors = memory["left"], memory["right"]
    return Estimate(dense=None, factors=factors, code=nothing, rank=nothing, iterations=nothing, change=nothing)
