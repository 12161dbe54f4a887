"""Environments that are solved in seconds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Identity(gymnasium.Env):
    """One of n states is shown; the action of the same number pays 1. Games end after ten steps, half by a limit."""

    def __init__(self, n: int = 4) -> None:
        self.n = n
        self.observation_space = gymnasium.spaces.Discrete(n)
        self.action_space = gymnasium.spaces.Discrete(n)
        self.shown = 0
        self.steps = 0
        self.games = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.steps = 0
        self.games += 1
        self.shown = int(self.np_random.integers(self.n))
        return self.shown, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        reward = float(int(action) == self.shown)
        self.steps += 1
        self.shown = int(self.np_random.integers(self.n))
        over = self.steps == 10
        return self.shown, reward, over and self.games % 2 == 0, over and self.games % 2 == 1, {}


def identity() -> Identity:
    return Identity()


def chance_score(n: int = 4) -> float:
    return float(np.float64(10 / n))


class Lit(gymnasium.Env):
    """One half of a picture is lit, and the action of that number pays 1; games end after ten steps."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, space: gymnasium.spaces.Space) -> None:
        self.observation_space = space

    def shown(self) -> Any:
        self.side = int(self.np_random.integers(2))
        picture = np.zeros((40, 44, 3), np.uint8)
        picture[:, 22 * self.side : 22 * (self.side + 1)] = 255
        return (
            {"see": picture, "time": self.time}
            if isinstance(self.observation_space, gymnasium.spaces.Dict)
            else picture
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.time = 0
        return self.shown(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        reward = float(action == self.side)
        self.time += 1
        return self.shown(), reward, self.time == 10, False, {}


def lit() -> Lit:
    return Lit(gymnasium.spaces.Box(0, 255, (40, 44, 3), np.uint8))


def lit_in_a_dict() -> Lit:
    return Lit(gymnasium.spaces.Dict(see=lit().observation_space, time=gymnasium.spaces.Discrete(11)))


def lit_side(seen: Any) -> int:
    picture = seen["see"] if isinstance(seen, dict) else seen
    return int(picture[0, -1, 0] == 255)


OF_LIT = {
    "hidden": (32,),
    "n_envs": 4,
    "clip_rewards": False,
    "learning_rate": 1e-3,
    "steps": 800,
    "updates_per_step": 0.5,
    "gamma": 0.5,
    "epsilon_steps": 400,
}
"""Settings of the preset smoke that solve it."""
