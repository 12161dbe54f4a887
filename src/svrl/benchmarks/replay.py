"""The replay memory on the CPU against Stable-Baselines3's, with Atari's 84x84 frames in stacks of 4.

Both hold the same 20,000 transitions (quick: 2,000). Theirs is used as their DQN uses it: observations of
shape (4, 84, 84), its own defaults. A draw is a batch of 32 transitions, as tensors, in new memory or in that
of a batch of no more use, which theirs cannot do, and for a burst of updates 8 batches are one draw. Times
are of one batch. Appending is one step of N environments. Everybody runs on one thread, and turns are taken in
small blocks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from svrl.agents.replay import Layout, Replay
from svrl.benchmarks.peers import MissingPeerError
from svrl.benchmarks.rows import Row, median_seconds, one_torch_thread
from svrl.envs.vector import EnvSpec, Step

BATCH, BURST = 32, 8
BLOCK, TURNS, REPEATS = 40, 15, 3
LIMIT_GB = 7.5
SPEC = EnvSpec(
    id="atari/frames", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18
)


def measure_replay(quick: bool) -> Iterator[Row]:
    """Rows for drawing a batch, for appending steps, and for the size of a million transitions."""
    capacity = 2_000 if quick else 20_000
    buffers = _peer()
    with one_torch_thread():
        for lanes in (1, 8, 64):
            ours, theirs = Replay(SPEC, lanes=lanes, capacity=capacity), _theirs(buffers, capacity, lanes)
            steps = _fill(ours, theirs, capacity // lanes)
            if lanes == 1:
                yield from _draws(ours, theirs)
            yield _appends(ours, theirs, lanes, steps)
            del ours, theirs
    layout = Layout.of(SPEC, lanes=8, capacity=1_000_000)
    yield Row(
        name="1,000,000 transitions in memory", unit="GB", ours=layout.nbytes / 1e9, peer=LIMIT_GB, peer_name="limit"
    )


def _peer() -> Any:
    try:
        return importlib.import_module("stable_baselines3.common.buffers")
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error


def _theirs(buffers: Any, capacity: int, lanes: int) -> Any:
    pictures = buffers.spaces.Box(0, 255, SPEC.observation_shape, np.uint8)
    return buffers.ReplayBuffer(capacity, pictures, buffers.spaces.Discrete(18), device="cpu", n_envs=lanes)


def _fill(ours: Replay, theirs: Any, count: int) -> list[tuple[Any, ...]]:
    """Give both the same transitions until they are full; the last steps come back as arguments to both."""
    lanes = ours.layout.lanes
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (lanes, 64, 84, 84), dtype=np.uint8)
    stacks = [np.ascontiguousarray(frames[:, (k + np.arange(4)) % 64]) for k in range(64 if lanes < 64 else 16)]
    never = np.zeros(lanes, bool)
    infos: list[dict[str, Any]] = [{} for _ in range(lanes)]
    steps = []
    ours.begin(stacks[0])
    for k in range(count + 1):
        now, after = stacks[k % len(stacks)], stacks[(k + 1) % len(stacks)]
        actions, rewards = rng.integers(0, 18, lanes), rng.standard_normal(lanes)
        step = Step(after, after, rewards, never, never, never)
        ours.append(actions, step)
        theirs.add(now, after, actions, rewards, never, infos)
        steps.append(((actions, step), (now, after, actions, rewards, never, infos)))
    return steps[-BLOCK:]


def _draws(ours: Replay, theirs: Any) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(0)
    again = partial(ours.sample, BATCH, generator, ours.sample(BATCH, generator))
    burst = partial(ours.sample, BURST * BATCH, generator, ours.sample(BURST * BATCH, generator))
    calls = (
        partial(_often, partial(ours.sample, BATCH, generator), BLOCK),
        partial(_often, again, BLOCK),
        partial(_often, burst, BLOCK // BURST),
        partial(_often, partial(theirs.sample, BATCH), BLOCK),
    )
    *mine, peer = (seconds / BLOCK for seconds in median_seconds([calls] * TURNS, repeats=REPEATS))
    ways = ("in new memory", "in the memory of the last", f"in the memory of the last, {BURST} batches at a time")
    for seconds, way in zip(mine, ways, strict=True):
        yield Row(
            name=f"draw {BATCH} out of {len(ours):,} {way}",
            unit="us",
            ours=1e6 * seconds,
            peer=1e6 * peer,
            peer_name="Stable-Baselines3",
            note={"batches_per_second": 1.0 / seconds, "peer_batches_per_second": 1.0 / peer},
        )


def _appends(ours: Replay, theirs: Any, lanes: int, steps: list[tuple[Any, ...]]) -> Row:
    def mine() -> None:
        for arguments, _ in steps:
            ours.append(*arguments)

    def peers() -> None:
        for _, arguments in steps:
            theirs.add(*arguments)

    seconds, peer = median_seconds([(mine, peers)] * TURNS, repeats=REPEATS)
    return Row(
        name=f"append a step of {lanes} environment{'s' if lanes > 1 else ''}",
        unit="us",
        ours=1e6 * seconds / len(steps),
        peer=1e6 * peer / len(steps),
        peer_name="Stable-Baselines3",
    )


def _often(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()
