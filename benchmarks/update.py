"""One update of the Nature network, 18 actions: against other libraries, and what structure costs in it.

share      on one thread of the CPU, batches of 32: completion / (completion + plain update), ours and the authors'
           estimator. The matrices are a new network's at the frames of a real game, whose rank is low, and Gaussian
           ones, which have no structure and take the estimator longest.
libraries  a plain update with the drawing of its batch, ours and that of each library that is installed.
GPU        bursts of updates as training makes them, from a recorded buffer and without an emulator. Plain and
           structured bursts in turns, the networks having learned a little before; a share is
           (structured - plain) / structured of the medians over rounds. Then the same update as Stable-Baselines3
           makes it on the same GPU, structure by fancyimpute on the host.
"""

from __future__ import annotations

import copy
import functools
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.authors import complete_targets, complete_values
from benchmarks.integrations import LIBRARIES, Library, sb3_model
from benchmarks.rows import Parts, Row, device_name, median_seconds, peer, seconds, wait
from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig, Kind, default_precision
from svrl.agents.cuda_graph import stream_of
from svrl.agents.learner import GraphedBursts, Learner
from svrl.agents.networks import build_network
from svrl.agents.precision import computing_in
from svrl.agents.replay import Replay, next_observations
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.catalogue import make_env
from svrl.envs.vector import EnvSpec, step
from svrl.runtime.threads import torch_threads

GAME = "atari/frostbite"
LIMITS = {"cpu": 2.0, "cuda": 3.0}
"""Percent of an update that structure may cost."""
NEVER = 1_000_000_000
"""Updates between two copies of the target network: more than are made."""


def parts(quick: bool, device: torch.device) -> Parts:
    """Shares and libraries; on a GPU bursts and Stable-Baselines3."""
    if device.type == "cuda":
        small: dict[str, Any] = {"agents": ("dqn",), "batches": (32,), "burst": 8, "rounds": 3}
        return {"one update of Stable-Baselines3": partial(measure_device, device, **(small if quick else {}))}
    buffer = partial(recorded_buffer, 1, 100 if quick else 600, device)
    turns = 2 if quick else 25
    return {
        "structure's share of an update, ours and the authors'": lambda: measure_share(*buffer(), turns),
        **{
            f"one update of {library.title}": lambda library=library: measure_library(library, *buffer(), turns)  # type: ignore[misc]
            for library in LIBRARIES.values()
            if library.package != "sb3-contrib"  # QR-DQN is another algorithm
        },
    }


@functools.cache
def recorded_buffer(n_envs: int, steps: int, device: torch.device) -> tuple[Replay, EnvSpec]:
    """A replay buffer on the device with n_envs * steps transitions of a game played at random."""
    env = make_env(GAME, n_envs, seed=0)
    try:
        memory = Replay(env.spec, lanes=n_envs, capacity=n_envs * steps, device=device)
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
    return Learner(network, copy.deepcopy(network), config, structure, precision=default_precision(device))


def measure_share(memory: Replay, spec: EnvSpec, count: int) -> Iterator[Row]:
    """Completion as a share of an update with it, ours and the authors' estimator."""
    config = AgentConfig.of("authors", structured=True)
    structure = StructuredTargets.from_config(config)
    learner = new_learner(config.but(structured=False), spec, torch.device("cpu"))
    source, masks, rng = torch.Generator().manual_seed(1), torch.Generator().manual_seed(0), np.random.default_rng(0)
    batches = [memory.sample(32, source) for _ in range(count)]
    with torch.no_grad():
        played = [learner.target(next_observations(batch)) for batch in batches]
    assert structure is not None
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
            for call in calls[0]:
                call()  # compile, and warm the caches
            update, ours, theirs = median_seconds(calls)
        yield Row(
            name=f"structure's share of an update, Nature CNN, 32x18, CPU, {family} values",
            unit="%",
            ours=100 * ours / (ours + update),
            peer=100 * theirs / (theirs + update),
            peer_name="the authors' estimator (fancyimpute)",
            note={
                "limit": LIMITS["cpu"],
                "update_ms": 1e3 * update,
                "ours_us": 1e6 * ours,
                "peer_us": 1e6 * theirs,
            },
        )


def measure_library(library: Library, memory: Replay, spec: EnvSpec, turns: int) -> Iterator[Row]:
    """A plain update with the drawing of its batch, ours and that of a library."""
    plain = library.updates()[0]
    learner = new_learner(AgentConfig.of("authors"), spec, torch.device("cpu"))
    source = torch.Generator().manual_seed(0)

    def ours() -> None:
        learner.burst(memory.sample(32, source), 1, source)

    with torch_threads(1):
        for update in (ours, plain):
            update()
        mine, theirs = median_seconds([(ours, plain)] * turns)
    yield Row(
        name="one update of DQN with the drawing of its batch, Nature CNN, 18 actions, batch 32, CPU",
        unit="ms",
        ours=1e3 * mine,
        peer=1e3 * theirs,
        peer_name=library.title,
    )


def measure_device(
    device: torch.device,
    agents: Sequence[Kind] = ("dqn", "double", "dueling"),
    batches: Sequence[int] = (32, 64, 128),
    burst: int = 32,
    rounds: int = 15,
    steps: int = 128,
) -> Iterator[Row]:
    """Rows for structure's share in bursts, and for Stable-Baselines3's update.

    Args:
        device: Of the networks and of the buffer.
        agents, batches: Kinds of agents and sizes of batches.
        burst, rounds: Updates in a burst, and rounds of two plain and two structured bursts.
        steps: Of each of the buffer's 16 environments.
    """
    where = device_name(device)
    with torch_threads(1):
        memory, spec = recorded_buffer(16, steps, device)
        first: tuple[float, float] | None = None
        for agent in agents:
            for batch in batches:
                config = AgentConfig.of("short", agent=agent, batch_size=batch, target_every=NEVER, **AUTHORS_STRUCTURE)
                times = bursts_in_turns(config, memory, spec, burst, rounds, device)
                plain, structured = map(statistics.median, times)
                first = first or (plain, structured)
                yield Row(
                    name=f"structure's share of an update, {agent}, batch {batch}, bursts of {burst}, {where}",
                    unit="%",
                    ours=100 * (structured - plain) / structured,
                    peer=LIMITS["cuda"],
                    peer_name="limit",
                    note={
                        "plain_us": plain,
                        "structured_us": structured,
                        "shares": [100 * (more - less) / more for less, more in zip(*times, strict=True)],
                    },
                )
        for arm, ours in zip(("dqn", "sv-dqn"), first or (), strict=True):
            structured = arm == "sv-dqn"
            yield Row(
                name=f"one update, {arm}, batch {batches[0]}, bursts of {burst}, {where}",
                unit="us",
                ours=ours,
                peer=1e6 * sb3_update_seconds(device, structured, 2 * burst),
                peer_name="Stable-Baselines3 DQN, batch 32" + (", fancyimpute" if structured else ""),
            )


def bursts_in_turns(
    config: AgentConfig, memory: Replay, spec: EnvSpec, length: int, rounds: int, device: torch.device
) -> tuple[list[float], list[float]]:
    """Microseconds of an update in every round, plain and structured; who begins takes turns."""
    gc.collect()  # the learners of the last call refer to themselves, and hold gigabytes of a GPU

    def burst_of(structured: bool) -> Callable[[], torch.Tensor]:
        learner = new_learner(config.but(structured=structured), spec, device)
        bursts = GraphedBursts(learner, memory, most=length)
        draws, masks = torch.Generator(memory.device).manual_seed(1), torch.Generator(device).manual_seed(2)
        for _ in range(3):
            bursts.burst(length, draws, masks)
        learner.copy_to_target()
        return lambda: bursts.burst(length, draws, masks)

    with own_stream(device):
        bursts = [burst_of(structured) for structured in (False, True)]

        def twice(k: int) -> None:
            bursts[k](), bursts[k]()
            wait(device)

        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            for k in (0, 1) if number % 2 == 0 else (1, 0):
                times[k].append(1e6 * seconds(partial(twice, k)) / (2 * length))
    return times


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
    return seconds(partial(several, count)) / count
