"""One update of Stable-Baselines3's DQN, plain and structured: Nature network, 84x84x4 frames, 18 actions, batch 32.

The library's own replay memory holds transitions with random frames, and each call is one call of its own `train`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.logger import Logger

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.stable_baselines3 import StructuredDQN, StructuredTraining

ACTIONS, BATCH, STORED = 18, 32, 256


class Frames(gymnasium.Env[np.ndarray, np.int64]):
    """The shape of an Atari game. It is never played."""

    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = spaces.Discrete(ACTIONS)


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    return in_turns(StructuredDQN, seed)


def in_turns(kind: type[StructuredTraining], seed: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """One update of the same new model of this kind, without its structure and with it."""
    settings: dict[str, Any] = {"batch_size": BATCH, "buffer_size": STORED, "seed": seed, "device": "cpu"}
    model = kind("CnnPolicy", Frames(), **settings)
    model.set_logger(Logger(None, []))
    memory = model.replay_buffer
    assert memory is not None
    rng = np.random.default_rng(seed)
    frames = rng.integers(256, size=(STORED + 1, 1, 4, 84, 84), dtype=np.uint8)
    for here, there in pairwise(frames):
        action, reward = rng.integers(ACTIONS, size=(1, 1)), rng.normal(size=1)
        memory.add(here, there, action, reward, rng.random(1) < 0.01, [{}])
    rule = model.structure

    def update(structure: StructuredTargets | None) -> None:
        model.structure = structure
        model.train(gradient_steps=1, batch_size=BATCH)

    return lambda: update(None), lambda: update(rule)
