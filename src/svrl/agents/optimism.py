"""Are values too high? What an agent expects of the states that it meets, against what it then got.

    G_t = r_t + discount * G_{t+1},    and G_t = r_t where the bootstrap ends (a terminal state, a lost life if that
                                       ends it)

with rewards as the agent learns from them. A record ends somewhere, and what comes after it is unknown. A state
counts if the unknown part weighs at most 1% in its return: if it is followed by H steps with discount^H <= .01, or
if a cut of the episode is as far away. States close to the end of the record are left out even where their return is
known, because those would be the ones that are about to fail; and so are all states of episodes that are older than
the youngest cut less H steps, because of those only the ones that failed before their cut would be known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

UNKNOWN = 0.01
"""Largest weight of what comes after the record."""


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """Values against returns, in units of Q.

    Attributes:
        states: States that count.
        value: Mean of max_a Q(s, a).
        gained: Mean discounted return from there.
        optimism: The difference; above 0 the agent expects too much.
        error: Root of the mean square of the difference.
    """

    states: int
    value: float
    gained: float
    optimism: float
    error: float


def discounted_returns(rewards: Tensor, stops: Tensor, cuts: Tensor, discount: float) -> tuple[Tensor, Tensor]:
    """Returns (T, N), and the weight (T, N) of what is unknown in each; float64.

    Args:
        rewards: (T, N), as the agent learns from them.
        stops: (T, N), bool: nothing comes after this step.
        cuts: (T, N), bool: what comes after this step was not seen.
        discount: In (0, 1).
    """
    gained, weight = torch.empty_like(rewards, dtype=torch.float64), torch.empty_like(rewards, dtype=torch.float64)
    after = torch.zeros(rewards.shape[1], dtype=torch.float64)
    unknown = torch.ones_like(after)
    for t in range(len(rewards) - 1, -1, -1):
        over = stops[t] | cuts[t]
        gained[t] = after = rewards[t].double() + discount * torch.where(over, 0.0, after)
        unknown = torch.where(cuts[t], 1.0, unknown)
        weight[t] = unknown = discount * torch.where(stops[t], 0.0, unknown)
    return gained, weight


def _ages(ended: Tensor) -> Tensor:
    """(T, N), int64: steps of the episode before this one."""
    ages, age = [], torch.zeros(ended.shape[1], dtype=torch.int64)
    for over in ended:
        ages.append(age)
        age = torch.where(over, 0, age + 1)
    return torch.stack(ages)


def optimism_of(
    values: Tensor, rewards: Tensor, stops: Tensor, cuts: Tensor, ended: Tensor, discount: float
) -> Optimism | None:
    """Hold values (T, N) of the states of N lanes against their returns; None if no state counts.

    Args:
        values: (T, N), of the best action of each state.
        rewards, stops, cuts: As those of `discounted_returns`.
        ended: (T, N), bool: another episode begins after this step.
        discount: In (0, 1).
    """
    gained, weight = discounted_returns(rewards, stops, cuts, discount)
    late = math.ceil(math.log(UNKNOWN) / math.log(discount))
    counts = weight <= UNKNOWN
    counts[max(0, len(values) - late) :] = False
    age = _ages(ended)
    if bool(cuts.any()):
        counts &= age <= int(age[cuts].min()) + 1 - late
    if not bool(counts.any()):
        return None
    expected, got = values.double()[counts], gained[counts]
    gap = expected - got
    return Optimism(
        states=int(counts.sum()),
        value=float(expected.mean()),
        gained=float(got.mean()),
        optimism=float(gap.mean()),
        error=float(gap.square().mean().sqrt()),
    )
