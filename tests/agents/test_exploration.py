from __future__ import annotations

import pytest
import torch

from svrl.agents.acting import epsilon_at, epsilon_greedy, explore
from svrl.agents.config import AgentConfig

CONFIG = AgentConfig(epsilon_start=1.0, epsilon_final=0.1, epsilon_steps=100)


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (50, 0.55), (100, 0.1), (10**9, 0.1)])
def test_epsilon_falls_linearly_and_stays(steps: int, epsilon: float) -> None:
    assert epsilon_at(CONFIG, steps) == pytest.approx(epsilon)


def test_no_steps_is_the_final_epsilon_at_once() -> None:
    assert epsilon_at(CONFIG.replace(epsilon_steps=0), 0) == 0.1


def test_shares_of_random_and_greedy_actions() -> None:
    q = torch.zeros(20_000, 4)
    q[:, 2] = 1.0
    actions = epsilon_greedy(q, 0.4, torch.Generator().manual_seed(0))
    shares = torch.bincount(actions, minlength=4) / len(actions)
    assert shares.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.01)


def test_both_ways_draw_the_same() -> None:
    q = torch.randn(50, 6, generator=torch.Generator().manual_seed(3))
    for epsilon in (0.0, 0.3, 1.0):
        one = epsilon_greedy(q, epsilon, torch.Generator().manual_seed(5))
        two = explore(lambda: q.argmax(-1), 50, 6, epsilon, torch.Generator().manual_seed(5))
        assert one.tolist() == two.tolist()


def test_greedy_actions_are_not_asked_for_when_all_is_random() -> None:
    asked = []

    def greedy() -> torch.Tensor:
        asked.append(True)
        return torch.zeros(8, dtype=torch.int64)

    explore(greedy, 8, 4, 1.0, torch.Generator().manual_seed(0))
    assert asked == []
    explore(greedy, 8, 4, 0.0, torch.Generator().manual_seed(0))
    assert asked == [True]


def test_epsilon_does_not_change_how_much_is_drawn() -> None:
    left = []
    for epsilon in (0.0, 1.0):
        source = torch.Generator().manual_seed(0)
        explore(lambda: torch.zeros(8, dtype=torch.int64), 8, 4, epsilon, source)
        left.append(source.get_state())
    assert torch.equal(*left)
