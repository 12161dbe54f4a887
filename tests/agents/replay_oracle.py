"""A replay memory as a plain list, and environments whose every frame is different."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from svrl.agents.replay import Batch, Layout, Replay, next_observations, observations
from svrl.envs.vector import EnvSpec, Step


def spec_of(stack: int, dtype: Any = "uint8") -> EnvSpec:
    return EnvSpec(
        id="counting", family="gymnasium", frame_shape=(2, 3), dtype=dtype, stack=stack, high=255.0, n_actions=50
    )


class Transition(NamedTuple):
    state: bytes
    after: bytes
    action: int
    reward: float
    terminal: bool
    life_lost: bool


class Counting:
    """N environments whose frames are random numbers, never zero, with ends as often as asked."""

    def __init__(self, spec: EnvSpec, lanes: int, seed: int, end: float) -> None:
        self.spec, self.lanes, self.end = spec, lanes, end
        self.rng = np.random.default_rng(seed)
        self.stacks = np.zeros((lanes, spec.stack, *spec.frame_shape), spec.dtype)

    def _frame(self) -> np.ndarray:
        return self.rng.integers(1, 256, self.spec.frame_shape).astype(self.spec.dtype)

    def _seen(self, stacks: np.ndarray) -> np.ndarray:
        return (stacks[:, 0] if self.spec.stack == 1 else stacks).copy()

    def reset(self) -> np.ndarray:
        for lane in range(self.lanes):
            self.stacks[lane] = 0
            self.stacks[lane, -1] = self._frame()
        return self._seen(self.stacks)

    def step(self) -> tuple[np.ndarray, Step]:
        for lane in range(self.lanes):
            self.stacks[lane, :-1] = self.stacks[lane, 1:].copy()
            self.stacks[lane, -1] = self._frame()
        final = self._seen(self.stacks)
        over = self.rng.random(self.lanes) < self.end
        terminal = over & (self.rng.random(self.lanes) < 0.5)
        truncated = over & ~terminal
        for lane in np.flatnonzero(over):
            self.stacks[lane] = 0
            self.stacks[lane, -1] = self._frame()
        observations = self._seen(self.stacks) if over.any() else final
        rewards = self.rng.standard_normal(self.lanes)
        actions = self.rng.integers(0, 50, self.lanes)
        return actions, Step(observations, final, rewards, terminal, truncated, self.rng.random(self.lanes) < 0.3)


class NaiveReplay:
    """All transitions ever seen, in lists, each with the slots that its window takes."""

    def __init__(self, spec: EnvSpec, layout: Layout) -> None:
        self.spec, self.layout = spec, layout
        self.past: list[list[tuple[int, Transition]]] = [[] for _ in range(layout.lanes)]
        self.newest = [-1] * layout.lanes  # number of the newest frame that was stored
        self.first = [0] * layout.lanes  # number of the episode's first
        self.seen: np.ndarray = np.zeros(0)

    def begin(self, observations: np.ndarray) -> None:
        self.seen = observations.copy()
        for lane in range(self.layout.lanes):
            self.newest[lane] += 1
            self.first[lane] = self.newest[lane]

    def append(self, actions: np.ndarray, step: Step) -> None:
        for lane in range(self.layout.lanes):
            transition = Transition(
                self.seen[lane].tobytes(),
                step.final_observations[lane].tobytes(),
                int(actions[lane]),
                float(np.float32(step.rewards[lane])),
                bool(step.terminal[lane]),
                bool(step.life_lost[lane]),
            )
            start = max(self.first[lane], self.newest[lane] - self.spec.stack + 1)
            self.past[lane].append((start, transition))
            self.newest[lane] += 1
            if step.ended[lane]:
                self.newest[lane] += 1
                self.first[lane] = self.newest[lane]
        self.seen = step.observations.copy()

    def drawable(self) -> list[Transition]:
        """Lane after lane, oldest first."""
        kept = []
        for lane, past in enumerate(self.past):
            lowest = self.newest[lane] + 1 - self.layout.slots
            kept += [transition for start, transition in past[-self.layout.per_lane :] if start >= lowest]
        return kept


def transitions(batch: Batch) -> list[Transition]:
    states, after = observations(batch).numpy(), next_observations(batch).numpy()
    rest = [part.tolist() for part in batch[1:]]
    return [
        Transition(np.ascontiguousarray(state).tobytes(), np.ascontiguousarray(later).tobytes(), *values)
        for state, later, *values in zip(states, after, *rest, strict=True)
    ]


def all_of(replay: Replay) -> list[Transition]:
    """Everything that can be drawn, once each."""
    return transitions(replay._sample_kernel(torch.arange(len(replay)))) if len(replay) else []
