"""What structure costs on a card: bursts of updates from a recorded memory, without an emulator.

A memory is filled with transitions of a game played at random. Bursts of K updates of a plain and of a structured
agent, as training makes them, are then timed in turns. The networks have learned a little before, and no target is
copied meanwhile. A share is

    100 * (structured - plain) / structured

of the medians over rounds. Floors of a plain update of batch B:

    arithmetic   operations of the target's forward pass and of the network's two passes, over the rate of a large
                 matrix product in the same precision
    memory       weights, gradients and two moments, each read and written once, and the batch, read once, over the
                 bandwidth of a large copy
"""

from __future__ import annotations

import copy
import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from svrl.agents.captured_learner import CapturedLearner
from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig, Kind, Precision, default_precision
from svrl.agents.learner import Burst, Learner
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.replay import Replay
from svrl.agents.structured_targets import StructuredTargets
from svrl.benchmarks.authors_way import AuthorsUpdate, HostBatch
from svrl.benchmarks.device_clock import device_name, elapsed, found_device, own_stream, wait
from svrl.benchmarks.estimator_device import EstimatorSizes, measure_accuracy, measure_launches
from svrl.benchmarks.planning_device import copy_bandwidth
from svrl.benchmarks.rows import Row, one_torch_thread, seconds
from svrl.benchmarks.update import GAME, game_batches
from svrl.envs.catalogue import make_env
from svrl.envs.vector import EnvSpec, step

LIMIT = 3.0
"""Per cent of an update that structure may cost on a card."""
NEVER = 1_000_000_000
"""Updates between two copies of the target network: more than are made."""


@dataclass(frozen=True, kw_only=True)
class UpdateSizes:
    """How much is measured.

    Attributes:
        agents, batches: Kinds of agents and sizes of batches.
        burst: K.
        long_burst: Another K, for the first agent and the first batch; 0 leaves it out.
        lanes, steps: Environments of the memory, and steps of each.
        learned: Updates before anything is timed.
        warm, rounds, bursts: Bursts before the clock starts, rounds, and bursts of each in a round.
        eager_warm, eager: Updates of the authors' way, before and on the clock.
        product: Rows of the square matrices whose product is timed.
        copied: Bytes of the copy that is timed.
        estimator: Of the estimator alone.
    """

    agents: tuple[Kind, ...] = ("dqn", "double", "dueling")
    batches: tuple[int, ...] = (32, 64, 128)
    burst: int = 32
    long_burst: int = 132
    lanes: int = 16
    steps: int = 128
    learned: int = 64
    warm: int = 3
    rounds: int = 15
    bursts: int = 2
    eager_warm: int = 5
    eager: int = 30
    product: int = 8192
    copied: int = 1 << 30
    estimator: EstimatorSizes = field(default_factory=EstimatorSizes)


QUICK = UpdateSizes(
    burst=8,
    long_burst=0,
    rounds=3,
    bursts=1,
    learned=16,
    warm=1,
    eager=10,
    product=1024,
    copied=1 << 26,
    estimator=EstimatorSizes(rounds=5, drawn=16),
)


class Arm(NamedTuple):
    """A learner, and a call that makes its next burst."""

    learner: Learner
    burst: Callable[[], Burst]


class Timed(NamedTuple):
    """Microseconds of an update in every round, plain and structured; the plain network and the last target values."""

    plain: list[float]
    structured: list[float]
    network: QNetwork
    target_q: Tensor


def measure_update_device(quick: bool, device: str, sizes: UpdateSizes | None = None) -> Iterator[Row]:
    """Rows for shares, floors, the authors' way, launches of the estimator, and its accuracy.

    Args:
        quick: Bursts of 8, and fewer rounds.
        device: As "cuda"; with "cpu" the same calls are made without graphs.
        sizes: Other sizes than those.

    Raises:
        ValueError: If there is no such device.
    """
    card = found_device(device, "Updates")
    sizes = sizes or (QUICK if quick else UpdateSizes())
    with one_torch_thread():
        memory, spec = recorded_memory(sizes.lanes, sizes.steps, card)
        limits = _device_rates(sizes, card)
        first: Timed | None = None
        for agent in sizes.agents:
            for batch in sizes.batches:
                config = AgentConfig.of("short", agent=agent, batch_size=batch, target_every=NEVER, **AUTHORS_STRUCTURE)
                timed = _in_turns(config, sizes.burst, memory, spec, sizes, card)
                yield _share(config, sizes.burst, timed, card)
                if agent == sizes.agents[0]:
                    yield from _floors(config, timed, spec, limits, card)
                if first is None:
                    first = timed
                    if sizes.long_burst:
                        longer = _in_turns(config, sizes.long_burst, memory, spec, sizes, card)
                        yield _share(config, sizes.long_burst, longer, card)
        assert first is not None
        yield from _against_authors(first, sizes, card)
        config = AgentConfig.of("short", structured=True, **AUTHORS_STRUCTURE)
        yield from measure_launches(first.target_q, config, sizes.estimator)
        yield from measure_accuracy(card, sizes.estimator)


def recorded_memory(lanes: int, steps: int, device: torch.device, seed: int = 0) -> tuple[Replay, EnvSpec]:
    """A memory on the device with lanes * steps transitions of a game played at random."""
    env = make_env(GAME, lanes, seed=seed)
    try:
        memory = Replay(env.spec, lanes=lanes, capacity=lanes * steps, device=device)
        memory.begin(env.reset())
        rng = np.random.default_rng(seed)
        for _ in range(steps):
            actions = rng.integers(env.spec.n_actions, size=lanes)
            memory.append(actions, step(env, actions))
        wait(device)
        return memory, env.spec
    finally:
        env.close()


def _in_turns(
    config: AgentConfig, length: int, memory: Replay, spec: EnvSpec, sizes: UpdateSizes, device: torch.device
) -> Timed:
    """Bursts of `length` updates of both arms, one after the other in every round, who begins taking turns."""
    precision = default_precision(device)
    gc.collect()  # the learners of the last call refer to themselves, and hold gigabytes of a card
    with own_stream(device, precision):
        arms = [
            _arm(config.but(structured=structured), length, memory, spec, precision, device)
            for structured in (False, True)
        ]
        for arm in arms:
            while arm.learner.updates < sizes.learned:
                arm.burst()
            arm.learner.copy_to_target()
            for _ in range(sizes.warm):
                arm.burst()
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(sizes.rounds):
            for k in (0, 1) if number % 2 == 0 else (1, 0):
                spent = elapsed(lambda k=k: [arms[k].burst() for _ in range(sizes.bursts)], device)  # type: ignore[misc]
                times[k].append(1e6 * spent / (sizes.bursts * length))
        target_q = arms[0].burst().target_q.clone()
    return Timed(*times, arms[0].learner.online, target_q)


def _arm(
    config: AgentConfig, length: int, memory: Replay, spec: EnvSpec, precision: Precision, device: torch.device
) -> Arm:
    network = build_network(spec, config, torch.Generator().manual_seed(0)).to(device)
    structure = StructuredTargets.from_config(config)
    learner = Learner(network, copy.deepcopy(network), config, structure, precision=precision)
    captured = CapturedLearner(learner, memory, most=length)
    draws = torch.Generator(memory.device).manual_seed(1)
    masks = torch.Generator(device).manual_seed(2)
    return Arm(learner, lambda: captured.burst(length, draws, masks))


def share_of(plain: float, structured: float) -> float:
    """Per cent of the structured time that is more than the plain one."""
    return 100 * (structured - plain) / structured


def spread(numbers: list[float]) -> float:
    """The interquartile range."""
    low, high = np.percentile(numbers, (25, 75))
    return float(high - low)


def _share(config: AgentConfig, length: int, timed: Timed, device: torch.device) -> Row:
    plain, structured = statistics.median(timed.plain), statistics.median(timed.structured)
    return Row(
        name=f"structure's share of an update, {config.agent}, batch {config.batch_size}, bursts of {length}, "
        f"{device_name(device)}",
        unit="%",
        ours=share_of(plain, structured),
        peer=LIMIT,
        peer_name="limit",
        note={
            "plain_us": plain,
            "structured_us": structured,
            "spread": spread([share_of(*pair) for pair in zip(timed.plain, timed.structured, strict=True)]),
            "rounds": len(timed.plain),
            "precision": default_precision(device),
            "tolerance": config.tolerance,
        },
    )


def update_operations(network: QNetwork, spec: EnvSpec) -> int:
    """Operations, two for a multiply-add, of an update for each transition of its batch."""
    here = copy.deepcopy(network).cpu().requires_grad_(True)
    seen = torch.zeros((1, *spec.observation_shape), dtype=getattr(torch, spec.dtype))
    with FlopCounterMode(display=False) as counter:
        with torch.no_grad():
            here(seen)
        here(seen).sum().backward()
    return int(counter.get_total_flops())


class DeviceRates(NamedTuple):
    """Operations and bytes that the device does in a second, at its best."""

    operations: float
    bytes: float


def _device_rates(sizes: UpdateSizes, device: torch.device) -> DeviceRates:
    precision = default_precision(device)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    with own_stream(device, precision):
        left, right = (torch.ones(sizes.product, sizes.product, dtype=kind, device=device) for _ in range(2))
        out = torch.mm(left, right)
        best = min(elapsed(lambda: torch.mm(left, right, out=out), device) for _ in range(5))
    return DeviceRates(2 * sizes.product**3 / best, copy_bandwidth(sizes.copied, device))


def _floors(config: AgentConfig, timed: Timed, spec: EnvSpec, rates: DeviceRates, device: torch.device) -> list[Row]:
    operations = config.batch_size * update_operations(timed.network, spec)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in timed.network.parameters())
    frame = spec.frame_size * np.dtype(spec.dtype).itemsize
    moved = 2 * 4 * weights + config.batch_size * (spec.stack + 1) * frame

    def row(which: str, floor: float, peer_name: str, note: dict[str, Any]) -> Row:
        return Row(
            name=f"one update, {config.agent}, batch {config.batch_size}, {device_name(device)}, "
            f"against its {which} floor",
            unit="us",
            ours=statistics.median(timed.plain),
            peer=1e6 * floor,
            peer_name=peer_name,
            note=note,
        )

    return [
        row(
            "arithmetic",
            operations / rates.operations,
            f"its operations at the rate of a large product, {default_precision(device)}",
            {"operations": operations, "operations_per_second": rates.operations},
        ),
        row(
            "memory",
            moved / rates.bytes,
            "its bytes over copy bandwidth",
            {"bytes": moved, "bytes_per_second": rates.bytes},
        ),
    ]


def _against_authors(timed: Timed, sizes: UpdateSizes, device: torch.device) -> Iterator[Row]:
    batches, _ = host_batches()
    for structured, ours in ((False, timed.plain), (True, timed.structured)):
        config = AgentConfig.of("short", structured=structured, **AUTHORS_STRUCTURE)
        peer = eager_update_seconds(timed.network, config, batches, device, warm=sizes.eager_warm, count=sizes.eager)
        yield Row(
            name=f"one update, {config.arm}, batch {sizes.batches[0]}, bursts of {sizes.burst}, {device_name(device)}",
            unit="us",
            ours=statistics.median(ours),
            peer=1e6 * peer,
            peer_name=f"the authors' way, eager, batch {config.batch_size}",
            note={"precision": default_precision(device), "peer_precision": "torch's defaults"},
        )


def host_batches(count: int = 8, steps: int = 200) -> tuple[list[HostBatch], EnvSpec]:
    """Batches of 32 out of `steps` transitions, in host memory, and what the game looks like."""
    batches, spec = game_batches(count, steps)
    return [HostBatch(*(part.numpy() for part in batch)) for batch in batches], spec


def eager_update_seconds(
    network: QNetwork,
    config: AgentConfig,
    batches: list[HostBatch],
    device: torch.device,
    *,
    warm: int,
    count: int,
) -> float:
    """Seconds of an update made the authors' way, over `count` of them after `warm`; the network is left alone."""
    update = AuthorsUpdate(copy.deepcopy(network), copy.deepcopy(network), config, device=device, seed=0)

    def several(number: int) -> None:
        for k in range(number):
            update(batches[k % len(batches)])
        wait(device)

    several(warm)
    return seconds(lambda: several(count)) / count
