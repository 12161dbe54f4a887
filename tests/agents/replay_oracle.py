"""A replay buffer as a plain list, and environments whose every frame is different."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from svrl.agents.replay import Batch, Layout, Replay, Returns
from svrl.envs.vector import EnvSpec, Step


def spec_of(stack: int, dtype: Any = "uint8") -> EnvSpec:
    return EnvSpec(
        id="counting", family="gymnasium", frame_shape=(2, 3), dtype=dtype, stack=stack, high=255.0, n_actions=50
    )


class Transition(NamedTuple):
    """What a draw gives: R, discount and mask belong to the next state, which may be several steps away."""

    state: bytes
    after: bytes
    action: int
    reward: float
    discount: float
    mask: tuple[bool, ...] | None


class Seen(NamedTuple):
    """One step of one environment, with the number of its episode."""

    state: bytes
    after: bytes
    action: int
    reward: float
    terminal: bool
    life_lost: bool
    mask: tuple[bool, ...] | None
    episode: int


class Counting:
    """N environments whose frames are random numbers, never zero, with ends as often as asked."""

    def __init__(self, spec: EnvSpec, n_envs: int, seed: int, end: float, masked: bool = False) -> None:
        self.spec, self.n_envs, self.end, self.masked = spec, n_envs, end, masked
        self.mask_rng = np.random.default_rng(seed)  # of its own: frames do not depend on masks
        self.masks = self._masks()
        self.rng = np.random.default_rng(seed)
        self.stacks = np.zeros((n_envs, spec.stack, *spec.frame_shape), spec.dtype)

    def _masks(self) -> np.ndarray | None:
        if not self.masked:
            return None
        masks = self.mask_rng.random((self.n_envs, self.spec.n_actions)) < 0.5
        masks[:, 0] = True
        return masks

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
        final_masks = self.masks = self._masks()
        if self.masks is not None and over.any():
            self.masks = np.where(over[:, None], self._masks(), self.masks)
        life_lost = self.rng.random(self.n_envs) < 0.3
        return actions, Step(observations, final, rewards, terminal, truncated, life_lost, self.masks, final_masks)


class NaiveReplay:
    """All steps ever seen, in lists, each with the slots that its window takes."""

    def __init__(self, spec: EnvSpec, layout: Layout, returns: Returns) -> None:
        self.spec, self.layout, self.returns = spec, layout, returns
        self.past: list[list[tuple[int, Seen]]] = [[] for _ in range(layout.n_envs)]
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
            seen = Seen(
                self.seen[env].tobytes(),
                step.final_observations[env].tobytes(),
                int(actions[env]),
                float(np.float32(step.rewards[env])),
                bool(step.terminal[env]),
                bool(step.life_lost[env]),
                None if step.final_masks is None else tuple(step.final_masks[env].tolist()),
                self.first[env],
            )
            start = max(self.first[env], self.newest[env] - self.spec.stack + 1)
            self.past[env].append((start, seen))
            self.newest[env] += 1
            if step.ended[env]:
                self.newest[env] += 1
                self.first[env] = self.newest[env]
        self.seen = step.observations.copy()

    def drawable(self) -> list[Transition]:
        """Environment after environment, oldest first."""
        kept: list[Transition] = []
        for env, past in enumerate(self.past):
            lowest = self.newest[env] + 1 - self.layout.slots
            newest = range(max(0, len(past) - self.layout.per_env), len(past))
            kept += [self.from_step(env, number) for number in newest if past[number][0] >= lowest]
        return kept

    def from_step(self, env: int, number: int) -> Transition:
        """The definition of an n-step return, a step at a time."""
        rule, steps = self.returns, [seen for _, seen in self.past[env][number:]]
        total, factor, last = 0.0, 1.0, steps[0]
        for seen in steps[: rule.n_steps]:
            if seen.episode != steps[0].episode:
                break
            total += factor * float(np.sign(seen.reward) if rule.clip_rewards else seen.reward)
            factor, last = factor * rule.gamma, seen
            if seen.terminal or (rule.life_loss_ends and seen.life_lost):
                factor = 0.0
                break
        numbers = (float(np.float32(number)) for number in (total, factor))
        return Transition(steps[0].state, last.after, steps[0].action, *numbers, last.mask)


def transitions(batch: Batch) -> list[Transition]:
    states, after = batch.observations.numpy(), batch.next_observations.numpy()
    rest = [part.tolist() for part in (batch.actions, batch.rewards, batch.discounts)]
    masks = [None] * len(states) if batch.action_masks is None else map(tuple, batch.action_masks.tolist())
    return [
        Transition(np.ascontiguousarray(state).tobytes(), np.ascontiguousarray(later).tobytes(), *values)
        for state, later, *values in zip(states, after, *rest, masks, strict=True)
    ]


def all_of(replay: Replay) -> list[Transition]:
    """Everything that can be drawn, once each."""
    return transitions(replay._sample_kernel(torch.arange(len(replay)))) if len(replay) else []
