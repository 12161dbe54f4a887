"""Public objects print what they are and how large, in one line and without their arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import svrl
from svrl.integrations.target_hook import structure

SMOKE = svrl.AgentConfig.for_env("CartPole-v1", "smoke", steps=68)


def test_models() -> None:
    table = svrl.TabularMDP(transitions=np.ones((3, 2, 3)) / 3, rewards=np.ones((3, 2)), gamma=0.9, name="small")
    assert repr(table) == "TabularMDP('small', 3 states, 2 actions, discount 0.9, 18 transitions, on cpu)"
    noisy = svrl.NoisyBackups(table, 0.5)
    assert repr(noisy) == f"NoisyBackups({table!r}, sigma=0.5, 0 calls)"
    grid = svrl.GridMDP(svrl.make_task("mountain-car"), mode="on-the-fly")
    assert repr(grid).startswith("GridMDP('mountain-car', 2,500 states, 1,000 actions, discount 0.")
    assert repr(grid).endswith(", on-the-fly, on cpu)")


def test_a_simulator() -> None:
    axes = (svrl.Axis(name="x", low=0.0, high=1.0, points=11),)
    simulator = svrl.Simulator(
        lambda states, actions, generator: (states, torch.zeros(len(states))),
        axes=axes,
        actions=torch.zeros(4, 1),
        gamma=0.5,
        name="drift",
    )
    assert repr(simulator) == "Simulator('drift', 11 states, 4 actions, discount 0.5, 0 calls, on cpu)"


def test_agents_and_trainings() -> None:
    training = svrl.Training("CartPole-v1", SMOKE, seed=3)
    assert repr(training) == "Training('CartPole-v1', dqn, seed 3, 0 of 68 steps, on cpu)"
    training.close()
    agent = svrl.train("CartPole-v1", SMOKE, seed=3)
    assert repr(agent) == "Agent('CartPole-v1', dqn, seed 3, 68 steps, on cpu)"


@pytest.mark.parametrize("batch", [(), (2,)])
def test_completed_values(batch: tuple[int, ...]) -> None:
    q = torch.arange(24.0).reshape(6, 4).expand(*batch, 6, 4)
    found = svrl.StructuredTargets(p=1.0)(q, torch.Generator().manual_seed(0))
    assert repr(found).startswith(f"Completion({(*batch, 6, 4)}, 100% observed, rank")
    assert "tensor" not in repr(found)


def test_a_hook() -> None:
    network = torch.nn.Linear(3, 5)
    with structure(network, seed=7) as hook:
        network(torch.ones(4, 3))
        assert repr(hook).startswith("TargetHook(StructuredTargets(p=0.9, ")
        assert repr(hook).endswith("), seed=7, updates=1)")
