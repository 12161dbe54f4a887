"""Acting: epsilon-greedy actions, whose network the actor asks, and when its copy follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import epsilon_greedy, explore
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.training import Actor
from svrl.envs.vector import EnvSpec

CONFIG = AgentConfig(epsilon_start=1.0, epsilon_final=0.1, epsilon_steps=100)


def test_epsilon_falls_linearly_and_stays() -> None:
    assert [CONFIG.epsilon_at(steps) for steps in (0, 50, 100, 10**9)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert CONFIG.replace(epsilon_steps=0).epsilon_at(0) == 0.1


def test_shares_of_random_and_greedy_actions() -> None:
    q = torch.zeros(20_000, 4)
    q[:, 2] = 1.0
    actions = epsilon_greedy(q, 0.4, torch.Generator().manual_seed(0))
    shares = torch.bincount(actions, minlength=4) / len(actions)
    assert shares.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.01)


def test_greedy_actions_are_not_computed_if_all_are_random() -> None:
    explore(lambda: pytest.fail("asked"), 8, 4, 1.0, torch.Generator().manual_seed(0))


def test_epsilon_does_not_change_how_much_is_drawn() -> None:
    left = []
    for epsilon in (0.0, 1.0):
        source = torch.Generator().manual_seed(0)
        explore(lambda: torch.zeros(8, dtype=torch.int64), 8, 4, epsilon, source)
        left.append(source.get_state())
    assert torch.equal(*left)


SPEC = EnvSpec(id="v", family="gymnasium", frame_shape=(3,), dtype="float32", n_actions=6)


def network(seed: int = 0) -> QNetwork:
    return build_network(SPEC, AgentConfig.of("classic", hidden=(16,)), torch.Generator().manual_seed(seed))


def look(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((40, 3)).astype(np.float32)


@pytest.mark.parametrize("lag", [False, True])
def test_actions_are_the_best_of_the_network(lag: bool) -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=lag, precision="float32")
    for seed in (0, 1):
        seen = look(seed)
        assert torch.equal(actor(seen), learning(torch.from_numpy(seen)).argmax(-1))


@pytest.mark.parametrize("lag", [False, True])
def test_a_lagging_actor_keeps_its_weights_until_it_follows(lag: bool) -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=lag, precision="float32")
    learning.load_state_dict(network(1).state_dict())
    old, new = (network(seed)(torch.from_numpy(look())).argmax(-1) for seed in (0, 1))
    assert not torch.equal(old, new)
    assert torch.equal(actor(look()), old if lag else new)
    actor.follow(learning)
    assert torch.equal(actor(look()), new)
