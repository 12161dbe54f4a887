"""Values against returns: sums by hand, closed forms, and which states count."""

from __future__ import annotations

import math

import pytest
import torch

from svrl.agents.optimism import discounted_returns, optimism_of

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
    long, discount = 400, 0.9
    rewards, never = torch.ones(long, 3), torch.zeros(long, 3, dtype=torch.bool)
    found = optimism_of(torch.full((long, 3), 12.0), rewards, never, never, discount)
    assert found is not None
    late = math.ceil(math.log(0.01) / math.log(discount))
    assert found.states == 3 * (long - late)
    assert found.value == 12.0
    assert found.gained == pytest.approx(10.0, rel=0.01)
    assert found.gained < 10.0, "what comes after the record is missing"
    assert found.optimism == pytest.approx(12.0 - found.gained)


def test_states_near_the_end_do_not_count_even_if_their_return_is_known() -> None:
    rewards, stops = torch.ones(60, 1), torch.ones(60, 1, dtype=torch.bool)
    found = optimism_of(torch.zeros(60, 1), rewards, stops, torch.zeros_like(stops), 0.9)
    assert found is not None
    assert (found.states, found.gained, found.optimism, found.error) == (60 - 44, 1.0, -1.0, 1.0)


def test_states_before_a_cut_do_not_count() -> None:
    never, cuts = torch.zeros(200, 1, dtype=torch.bool), torch.zeros(200, 1, dtype=torch.bool)
    cuts[99] = True
    found = optimism_of(torch.zeros(200, 1), torch.ones(200, 1), never, cuts, 0.9)
    assert found is not None
    assert found.states == (100 - 43) + (100 - 44), "0.9^44 is the first weight of at most 1%"


def test_a_short_record_says_nothing() -> None:
    assert optimism_of(torch.zeros(4, 1), torch.ones(4, 1), NEVER, NEVER, 0.99) is None
