"""Shared code of methods that back up a random part of the pairs: draw pairs, take the best of a draw, and stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from svrl.matrix import Bernoulli
from svrl.planning.method import Meter, State

MISSED = 1e-3
"""Largest probability that all draws within a stop rule's window miss a pair."""


@dataclass(kw_only=True)
class SampledState(State):
    """State of a method that backs up a part of the pairs."""

    policy: Tensor  # (S,), int64; 0 in states with no known pair yet
    still: int = 0  # iterations in a row in which nothing moved


class Drawn(NamedTuple):
    """Pairs and their backups, (K,) each, in row order."""

    states: Tensor
    actions: Tensor
    values: Tensor


def check_share(name: str, p: float) -> None:
    """Raise ValueError for a p outside (0, 1]."""
    if not 0.0 < p <= 1.0:
        raise ValueError(f"{name} needs a share to observe in (0, 1], got {p}.")


def first_values(meter: Meter, v: Tensor | None) -> Tensor:
    """The given values, or pessimistic ones: no policy has lower values."""
    low = meter.value_range[0]
    return torch.full((meter.n_states,), low, dtype=torch.float64, device=meter.device) if v is None else v.clone()


def first_policy(meter: Meter) -> Tensor:
    """Action 0 in every state."""
    return torch.zeros(meter.n_states, dtype=torch.int64, device=meter.device)


def observe(meter: Meter, v: Tensor, p: float, generator: torch.Generator, *, cover: bool = False) -> Drawn:
    """Draw pairs with probability p and back them up. With `cover`, empty rows and columns get one extra pair."""
    index = Bernoulli(p=p, cover=cover).indices((meter.n_states, meter.n_actions), generator, meter.device)
    states = index // meter.n_actions
    actions = index - states * meter.n_actions
    return Drawn(states, actions, meter.backup_at(v, states, actions))


def best_of_rows(meter: Meter, drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Largest drawn value of every state (S,), -inf where none was drawn, and its action (S,)."""
    states, actions, values = drawn
    best = torch.full((meter.n_states,), -torch.inf, dtype=values.dtype, device=meter.device)
    best.scatter_reduce_(0, states, values, "amax")
    winners = torch.nonzero(values == best[states]).squeeze(-1)
    action = torch.full((meter.n_states,), meter.n_actions, dtype=torch.int64, device=meter.device)
    action.scatter_reduce_(0, states[winners], actions[winners], "amin")  # the first of equals, on any device
    return best, action.remainder_(meter.n_actions)


def settle(
    state: SampledState, v: Tensor, policy: Tensor, tolerance: float, p: float, *, on_average: bool = False
) -> None:
    """Store new values, and finish once no value (`on_average`: the mean) moves by more than the tolerance.

    That must last for enough iterations that they draw nearly every pair: a single iteration in which nothing moves
    says little, because pairs that were not drawn may still move V.
    """
    moved = (v - state.v).abs()
    state.residual = float(moved.max())
    state.v, state.policy = v, policy
    still = (float(moved.mean()) if on_average else state.residual) <= tolerance
    state.still = state.still + 1 if still else 0
    state.finished = state.still >= (1 if p >= 1.0 else math.ceil(math.log(MISSED) / math.log1p(-p)))
