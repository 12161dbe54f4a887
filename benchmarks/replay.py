"""The replay buffer on the CPU against Stable-Baselines3's, with Atari's 84x84 frames in stacks of 4.

Both hold the same 20,000 transitions (quick: 2,000). Theirs is used as their DQN uses it: observations of
shape (4, 84, 84), its own defaults. A draw is a batch of 32 transitions, as tensors, in new memory; or, as training
draws, 8 batches at once in the memory of the last draw. Times are of one batch. Appending is one step of N
environments. Everybody runs on one thread, and turns are taken in small blocks. `update.py` reports these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.rows import Row, median_seconds, peer, torch_threads
from svrl.agents.replay import Replay
from svrl.envs.vector import EnvSpec, Step

BATCH, BURST = 32, 8
BLOCK, TURNS = 40, 15
SPEC = EnvSpec(
    id="atari/frames", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18
)


def measure_replay(quick: bool) -> Iterator[Row]:
    """Rows for drawing a batch and for appending steps."""
    turns = 2 if quick else TURNS

    def row(name: str, ours: float, theirs: float) -> Row:
        each = 1e6 / BLOCK
        return Row(name=name, unit="us", ours=each * ours, peer=each * theirs, peer_name="Stable-Baselines3")

    with torch_threads(1):
        for n_envs in (1, 8, 64):
            ours, theirs, steps = filled(2_000 if quick else 20_000, n_envs)
            if n_envs == 1:
                generator = torch.Generator().manual_seed(0)
                used = ours.sample(BURST * BATCH, generator)
                calls = (
                    partial(_often, partial(ours.sample, BATCH, generator), BLOCK),
                    partial(_often, partial(ours.sample, BURST * BATCH, generator, used), BLOCK // BURST),
                    partial(_often, partial(theirs.sample, BATCH), BLOCK),
                )
                new, reused, other = median_seconds([calls] * turns)
                yield row(f"draw {BATCH} out of {len(ours):,} in new memory", new, other)
                yield row(f"draw {BATCH} out of {len(ours):,} as training draws", reused, other)
            appends = (
                lambda ours=ours, steps=steps: [ours.append(*mine) for mine, _ in steps],
                lambda theirs=theirs, steps=steps: [theirs.add(*other) for _, other in steps],
            )
            yield row(f"append a step, environments: {n_envs}", *median_seconds([appends] * turns))


def filled(capacity: int, n_envs: int) -> tuple[Replay, Any, list[tuple[Any, Any]]]:
    """Both buffers, full of the same transitions; the last steps come back as arguments to both."""
    buffers = peer("stable_baselines3.common.buffers")
    ours = Replay(SPEC, lanes=n_envs, capacity=capacity)
    pictures = buffers.spaces.Box(0, 255, SPEC.observation_shape, np.uint8)
    theirs = buffers.ReplayBuffer(capacity, pictures, buffers.spaces.Discrete(18), device="cpu", n_envs=n_envs)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (n_envs, 64, 84, 84), dtype=np.uint8)
    stacks = [np.ascontiguousarray(frames[:, (k + np.arange(4)) % 64]) for k in range(64 if n_envs < 64 else 16)]
    never = np.zeros(n_envs, bool)
    infos: list[dict[str, Any]] = [{} for _ in range(n_envs)]
    steps = []
    ours.begin(stacks[0])
    for k in range(max(BLOCK, capacity // n_envs) + 1):
        now, after = stacks[k % len(stacks)], stacks[(k + 1) % len(stacks)]
        actions, rewards = rng.integers(0, 18, n_envs), rng.standard_normal(n_envs)
        mine = actions, Step(after, after, rewards, never, never, never)
        other = now, after, actions, rewards, never, infos
        ours.append(*mine)
        theirs.add(*other)
        steps.append((mine, other))
    return ours, theirs, steps[-BLOCK:]


def _often(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()
