"""What structure costs in an update of the Nature network, 18 actions.

CPU    On one thread, batches of 32: completion / (completion + plain update), ours and the authors' estimator. The
       matrices are a new network's at the frames of a real game, whose rank is low, and Gaussian ones, which have no
       structure and take the estimator longest.
GPU    Bursts of updates as training makes them, from a recorded buffer and without an emulator. Plain and structured
       bursts in turns, the networks having learned a little before; a share is (structured - plain) / structured of
       the medians over rounds. Then the same update as Stable-Baselines3 makes it on the same GPU, structure by
       fancyimpute on the host.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.authors import complete_targets, complete_values
from benchmarks.integrations import sb3_model
from benchmarks.rows import Parts, Row, device_name, in_turns, median_seconds, peer, timed, wait
from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig, default_precision
from svrl.agents.cuda_graph import computing_in, stream_of
from svrl.agents.learner import GraphedBursts, Learner, copy_weights
from svrl.agents.networks import build_network
from svrl.agents.replay import Replay
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.make import make_env
from svrl.envs.vector import EnvSpec, step
from svrl.runtime.device import torch_threads

GAME = "atari/frostbite"
LIMITS = {"cpu": 2.0, "cuda": 3.0}
"""Percent of an update that structure may cost."""
NEVER = 1_000_000_000
"""Updates between two copies of the target network: more than are made."""


def parts(quick: bool, device: torch.device) -> Parts:
    """Shares; on a GPU in bursts, and Stable-Baselines3."""
    if device.type == "cuda":
        small: dict[str, Any] = {"agents": ("dqn",), "batches": (32,), "burst": 8, "rounds": 3}
        return {"one update of Stable-Baselines3": partial(measure_device, device, **(small if quick else {}))}
    sizes = (100, 2) if quick else (600, 25)
    return {"structure's share of an update, ours and the authors'": partial(measure_share, *sizes)}


def recorded_buffer(n_envs: int, steps: int, device: torch.device) -> tuple[Replay, EnvSpec]:
    """A replay buffer on the device with n_envs * steps transitions of a game played at random."""
    env = make_env(GAME, n_envs, seed=0)
    try:
        memory = Replay(env.spec, n_envs=n_envs, capacity=n_envs * steps, device=device)
        memory.begin(env.reset())
        rng = np.random.default_rng(0)
        for _ in range(steps):
            actions = rng.integers(env.spec.n_actions, size=n_envs)
            memory.append(actions, step(env, actions))
        wait(device)
        return memory, env.spec
    finally:
        env.close()


def new_learner(config: AgentConfig, spec: EnvSpec, device: torch.device) -> Learner:
    """A learner with new networks, the same ones for every configuration."""
    network = build_network(spec, config, torch.Generator().manual_seed(0)).to(device)
    structure = StructuredTargets.from_config(config)
    return Learner(network, config, structure, precision=default_precision(device))


def measure_share(steps: int, count: int) -> Iterator[Row]:
    """Completion as a share of an update with it, ours and the authors' estimator, over `count` batches."""
    memory, spec = recorded_buffer(1, steps, torch.device("cpu"))
    config = AgentConfig.of("authors", structured=True)
    structure = StructuredTargets.from_config(config)
    assert structure is not None
    learner = new_learner(config.replace(structured=False), spec, torch.device("cpu"))
    source, masks, rng = torch.Generator().manual_seed(1), torch.Generator().manual_seed(0), np.random.default_rng(0)
    batches = [memory.sample(32, source) for _ in range(count)]
    with torch.no_grad():
        played = [learner.target(batch.next_observations) for batch in batches]
    families = {"a new network's": played, "Gaussian": [torch.randn(q.shape, generator=source) for q in played]}
    for family, matrices in families.items():
        calls: list[tuple[Callable[[], object], ...]] = [
            (
                partial(learner.burst, batch, 1, masks),
                partial(structure, q[None], masks),
                partial(complete_values, q.numpy(), rng),
            )
            for batch, q in zip(batches, matrices, strict=True)
        ]
        with torch_threads(1):
            in_turns(calls[:1])  # compile, and warm the caches
            update, ours, theirs = median_seconds(calls)
        yield Row(
            name=f"structure's share of an update, Nature CNN, 32x18, CPU, {family} values",
            unit="%",
            ours=100 * ours / (ours + update),
            peer=100 * theirs / (theirs + update),
            peer_name="the authors' estimator (fancyimpute)",
            note={"limit": LIMITS["cpu"], "update_ms": 1e3 * update, "ours_us": 1e6 * ours, "peer_us": 1e6 * theirs},
        )


def measure_device(
    device: torch.device,
    agents: Sequence[str] = ("dqn", "double", "dueling"),
    batches: Sequence[int] = (32, 64, 128),
    burst: int = 32,
    rounds: int = 15,
    steps: int = 128,
) -> Iterator[Row]:
    """Rows for structure's share in bursts, and for Stable-Baselines3's update.

    Args:
        device: Of the networks and of the buffer.
        agents, batches: Agents and sizes of batches.
        burst, rounds: Updates in a burst, and rounds of two plain and two structured bursts.
        steps: Of each of the buffer's 16 environments.
    """
    where = f"bursts of {burst}, {device_name(device)}"
    with torch_threads(1):
        memory, spec = recorded_buffer(16, steps, device)
        for number, (agent, batch) in enumerate(itertools.product(agents, batches)):
            config = AgentConfig.of(
                "short", agent=agent, batch_size=batch, target_update_interval=NEVER, **AUTHORS_STRUCTURE
            )
            times = 1e6 * bursts_in_turns(config, memory, spec, burst, rounds, device)
            plain, structured = np.median(times, axis=0).tolist()
            yield Row(
                name=f"structure's share of an update, {agent}, batch {batch}, {where}",
                unit="%",
                ours=100 * (structured - plain) / structured,
                peer=LIMITS["cuda"],
                peer_name="limit",
                note={
                    "plain_us": plain,
                    "structured_us": structured,
                    "shares": (100 * (1 - times[:, 0] / times[:, 1])).tolist(),
                },
            )
            for arm, ours in (("dqn", plain), ("sv-dqn", structured)) if number == 0 else ():
                imputed = arm == "sv-dqn"
                yield Row(
                    name=f"one update, {arm}, batch {batch}, {where}",
                    unit="us",
                    ours=ours,
                    peer=1e6 * sb3_update_seconds(device, imputed, 2 * burst),
                    peer_name="Stable-Baselines3 DQN, batch 32" + (", fancyimpute" if imputed else ""),
                )


def bursts_in_turns(
    config: AgentConfig, memory: Replay, spec: EnvSpec, length: int, rounds: int, device: torch.device
) -> np.ndarray:
    """Seconds of an update in every round of two bursts, plain and structured, (rounds, 2)."""
    gc.collect()  # the learners of the last call refer to themselves, and hold gigabytes of a GPU

    def two_bursts(structured: bool) -> Callable[[], None]:
        learner = new_learner(config.replace(structured=structured), spec, device)
        graphed = GraphedBursts(learner, memory, most=length)
        draws, masks = torch.Generator(memory.device).manual_seed(1), torch.Generator(device).manual_seed(2)
        for _ in range(3):
            graphed.burst(length, draws, masks)
        copy_weights(learner.parameters, learner.target.parameters())

        def twice() -> None:
            for _ in range(2):
                graphed.burst(length, draws, masks)
            wait(device)

        return twice

    with own_stream(device):
        return in_turns([(two_bursts(False), two_bursts(True))] * rounds) / (2 * length)


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Launch on a new stream and multiply as training does: graphs are not recorded on the default stream."""
    stream = stream_of(device)
    if stream is None:
        yield
        return
    wait(device)
    with torch.cuda.device(device), torch.cuda.stream(stream), computing_in(default_precision(device), device):
        yield
        stream.synchronize()


def sb3_update_seconds(device: torch.device, structured: bool, count: int) -> float:
    """Seconds of an update of Stable-Baselines3's DQN, batch 32; structure is the authors' way."""
    model = sb3_model(peer("stable_baselines3").DQN, device)
    if structured:
        complete_targets(model.q_net_target)

    def several(updates: int) -> None:
        model.train(gradient_steps=updates, batch_size=32)
        wait(device)

    several(5)
    return timed(partial(several, count))[0] / count
