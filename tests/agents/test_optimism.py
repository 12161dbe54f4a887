"""Values against returns: sums by hand, closed forms, and which states count."""

from __future__ import annotations

import math

import pytest
import torch

from svrl.agents.study import discounted_returns, overestimation

NEVER = torch.zeros(4, 1, dtype=torch.bool)


def column(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers).view(-1, 1)


def test_returns_by_hand_with_an_end_and_a_cut() -> None:
    stops, cuts = column(0, 1, 0, 0, 0).bool(), column(0, 0, 0, 1, 0).bool()
    gained, weight = discounted_returns(column(1, 2, 3, 4, 5), stops, cuts, 0.5)
    assert gained.flatten().tolist() == [1 + 0.5 * 2, 2, 3 + 0.5 * 4, 4, 5]
    assert weight.flatten().tolist() == [0, 0, 0.25, 0.5, 0.5]


def test_lanes_do_not_mix() -> None:
    rewards = torch.tensor([[1.0, 10.0], [1.0, 10.0]])
    stops = torch.tensor([[True, False], [False, False]])
    gained, _ = discounted_returns(rewards, stops, torch.zeros_like(stops), 0.5)
    assert gained.tolist() == [[1.0, 15.0], [1.0, 10.0]]


def test_a_constant_reward_has_its_closed_form() -> None:
    long, gamma = 400, 0.9
    rewards, never = torch.ones(long, 3), torch.zeros(long, 3, dtype=torch.bool)
    found = overestimation(torch.full((long, 3), 12.0), rewards, never, never, never, gamma)
    assert found is not None
    late = math.ceil(math.log(0.01) / math.log(gamma))
    assert found.states == 3 * (long - late)
    assert found.value == 12.0
    assert found.gained == pytest.approx(10.0, rel=0.01)
    assert found.gained < 10.0, "what comes after the record is missing"
    assert found.optimism == pytest.approx(12.0 - found.gained)


def test_states_near_the_end_do_not_count_even_if_their_return_is_known() -> None:
    rewards, stops = torch.ones(60, 1), torch.ones(60, 1, dtype=torch.bool)
    found = overestimation(torch.zeros(60, 1), rewards, stops, torch.zeros_like(stops), stops, 0.9)
    assert found is not None
    assert (found.states, found.gained, found.optimism, found.error) == (60 - 44, 1.0, -1.0, 1.0)


def test_states_before_a_cut_do_not_count() -> None:
    never, cuts = torch.zeros(200, 1, dtype=torch.bool), torch.zeros(200, 1, dtype=torch.bool)
    cuts[99] = True
    found = overestimation(torch.zeros(200, 1), torch.ones(200, 1), never, cuts, cuts, 0.9)
    assert found is not None
    # 0.9^44 is the first weight of at most 1%: ages 0 to 56 count, of the second episode those that are not late.
    assert found.states == 57 + min(57, 100 - 44)


def test_exact_values_have_no_optimism_however_episodes_are_cut() -> None:
    # A step fails with chance .02 and gains 1, an episode is cut after 60: V = 1 / (1 - .9 * .98).
    draws = torch.Generator().manual_seed(0)
    fails = torch.rand(4000, 50, generator=draws) < 0.02
    cuts, age = torch.zeros_like(fails), torch.zeros(50, dtype=torch.int64)
    for t in range(4000):
        cuts[t] = (age == 59) & ~fails[t]
        age = torch.where(cuts[t] | fails[t], 0, age + 1)
    values = torch.full((4000, 50), 1 / (1 - 0.9 * 0.98))
    found = overestimation(values, torch.ones(4000, 50), fails, cuts, fails | cuts, 0.9)
    assert found is not None
    assert found.optimism == pytest.approx(0.0, abs=0.1), "what comes after the cut is at most 1% of 8.5"


def test_a_short_record_says_nothing() -> None:
    assert overestimation(torch.zeros(4, 1), torch.ones(4, 1), NEVER, NEVER, NEVER, 0.99) is None
