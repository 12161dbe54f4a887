"""The actor on the CPU: whose network it asks, and when a copy follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.acting import Actor
from svrl.agents.config import AgentConfig
from svrl.agents.networks import QNetwork, build_network
from svrl.envs.vector import EnvSpec

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


def test_without_a_lag_the_network_that_learns_is_asked() -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=False, precision="float32")
    learning.load_state_dict(network(1).state_dict())
    assert torch.equal(actor(look()), network(1)(torch.from_numpy(look())).argmax(-1))


def test_with_a_lag_it_acts_as_it_was_until_it_follows() -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=True, precision="float32")
    learning.load_state_dict(network(1).state_dict())
    old, new = (network(seed)(torch.from_numpy(look())).argmax(-1) for seed in (0, 1))
    assert not torch.equal(old, new)
    assert torch.equal(actor(look()), old)
    actor.follow(learning)
    assert torch.equal(actor(look()), new)
