"""Value iteration on a random part of the pairs, without any structure: the baselines of SVP.

Each backs up as many pairs an iteration as SVP would and differs in what it does about the others:

- async keeps their old values, from a pessimistic start;
- sampled-max ignores them;
- row-mean-update moves them by the mean update of their row;
- coarse looks at k equispaced actions only, and ends with one full sweep;
- incumbent backs up each state's best action so far, and a few random ones.

An entry that was never backed up is never chosen: a state that comes out empty gets one pair more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.matrix import Bernoulli
from svrl.matrix.parameters import check_positive, check_whole
from svrl.planning.meter import Meter
from svrl.planning.method import Found, State


def first_values(meter: Meter, v: Tensor | None) -> Tensor:
    """The given values, or the pessimistic ones: no policy is worth less."""
    low = meter.value_range[0]
    return torch.full((meter.n_states,), low, dtype=torch.float64, device=meter.device) if v is None else v.clone()


def observe(
    meter: Meter, v: Tensor, p: float, generator: torch.Generator, *, cover: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw pairs with probability p and back them up: states, actions and values, (K,) each, by rows.

    With `cover`, rows and columns that came out empty get one pair more.
    """
    index = Bernoulli(p=p, cover=cover).indices((meter.n_states, meter.n_actions), generator, meter.device)
    states = index // meter.n_actions
    actions = index - states * meter.n_actions
    return states, actions, meter.backup_at(v, states, actions)


def best_of_rows(meter: Meter, states: Tensor, actions: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Largest listed value of every state (S,), -inf where none is listed, and its action (S,)."""
    best = torch.full((meter.n_states,), -torch.inf, dtype=values.dtype, device=meter.device)
    best.scatter_reduce_(0, states, values, "amax")
    winners = torch.nonzero(values == best[states]).squeeze(-1)
    action = torch.full((meter.n_states,), meter.n_actions, dtype=torch.int64, device=meter.device)
    action.scatter_reduce_(0, states[winners], actions[winners], "amin")  # the first of equals, on any device
    return best, action.remainder_(meter.n_actions)


MISSED = 1e-3
"""A pair should be missed by all the draws that a stop rule looks at no more often than this."""


def quiet_long_enough(state: State, quiet: bool, observe: float) -> bool:
    """Whether nothing has moved for so many iterations that hardly any pair was not looked at, counting this one.

    One quiet iteration says little where only a share of the pairs was drawn: the others may still move V.
    """
    before = state.memory.get("quiet", torch.zeros((), dtype=torch.int64))
    state.memory["quiet"] = before + 1 if quiet else torch.zeros_like(before)
    needed = 1 if observe >= 1.0 else math.ceil(math.log(MISSED) / math.log1p(-observe))
    return int(state.memory["quiet"]) >= needed


def settle(state: State, v: Tensor, policy: Tensor, tolerance: float, observe: float) -> State:
    """Take over new values; finished once none has moved by more than the tolerance for long enough."""
    state.residual = float((v - state.v).abs().max())
    state.v = v
    state.memory["policy"] = policy
    state.finished = quiet_long_enough(state, state.residual <= tolerance, observe)
    return state


def _check(name: str, observe: float, iterations: int) -> None:
    if not 0.0 < observe <= 1.0:
        raise ValueError(f"{name} needs a share to observe in (0, 1], got {observe}.")
    check_whole(name, max_iterations=iterations)


@dataclass(frozen=True, kw_only=True)
class AsyncValueIteration:
    """Asynchronous value iteration: pairs that were not drawn keep their old values.

    Attributes:
        observe: Share of the pairs backed up in an iteration.
        tolerance: Stop once no value moves by more.
        max_iterations: Most iterations.
    """

    observe: float = 0.2
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "async"

    def __post_init__(self) -> None:
        _check("AsyncValueIteration", self.observe, self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Nothing is known of any pair."""
        shape = meter.n_states, meter.n_actions
        q = torch.full(shape, -torch.inf, dtype=torch.float32, device=meter.device)
        return State(v=first_values(meter, v), memory={"q": q})

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """Replace what was drawn."""
        states, actions, values = observe(meter, state.v, self.observe, generator, cover=True)
        q = state.memory["q"]
        q.view(-1)[states * meter.n_actions + actions] = values.to(q.dtype)
        top = q.max(1)
        v = torch.where(top.values.isfinite(), top.values.double(), state.v)
        return settle(state, v, top.indices, self.tolerance, self.observe)

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The best entry ever backed up."""
        return Found(policy=state.memory["policy"], v=state.v, q=state.memory["q"])


@dataclass(frozen=True, kw_only=True)
class SampledMax:
    """V from the drawn actions alone.

    Attributes:
        observe: Share of the pairs backed up in an iteration.
        tolerance: Stop once no value moves by more.
        max_iterations: Most iterations.
    """

    observe: float = 0.2
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "sampled-max"

    def __post_init__(self) -> None:
        _check("SampledMax", self.observe, self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Only values are kept."""
        policy = torch.zeros(meter.n_states, dtype=torch.int64, device=meter.device)
        return State(v=first_values(meter, v), memory={"policy": policy})

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """The maximum of what was drawn; a state without a draw keeps its value."""
        best, action = best_of_rows(meter, *observe(meter, state.v, self.observe, generator, cover=True))
        seen = best.isfinite()
        v = torch.where(seen, best, state.v)
        return settle(state, v, torch.where(seen, action, state.memory["policy"]), self.tolerance, self.observe)

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The last draw's best actions."""
        return Found(policy=state.memory["policy"], v=state.v)


@dataclass(frozen=True, kw_only=True)
class RowMeanUpdate:
    """Pairs that were not drawn move by the mean update of the drawn ones of their row.

    Attributes:
        observe: Share of the pairs backed up in an iteration.
        tolerance: Stop once no value moves by more.
        max_iterations: Most iterations.
    """

    observe: float = 0.2
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "row-mean-update"

    def __post_init__(self) -> None:
        _check("RowMeanUpdate", self.observe, self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """All pairs as unknown."""
        shape = meter.n_states, meter.n_actions
        q = torch.full(shape, -torch.inf, dtype=torch.float32, device=meter.device)
        return State(v=first_values(meter, v), memory={"q": q})

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """Replace what was drawn and move the rest of each row with it; unknown pairs stay unknown."""
        states, actions, values = observe(meter, state.v, self.observe, generator, cover=True)
        q = state.memory["q"]
        index = states * meter.n_actions + actions
        old = q.view(-1)[index]
        known = old.isfinite()
        zeros = torch.zeros(meter.n_states, dtype=torch.float64, device=meter.device)
        moved = zeros.index_add(0, states[known], (values - old)[known].double())
        count = zeros.index_add(0, states[known], torch.ones_like(values[known], dtype=torch.float64))
        q += (moved / count.clamp(min=1.0)).to(q.dtype)[:, None]
        q.view(-1)[index] = values.to(q.dtype)
        top = q.max(1)
        v = torch.where(top.values.isfinite(), top.values.double(), state.v)
        return settle(state, v, top.indices, self.tolerance, self.observe)

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The best known entry."""
        return Found(policy=state.memory["policy"], v=state.v, q=state.memory["q"])


@dataclass(frozen=True, kw_only=True)
class CoarseActions:
    """Value iteration on k equispaced actions, and one full sweep at the end.

    Attributes:
        actions: How many actions, k.
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

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Only values are kept."""
        return State(v=first_values(meter, v))

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """A sweep over the chosen columns."""
        count = min(self.actions, meter.n_actions)
        chosen = torch.linspace(0, meter.n_actions - 1, count, dtype=torch.float64).round().long().to(meter.device)
        top = meter.backup_columns(state.v, chosen).max(1)
        return settle(state, top.values, chosen[top.indices], self.tolerance, 1.0)

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """One full sweep from the coarse values."""
        v, policy = meter.improve(state.v)
        return Found(policy=policy, v=v)


@dataclass(frozen=True, kw_only=True)
class IncumbentIteration:
    """Each state's best action so far is backed up again, with a few random challengers.

    With noisy backups every pair that is asked for gets as many samples as make the iteration cost
    what a full sweep costs, S x A.

    Attributes:
        observe: Share of the pairs backed up in an iteration; gives the number of challengers.
        challengers: How many random actions a state, instead of `observe`.
        tolerance: Stop once no value moves by more, without noise.
        max_iterations: Most iterations.
    """

    observe: float = 0.2
    challengers: int | None = None
    tolerance: float = 1e-6
    max_iterations: int = 200
    name = "incumbent"

    def __post_init__(self) -> None:
        _check("IncumbentIteration", self.observe, self.max_iterations)
        check_whole("IncumbentIteration", challengers=1 if self.challengers is None else self.challengers)

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Any action as the first incumbent; with noise from v = 0, as the other noisy methods."""
        policy = torch.zeros(meter.n_states, dtype=torch.int64, device=meter.device)
        first = first_values(meter, v)
        return State(v=torch.zeros_like(first) if meter.noisy and v is None else first, memory={"policy": policy})

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """The best of the incumbent and the challengers becomes the incumbent."""
        few = self.challengers or max(1, round(self.observe * meter.n_actions) - 1)
        shape = meter.n_states, few
        random = torch.randint(meter.n_actions, shape, generator=generator, device=meter.device)
        actions = torch.cat([state.memory["policy"][:, None], random], 1)
        states = torch.arange(meter.n_states, device=meter.device)[:, None].expand_as(actions)
        asked = states.reshape(-1), actions.reshape(-1)
        if meter.noisy:
            count = max(1, meter.n_actions // (few + 1))
            values = meter.sample_at(state.v, *asked, generator, count)
        else:
            values = meter.backup_at(state.v, *asked)
        top = values.reshape(actions.shape).max(1)
        policy = actions.gather(1, top.indices[:, None]).squeeze(1)
        return settle(
            state, top.values, policy, -1.0 if meter.noisy else self.tolerance, min(1.0, few / meter.n_actions)
        )

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The incumbents."""
        return Found(policy=state.memory["policy"], v=state.v)
