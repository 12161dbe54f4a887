"""The one interface between environments and agents: N copies of an environment, stepped together.

An environment that ends starts again at once, inside the same step. So every step is one true
transition in each of the N lanes, and says everything about it: the observation to act on next, the
observation that the action led to (the last of an episode, where one ended), the raw reward, and
three flags that are easily confused:

- terminal: the episode is over and nothing comes after it;
- truncated: the episode was cut off by a limit, and its value goes on;
- life_lost: a life was lost and the game goes on. Agents may end the bootstrap there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

Family = Literal["atari", "minatar", "control", "gymnasium"]


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """What an environment looks like from outside.

    Attributes:
        id: Its name, as in "atari/breakout" or "CartPole-v1".
        family: Where it comes from; decides the default preset.
        frame_shape: Shape of one frame.
        dtype: "uint8" or "float32", of observations.
        stack: Frames in an observation, the newest last. 1: an observation is one frame, without an axis for it.
            Frames from before the episode's first are zero.
        high: The number that a network should see as 1: 255 for pictures, 1 otherwise.
        n_actions: A.
        action_names: A names, for people.
        first_action: What the environment calls action 0.
        space: Of a Gymnasium environment, its observation space as `svrl.envs.observations.as_json` describes it.
    """

    id: str
    family: Family
    frame_shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    stack: int = 1
    high: float = 1.0
    n_actions: int
    action_names: tuple[str, ...] = ()
    first_action: int = 0
    space: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation: (stack, *frame_shape), or frame_shape where nothing is stacked."""
        return self.frame_shape if self.stack == 1 else (self.stack, *self.frame_shape)

    @property
    def frame_size(self) -> int:
        """Numbers in a frame."""
        return math.prod(self.frame_shape)


class Step(NamedTuple):
    """What one step of N environments led to. Arrays are the caller's until the next step.

    Attributes:
        observations: (N, *observation_shape), what to act on next; where an episode ended, the first of the new one.
        final_observations: (N, *observation_shape), what the action led to. The same array as `observations`
            when no episode ended.
        rewards: (N,), float64, as the environment gives them.
        terminal, truncated, life_lost: (N,), bool; the module says what they mean.
    """

    observations: np.ndarray
    final_observations: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray
    life_lost: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """(N,), bool: the episode is over, one way or the other."""
        return self.terminal | self.truncated


class VectorEnv(Protocol):
    """N environments. Everything random in them follows from the seed they were made with."""

    spec: EnvSpec
    count: int

    def reset(self) -> np.ndarray:
        """Begin an episode in every lane; observations (N, *observation_shape)."""
        ...

    def send(self, actions: np.ndarray) -> None:
        """Start a step with actions (N,), int64. Native environments work on it while the caller does other things."""
        ...

    def recv(self) -> Step:
        """Wait for the step that `send` started."""
        ...

    def capture(self) -> Mapping[str, Any] | None:
        """Everything the steps to come depend on, as arrays and JSON types; None if that cannot be had."""
        ...

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Go back to what `capture` saw; the observations to act on."""
        ...

    def render(self, lane: int = 0) -> np.ndarray:
        """A picture of one lane, (H, W, 3), uint8."""
        ...

    def close(self) -> None:
        """Let go of threads and windows."""
        ...


def step(env: VectorEnv, actions: np.ndarray) -> Step:
    """Send and receive."""
    env.send(actions)
    return env.recv()
