"""The same agents on a CUDA device: plain torch on both, so they agree up to rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.agents.small_envs import OF_LIT, lit, lit_in_a_dict
from tests.agents.test_options import Countdown

from svrl.agents.config import AgentConfig
from svrl.agents.learner import Learner
from svrl.agents.networks import build_network
from svrl.agents.replay import Batch, Replay
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.vector import EnvSpec, Step

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ATARI = EnvSpec(id="atari/x", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18)
VECTOR = EnvSpec(id="v", family="gymnasium", frame_shape=(5,), dtype="float32", n_actions=6)
ARMS = [
    {"agent": agent, "structured": structured, "next_value_from": value}
    for agent in ("dqn", "double", "dueling")
    for structured, value in ((False, "completed"), (True, "completed"), (True, "network"))
] + [{"agent": "lowrank", "head_rank": 8, "head_ridge": 1e-3}]


def steps_of(spec: EnvSpec, n_envs: int, count: int, seed: int = 0):
    """Random transitions with random ends, as an environment would give them."""
    rng = np.random.default_rng(seed)

    def look(fresh: np.ndarray, before: np.ndarray) -> np.ndarray:
        if spec.stack == 1:
            return rng.standard_normal((n_envs, *spec.frame_shape)).astype(np.float32)
        frames = rng.integers(0, 256, (n_envs, 1, *spec.frame_shape), dtype=np.uint8)
        history = np.where(fresh[:, None, None, None], 0, before[:, 1:]).astype(np.uint8)
        return np.concatenate([history, frames], 1)

    now = look(np.ones(n_envs, bool), np.zeros((n_envs, *spec.observation_shape), spec.dtype))
    yield now
    for _ in range(count):
        after = look(np.zeros(n_envs, bool), now)
        terminal, truncated = rng.random(n_envs) < 0.05, rng.random(n_envs) < 0.02
        truncated &= ~terminal
        ended = terminal | truncated
        fresh = look(np.ones(n_envs, bool), now)
        now = np.where(ended.reshape(-1, *[1] * (after.ndim - 1)), fresh, after)
        yield (
            rng.integers(0, spec.n_actions, n_envs),
            Step(now, after, rng.standard_normal(n_envs), terminal, truncated, rng.random(n_envs) < 0.1),
        )


@pytest.mark.parametrize("spec", [ATARI, VECTOR], ids=["stacked", "vectors"])
def test_the_memory_on_the_gpu_holds_what_the_one_in_ram_holds(spec: EnvSpec) -> None:
    memories = [Replay(spec, n_envs=3, capacity=120, device=device) for device in ("cpu", "cuda")]
    first, *rest = steps_of(spec, 3, 200)
    for memory in memories:
        memory.begin(first)
        for actions, step in rest:
            memory.append(actions, step)
    draws = torch.randint(1 << 62, (500,), generator=torch.Generator().manual_seed(0))
    one, two = memories[0]._sample_kernel(draws), memories[1].gather(draws.cuda())
    for ours, theirs in zip(one, two, strict=True):
        assert torch.equal(ours, theirs.cpu())


def burst_on(device: str, config: AgentConfig, spec: EnvSpec, batch: Batch, count: int, masks: torch.Tensor):
    network = build_network(spec, config, torch.Generator().manual_seed(0)).to(device)
    structure = StructuredTargets.from_config(config)
    learner = Learner(network, config, structure)
    if structure is not None:

        class Told:
            """The same observed sets on both devices."""

            next_value_from = structure.next_value_from
            complete = staticmethod(structure.complete)

            def draw(self, shape: tuple[int, ...], generator: torch.Generator, *, updates: int = 0) -> torch.Tensor:
                assert shape == masks.shape
                return masks.to(generator.device)

        learner.structure = Told()  # type: ignore[assignment]
    moved = batch.each(lambda part: part.to(device))
    return learner, learner.burst(moved, count, torch.Generator(device).manual_seed(0))


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
def test_a_burst_on_the_gpu_is_the_burst_on_the_cpu(arm: dict) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    config = AgentConfig.of("authors", learning_rate=1e-4, batch_size=32, tolerance=1e-6, **arm)
    source = torch.Generator().manual_seed(3)
    count = 4
    batch = Batch(
        windows=torch.randint(256, (32 * count, 5, 84, 84), generator=source, dtype=torch.uint8),
        actions=torch.randint(18, (32 * count,), generator=source),
        rewards=torch.randn(32 * count, generator=source),
        discounts=0.99 * (torch.rand(32 * count, generator=source) < 0.8),
    )
    masks = torch.rand(count, 32, 18, generator=source) < 0.8
    (one, first), (two, second) = (burst_on(device, config, ATARI, batch, count, masks) for device in ("cpu", "cuda"))
    assert torch.allclose(first, second.cpu(), rtol=1e-3, atol=1e-5)
    # Adam divides by the gradient's size: where that is rounding, so is the sign of the step.
    for a, b in zip(one.online.parameters(), two.online.parameters(), strict=True):
        far = (a.detach() - b.detach().cpu()).abs() > 2e-5
        assert float(far.float().mean()) < 0.02


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
@pytest.mark.parametrize("act_lag", [0, 1])
def test_training_runs_and_repeats(arm: dict, act_lag: int) -> None:
    pytest.importorskip("gymnasium")
    from svrl.agents.training import Training

    config = AgentConfig.of("classic", steps=600, learning_starts=100, log_every=200, n_envs=4, act_lag=act_lag, **arm)
    runs = []
    for _ in range(2):
        training = Training("CartPole-v1", config, seed=0, device="cuda")
        list(training.events())
        runs.append([parameter.detach().clone() for parameter in training.network.parameters()])
        assert training.replay.device.type == "cuda"
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*runs, strict=True))


OPTIONS: list[dict[str, Any]] = [
    {"n_steps": 5},
    {"tau": 0.05, "target_update_interval": 1},
    {"priority_alpha": 0.6, "buffer_size": 300},
    {"priority_alpha": 0.6, "n_steps": 3, "act_lag": 1, "layer_norm": True},
    {"head": "low-rank", "head_rank": 16},
]


@pytest.mark.parametrize("env", ["CartPole-v1", Countdown], ids=["plain", "masks"])
@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
def test_options_are_the_same_in_graphs_and_without(options: dict, env: Any) -> None:
    pytest.importorskip("gymnasium")
    from svrl.agents.training import Training

    small = {"steps": 240, "learning_starts": 64, "batch_size": 16, "n_envs": 4, "log_every": 120, "hidden": (32,)}
    for agent in ("dqn", "sv-double-network"):
        config = AgentConfig.of("control", **{"agent": agent, **small, **options})
        networks = []
        for graphs in (True, False):
            training = Training(env, config, seed=0, device="cuda", precision="float32", graphs=graphs)
            list(training.events())
            networks.append(training.network)
            training.close()
        for one, other in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
            assert torch.allclose(one, other, atol=2e-4)


def own(spec: EnvSpec) -> torch.nn.Module:
    inputs = math.prod(spec.observation_shape)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(inputs, 32), torch.nn.ReLU(), torch.nn.Linear(32, spec.n_actions)
    )


@pytest.mark.parametrize("network", [None, own], ids=["convolutions", "own"])
@pytest.mark.parametrize("make", [lit, lit_in_a_dict])
@pytest.mark.parametrize("agent", ["dqn", "sv-double-network"])
def test_pictures_are_learned_from(network: Any, make: Any, agent: str) -> None:
    from svrl.agents.training import train

    trained = train(
        make, AgentConfig.of("smoke", network="mlp", agent=agent, **OF_LIT), seed=0, device="cuda", network=network
    )
    assert trained.evaluate(episodes=10, seed=1, epsilon=0.0).mean > 9


def test_a_checkpoint_of_the_gpu_goes_on(tmp_path) -> None:
    pytest.importorskip("gymnasium")
    from svrl.agents.checkpoint import Checkpoints
    from svrl.agents.events import Stepped
    from svrl.agents.training import Training

    config = AgentConfig.of("classic", steps=600, learning_starts=100, log_every=100, structured=True, n_envs=1)
    whole = Training("CartPole-v1", config, seed=0, device="cuda")
    for event in whole.events():
        if isinstance(event, Stepped) and event.steps == 300:
            Checkpoints(tmp_path).save(whole.capture(), whole.replay)
    resumed = Training("CartPole-v1", config, seed=0, device="cuda")
    loaded = Checkpoints(tmp_path).load(resumed.replay)
    assert loaded is not None
    resumed.restore(loaded.state)
    list(resumed.events())
    assert list(whole.recent_scores) == list(resumed.recent_scores)
    for a, b in zip(whole.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)
