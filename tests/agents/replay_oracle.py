"""A replay buffer as a plain list, and environments whose every frame is different."""

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

    def __init__(self, spec: EnvSpec, n_envs: int, seed: int, end: float) -> None:
        self.spec, self.n_envs, self.end = spec, n_envs, end
        self.rng = np.random.default_rng(seed)
        self.stacks = np.zeros((n_envs, spec.stack, *spec.frame_shape), spec.dtype)

    def _frame(self) -> np.ndarray:
        return self.rng.integers(1, 256, self.spec.frame_shape).astype(self.spec.dtype)

    def _seen(self, stacks: np.ndarray) -> np.ndarray:
        return (stacks[:, 0] if self.spec.stack == 1 else stacks).copy()

    def reset(self) -> np.ndarray:
        for env in range(self.n_envs):
            self.stacks[env] = 0
            self.stacks[env, -1] = self._frame()
        return self._seen(self.stacks)

    def step(self) -> tuple[np.ndarray, Step]:
        for env in range(self.n_envs):
            self.stacks[env, :-1] = self.stacks[env, 1:].copy()
            self.stacks[env, -1] = self._frame()
        final = self._seen(self.stacks)
        over = self.rng.random(self.n_envs) < self.end
        terminal = over & (self.rng.random(self.n_envs) < 0.5)
        truncated = over & ~terminal
        for env in np.flatnonzero(over):
            self.stacks[env] = 0
            self.stacks[env, -1] = self._frame()
        observations = self._seen(self.stacks) if over.any() else final
        rewards = self.rng.standard_normal(self.n_envs)
        actions = self.rng.integers(0, 50, self.n_envs)
        return actions, Step(observations, final, rewards, terminal, truncated, self.rng.random(self.n_envs) < 0.3)


class NaiveReplay:
    """All transitions ever seen, in lists, each with the slots that its window takes."""

    def __init__(self, spec: EnvSpec, layout: Layout) -> None:
        self.spec, self.layout = spec, layout
        self.past: list[list[tuple[int, Transition]]] = [[] for _ in range(layout.n_envs)]
        self.newest = [-1] * layout.n_envs  # number of the newest frame that was stored
        self.first = [0] * layout.n_envs  # number of the episode's first
        self.seen: np.ndarray = np.zeros(0)

    def begin(self, observations: np.ndarray) -> None:
        self.seen = observations.copy()
        for env in range(self.layout.n_envs):
            self.newest[env] += 1
            self.first[env] = self.newest[env]

    def append(self, actions: np.ndarray, step: Step) -> None:
        for env in range(self.layout.n_envs):
            transition = Transition(
                self.seen[env].tobytes(),
                step.final_observations[env].tobytes(),
                int(actions[env]),
                float(np.float32(step.rewards[env])),
                bool(step.terminal[env]),
                bool(step.life_lost[env]),
            )
            start = max(self.first[env], self.newest[env] - self.spec.stack + 1)
            self.past[env].append((start, transition))
            self.newest[env] += 1
            if step.ended[env]:
                self.newest[env] += 1
                self.first[env] = self.newest[env]
        self.seen = step.observations.copy()

    def drawable(self) -> list[Transition]:
        """Environment after environment, oldest first."""
        kept = []
        for env, past in enumerate(self.past):
            lowest = self.newest[env] + 1 - self.layout.slots
            kept += [transition for start, transition in past[-self.layout.per_env :] if start >= lowest]
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
