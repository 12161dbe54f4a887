"""Value iteration on a part of the pairs without any structure: the baselines of SVP.

Each backs up as many pairs per iteration as SVP, and treats the others in its own way:

- async keeps their old values, from a pessimistic start;
- sampled-max ignores them;
- row-mean-update moves them by the mean update of their row;
- coarse uses only k equispaced actions, and ends with one full sweep;
- incumbent backs up each state's best action so far, and a few random ones.

No method chooses an entry that was never backed up: a state without a draw gets one extra pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from svrl.matrix.arrays import check_positive, check_whole
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
class TableState(SampledState):
    """A state that also keeps Q (S, A), float32, of all pairs ever backed up; -inf for the others."""

    q: Tensor


class _FromValues:
    """Begin with values alone, and end with the last step's policy."""

    def begin(self, meter: Meter, v: Tensor | None) -> SampledState:
        """Start from values only."""
        return SampledState(v=first_values(meter, v), policy=first_policy(meter))

    def finish(self, meter: Meter, state: Any, generator: torch.Generator) -> MethodResult:
        """The policy and the values of the last step."""
        return MethodResult(policy=state.policy, v=state.v)


@dataclass(frozen=True, kw_only=True)
class SampledMax(_FromValues):
    """Value iteration that takes V from the drawn actions alone.

    Attributes:
        p: Share of the pairs backed up in an iteration.
        tolerance: Stop once no value moves by more.
        max_iterations: Most iterations.
    """

    p: float = 0.2
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "sampled-max"

    def __post_init__(self) -> None:
        check_share(type(self).__name__, self.p)
        check_whole(type(self).__name__, max_iterations=self.max_iterations)

    def step(self, meter: Meter, state: Any, generator: torch.Generator) -> SampledState:
        """Back up a draw, and take the best pair of each row; a state without one keeps its value."""
        best, action = self._best(meter, state, observe(meter, state.v, self.p, generator, cover=True))
        known = best.isfinite()
        v, policy = torch.where(known, best.double(), state.v), torch.where(known, action, state.policy)
        settle(state, v, policy, self.tolerance, self.p)
        return state

    def _best(self, meter: Meter, state: Any, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """Maximum of each row (S,), -inf where no pair is known, and its action (S,)."""
        return best_of_rows(meter, drawn)


@dataclass(frozen=True, kw_only=True)
class AsyncValueIteration(SampledMax):
    """Asynchronous value iteration: pairs that were not drawn keep their old values.

    The parameters are those of `SampledMax`.
    """

    name = "async"

    def begin(self, meter: Meter, v: Tensor | None) -> TableState:
        """Start with no known pair."""
        shape = meter.n_states, meter.n_actions
        q = torch.full(shape, -torch.inf, dtype=torch.float32, device=meter.device)
        return TableState(v=first_values(meter, v), policy=first_policy(meter), q=q)

    def finish(self, meter: Meter, state: TableState, generator: torch.Generator) -> MethodResult:
        """The best entries ever backed up."""
        return MethodResult(policy=state.policy, v=state.v, q=state.q)

    def _best(self, meter: Meter, state: TableState, drawn: Drawn) -> tuple[Tensor, Tensor]:
        state.q[drawn.states, drawn.actions] = drawn.values.to(state.q.dtype)
        top = state.q.max(1)
        return top.values, top.indices


@dataclass(frozen=True, kw_only=True)
class RowMeanUpdate(AsyncValueIteration):
    """Value iteration that moves pairs not drawn by the mean update of their row; unknown pairs stay unknown.

    The parameters are those of `SampledMax`.
    """

    name = "row-mean-update"

    def _best(self, meter: Meter, state: TableState, drawn: Drawn) -> tuple[Tensor, Tensor]:
        q = state.q
        old = q[drawn.states, drawn.actions]
        known = old.isfinite()
        rows, update = drawn.states[known], (drawn.values - old)[known].double()
        zeros = torch.zeros(len(q), dtype=torch.float64, device=q.device)
        count = zeros.index_add(0, rows, torch.ones_like(update))
        q += (zeros.index_add(0, rows, update) / count.clamp(min=1.0)).to(q.dtype)[:, None]
        return super()._best(meter, state, drawn)


@dataclass(frozen=True, kw_only=True)
class CoarseActions(_FromValues):
    """Value iteration on k equispaced actions, and one full sweep at the end.

    Attributes:
        actions: Number of actions, k.
        tolerance: Stop once no value moves by more.
        max_iterations: Most iterations.
    """

    actions: int = 10
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "coarse"

    def __post_init__(self) -> None:
        check_whole("CoarseActions", actions=self.actions, max_iterations=self.max_iterations)
        check_positive("CoarseActions", tolerance=self.tolerance)

    def step(self, meter: Meter, state: SampledState, generator: torch.Generator) -> SampledState:
        """Sweep over the chosen columns."""
        count = min(self.actions, meter.n_actions)
        chosen = torch.linspace(0, meter.n_actions - 1, count, dtype=torch.float64).round().long().to(meter.device)
        top = meter.backup_columns(state.v, chosen).max(1)
        settle(state, top.values, chosen[top.indices], self.tolerance, 1.0)
        return state

    def finish(self, meter: Meter, state: SampledState, generator: torch.Generator) -> MethodResult:
        """Run one full sweep from the coarse values."""
        v, policy = meter.improve(state.v)
        return MethodResult(policy=policy, v=v)


@dataclass(frozen=True, kw_only=True)
class IncumbentIteration(_FromValues):
    """Value iteration on each state's best action so far, and a few random challengers.

    With noisy backups every pair gets enough samples that an iteration costs as much as a full sweep, S x A.

    Attributes:
        p: Share of the pairs backed up in an iteration, which gives the number of challengers.
        challengers: Number of random actions per state, instead of `p`.
        tolerance: Stop once no value moves by more, without noise.
        max_iterations: Most iterations.
    """

    p: float = 0.2
    challengers: int | None = None
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "incumbent"

    def __post_init__(self) -> None:
        check_share("IncumbentIteration", self.p)
        challengers = 1 if self.challengers is None else self.challengers
        check_whole("IncumbentIteration", challengers=challengers, max_iterations=self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> SampledState:
        """Take action 0 as the first incumbent. With noise, values start from 0, as in the other noisy methods."""
        state = super().begin(meter, v)
        if meter.noisy and v is None:
            state.v = torch.zeros_like(state.v)
        return state

    def step(self, meter: Meter, state: SampledState, generator: torch.Generator) -> SampledState:
        """Make the best of the incumbent and the challengers the incumbent."""
        few = self.challengers or max(1, round(self.p * meter.n_actions) - 1)
        random = torch.randint(meter.n_actions, (meter.n_states, few), generator=generator, device=meter.device)
        actions = torch.cat([state.policy[:, None], random], 1)
        states = torch.arange(meter.n_states, device=meter.device)[:, None].expand_as(actions)
        asked = states.reshape(-1), actions.reshape(-1)
        if meter.noisy:
            values = meter.sample_at(state.v, *asked, generator, max(1, meter.n_actions // (few + 1)))
        else:
            values = meter.backup_at(state.v, *asked)
        top = values.reshape(actions.shape).max(1)
        policy = actions.gather(1, top.indices[:, None]).squeeze(1)
        tolerance = -1.0 if meter.noisy else self.tolerance  # noise has no natural end
        settle(state, top.values, policy, tolerance, min(1.0, few / meter.n_actions))
        return state
