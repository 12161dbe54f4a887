"""Shared by methods that back up a random part of the pairs: drawing, the best of a draw, and when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from svrl.matrix import Bernoulli
from svrl.planning.method import Meter, State

MISSED = 1e-3
"""All draws that a stop rule looks at should miss a pair no more often than this."""


@dataclass(kw_only=True)
class SampledState(State):
    """State of a method that backs up a part of the pairs."""

    policy: Tensor  # (S,), int64; 0 in states of which nothing is known yet
    still: int = 0  # iterations in a row in which nothing moved


class Drawn(NamedTuple):
    """Pairs and their backups, (K,) each, by rows."""

    states: Tensor
    actions: Tensor
    values: Tensor


def check_share(name: str, p: float) -> None:
    """Raise ValueError for a p outside (0, 1]."""
    if not 0.0 < p <= 1.0:
        raise ValueError(f"{name} needs a share to observe in (0, 1], got {p}.")


def first_values(meter: Meter, v: Tensor | None) -> Tensor:
    """The given values, or pessimistic ones: no policy is worth less."""
    low = meter.value_range[0]
    return torch.full((meter.n_states,), low, dtype=torch.float64, device=meter.device) if v is None else v.clone()


def first_policy(meter: Meter) -> Tensor:
    """Action 0 in every state."""
    return torch.zeros(meter.n_states, dtype=torch.int64, device=meter.device)


def observe(meter: Meter, v: Tensor, p: float, generator: torch.Generator, *, cover: bool = False) -> Drawn:
    """Draw pairs with probability p and back them up. With `cover`, empty rows and columns get one pair more."""
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
    """Take over new values, and finish once none moves by more than the tolerance, or not `on_average`.

    That has to last for so many iterations that hardly any pair was left out of all of them: a single iteration in
    which nothing moves says little, because pairs that were not drawn may still move V.
    """
    moved = (v - state.v).abs()
    state.residual = float(moved.max())
    state.v, state.policy = v, policy
    still = (float(moved.mean()) if on_average else state.residual) <= tolerance
    state.still = state.still + 1 if still else 0
    state.finished = state.still >= (1 if p >= 1.0 else math.ceil(math.log(MISSED) / math.log1p(-p)))
