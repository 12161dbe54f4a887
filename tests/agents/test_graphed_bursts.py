"""`GraphedBursts` on the CPU, where nothing is recorded, makes the updates of `Learner.burst`.

On a GPU the same comparison is made with graphs, in tests/gpu.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.learner import GraphedBursts, Learner, can_capture
from svrl.agents.networks import build_network
from svrl.agents.replay import Replay, Returns
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.vector import EnvSpec

from .replay_oracle import Counting

VECTORS = EnvSpec(id="v", family="gymnasium", frame_shape=(3,), dtype="float32", n_actions=4)
PICTURES = EnvSpec(id="p", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=6)
ARMS = [
    {"agent": agent, "structured": structured, "next_value_from": value}
    for agent in ("dqn", "double", "dueling")
    for structured, value in ((False, "completed"), (True, "completed"), (True, "network"))
]


def memory(
    spec: EnvSpec, n_envs: int = 2, steps: int = 60, config: AgentConfig | None = None, masked: bool = False
) -> Replay:
    ours = {} if config is None else {"returns": Returns.of(config), "priority_alpha": config.priority_alpha}
    replay = Replay(spec, n_envs=n_envs, capacity=100, **ours)
    rng = np.random.default_rng(0)
    env = Counting(spec, n_envs, 1, 0.1, masked)
    replay.begin(_noisy(env.reset(), rng, spec), env.masks)
    for _ in range(steps):
        actions, step = env.step()
        seen = _noisy(step.observations, rng, spec)
        replay.append(actions % spec.n_actions, step._replace(observations=seen, final_observations=seen))
    return replay


def _noisy(observations: np.ndarray, rng: np.random.Generator, spec: EnvSpec) -> np.ndarray:
    if spec.dtype == "float32":
        return rng.standard_normal(observations.shape).astype(np.float32)
    return rng.integers(0, 256, observations.shape, dtype=np.uint8)


def learner(spec: EnvSpec, config: AgentConfig, *, as_on_gpu: bool = False) -> Learner:
    network = build_network(spec, config, torch.Generator().manual_seed(0))
    structure = StructuredTargets.from_config(config)
    return Learner(network, config, structure, scale_at_once=as_on_gpu)


def both(
    spec: EnvSpec, config: AgentConfig, bursts: list[int], most: int, masked: bool = False
) -> tuple[Learner, Learner]:
    """The same bursts, plainly and as a GPU makes them."""
    plain, fast = learner(spec, config), learner(spec, config, as_on_gpu=True)
    replay, other = (memory(spec, config=config, masked=masked) for _ in range(2))
    other.masks = replay.masks
    graphed = GraphedBursts(fast, other, most=most)
    sources = [(torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)) for _ in range(2)]
    for count in bursts:
        batch = replay.sample(count * config.batch_size, sources[0][0], beta=plain.beta)
        one = plain.burst(batch, count, sources[0][1])
        if replay.priorities is not None:
            replay.priorities.update(batch.leaves, plain.errors.flatten())
        two = graphed.burst(count, *sources[1])
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-6)
    return plain, fast


def assert_equal_weights(plain: Learner, fast: Learner) -> None:
    assert plain.updates == fast.updates
    for ours, theirs in ((plain.online, fast.online), (plain.target, fast.target)):
        for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
def test_both_paths_make_the_same_updates(arm: dict) -> None:
    config = AgentConfig.of("classic", batch_size=8, hidden=(32,), target_update_interval=7, **arm)
    assert_equal_weights(*both(VECTORS, config, [4, 3, 5, 2, 1, 5, 1], most=5))


OPTIONS = [
    {"n_steps": 3},
    {"priority_alpha": 0.6},
    {"tau": 0.1, "target_update_interval": 1},
    {"n_steps": 2, "priority_alpha": 0.6, "tau": 0.5, "target_update_interval": 1},
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("arm", ARMS[:1] + ARMS[4:6] + ARMS[8:], ids=lambda arm: "-".join(map(str, arm.values())))
@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
def test_both_paths_make_the_same_updates_with(options: dict, arm: dict, masked: bool) -> None:
    changes = {"target_update_interval": 7, "tolerance": 1e-6, "ratio": 0.2, **options, **arm}
    config = AgentConfig.of("classic", batch_size=8, hidden=(32,), **changes)
    bursts = [1, 1, 1, 1] if config.target_update_interval == 1 else [4, 3, 5, 2, 1]
    assert_equal_weights(*both(VECTORS, config, bursts, most=max(bursts), masked=masked))


def test_a_rate_that_falls_and_a_share_that_rises_do_so_inside_a_burst() -> None:
    config = AgentConfig.of(
        "classic", batch_size=8, hidden=(32,), structured=True, p=0.5, p_rise=12, steps=80, learning_starts=40
    )
    plain, fast = both(VECTORS, config, [6, 6, 6], most=6)
    assert_equal_weights(plain, fast)
    assert fast.config.learning_rate_at(17) < fast.config.learning_rate_at(0)


def test_pictures_are_seen_alike() -> None:
    config = AgentConfig.of("authors", batch_size=4, hidden=(16,), learning_rate=1e-4, structured=True)
    assert_equal_weights(*both(PICTURES, config, [2, 2], most=3))


def test_estimators_that_wait_are_not_captured() -> None:
    config = AgentConfig.of("classic", batch_size=8, hidden=(32,), structured=True)
    assert can_capture(learner(VECTORS, config))
    assert can_capture(learner(VECTORS, config.replace(structured=False)))
    assert not can_capture(learner(VECTORS, config.replace(estimator="hard-impute", rank=2)))
