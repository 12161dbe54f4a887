"""Problems that can only be sampled: backups are noisy, and every sample is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.grid import corner_offsets, interpolate, locate_next
from svrl.mdp.model import LARGEST_VALUE, Model, check_problem, check_rewards, summary

Sample = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""(states (N, d), actions (N, k), generator) -> next states (N, d) and rewards (N,)."""

BLOCK = 1 << 18
"""Samples drawn by one call of a user's function."""


class Simulator:
    """Your own stochastic simulator on a grid of states; implements `Sampler`.

    A sample of the backup of a pair is reward + gamma * v(next state), with v interpolated between grid points.

    Attributes:
        calls: Samples drawn so far.
    """

    def __init__(
        self,
        sample: Sample,
        *,
        axes: tuple[Axis, ...],
        actions: Tensor,
        gamma: float,
        reward_range: tuple[float, float] = (-math.inf, math.inf),
        name: str = "simulator",
        device: str | torch.device = "cpu",
    ) -> None:
        """Wrap `sample`. With finite bounds on expected rewards in `reward_range`, methods can clip."""
        # The grid of a task; its step and reward are never called.
        self._task = ControlTask(
            name=name,
            axes=axes,
            actions=actions,
            step=lambda states, actions, noise: states,
            reward=lambda states, actions: states[..., 0],
            gamma=gamma,
        )
        low, high = reward_range
        if not low < high:
            raise ValueError(f"{name} needs a reward range (low, high) with low < high, got {reward_range}.")
        self.gamma = self._task.gamma
        known = [end for end in (low, high) if math.isfinite(end)]
        check_rewards(name, (min(known, default=0.0), max(known, default=0.0)), self.gamma)
        self._sample = sample
        self.reward_range = low, high
        self.device = torch.device(device)
        self.n_states, self.n_actions = self._task.n_states, self._task.n_actions
        self._states = self._task.states().to(self.device)
        self._actions = self._task.actions.to(self.device)
        self._offsets = corner_offsets(self._task).to(self.device)
        self.calls = 0

    def __repr__(self) -> str:
        return summary(self, self._task.name, f"{self.calls:,} calls")

    def describe(self) -> dict[str, Any]:
        """Name and sizes."""
        return {**self._task.describe(), "device": str(self.device)}

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        """Noisy backups of all pairs (S, A), each the mean of `count` samples."""
        pairs = torch.arange(self.n_states * self.n_actions, device=self.device)
        states, actions = pairs // self.n_actions, pairs % self.n_actions
        return self.sample_at(v, states, actions, generator, count).reshape(self.n_states, self.n_actions)

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        """Noisy backups of listed pairs (K,), each the mean of `count` samples."""
        total = torch.zeros(len(states), dtype=v.dtype, device=self.device)
        for _ in range(count):
            for low in range(0, len(states), BLOCK):
                some = slice(low, low + BLOCK)
                total[some] += self._once(v, states[some], actions[some], generator)
        return total / count

    def _once(self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator) -> Tensor:
        here, inputs = self._states[states], self._actions[actions]
        following, reward = (torch.as_tensor(part) for part in self._sample(here, inputs, generator))
        if following.shape != here.shape or reward.shape != (len(here),):
            raise ValueError(
                f"{self._task.name} must return next states {tuple(here.shape)} and rewards ({len(here)},), "
                f"got {tuple(following.shape)} and {tuple(reward.shape)}."
            )
        self.calls += len(here)
        base, fraction = locate_next(self._task, here, inputs, following.double(), reward, v.dtype)
        return reward.to(v.dtype) + self.gamma * interpolate(v, base, fraction, self._offsets)


class NoisyBackups:
    """An exact model with independent N(0, sigma) noise on every backup; implements `Sampler`.

    Attributes:
        model: The exact model.
        sigma: Standard deviation of one sample.
        calls: Samples drawn so far.
    """

    def __init__(self, model: Model, sigma: float) -> None:
        check_problem("NoisyBackups", model, Model)
        if not 0.0 <= sigma <= LARGEST_VALUE:
            raise ValueError(f"NoisyBackups needs a noise level of 0 to {LARGEST_VALUE:g}, got {sigma!r}.")
        self.model = model
        self.sigma = float(sigma)
        self.calls = 0
        self.n_states, self.n_actions = model.n_states, model.n_actions
        self.gamma, self.device = model.gamma, model.device

    def __repr__(self) -> str:
        return f"NoisyBackups({self.model!r}, sigma={self.sigma:g}, {self.calls:,} calls)"

    @property
    def reward_range(self) -> tuple[float, float]:
        """The model's bounds on expected rewards, without noise."""
        return self.model.reward_range

    def describe(self) -> dict[str, Any]:
        """The model's description, and the noise."""
        return {**self.model.describe(), "sample_noise": self.sigma}

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        """Noisy backups of all pairs (S, A). The mean of `count` samples is drawn at once."""
        return self._noisy(self.model.backup(v), generator, count)

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        """Noisy backups of listed pairs (K,)."""
        return self._noisy(self.model.backup_at(v, states, actions), generator, count)

    def _noisy(self, exact: Tensor, generator: torch.Generator, count: int) -> Tensor:
        self.calls += exact.numel() * count
        noise = torch.randn(exact.shape, generator=generator, dtype=exact.dtype, device=self.device)
        return exact.add_(noise, alpha=self.sigma / math.sqrt(count))
