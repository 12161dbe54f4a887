"""The interface between environments and agents: N copies of an environment, stepped together.

An environment whose episode ends begins the next one at once, inside the same step. So every step is one true
transition of each of the N, and contains everything about it: the observation to act on next, the observation that the
action led to (the last of an episode, if one ended), the raw reward, and three flags that are easily confused:

- terminal: the episode is over and nothing comes after it;
- truncated: a limit cut the episode off, and the agent bootstraps from its last state;
- life_lost: a life was lost and the game continues. Agents may end the bootstrap there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.random import SeedSequence

Family = Literal["atari", "minatar", "control", "gymnasium"]
LEAST_SIDE = 36
"""Least pixels of the shorter side of a picture for convolutions; smaller ones are numbers like all others."""


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """The observations and actions of an environment.

    Attributes:
        id: Its name, such as "atari/breakout" or "CartPole-v1".
        family: Where it comes from; decides the default preset.
        frame_shape: Shape of one frame.
        dtype: Type of the observations.
        stack: Frames in an observation, the newest last. With 1 an observation is one frame, without an axis for it.
            Frames from before the episode's first are zero.
        high: The number that a network should see as 1: 255 for pictures of bytes, 1 for most other observations.
        n_actions: Number of actions, A.
        action_names: A names for display.
        axes: Levels of each axis of an action, whose product is A; empty if actions have no axes.
        space: A Gymnasium environment's observation space, as `svrl.envs.observations.space_as_json` describes it.
        actions: Its actions, as `svrl.envs.actions.Actions.as_json` describes them; None if they are numbers from 0.
        pictures: Pictures inside an observation that is one row: (first entry, channels, height, width) of each, in
            order; already scaled. Empty if the observation is a picture itself, or has none.
    """

    id: str
    family: Family
    frame_shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    stack: int = 1
    high: float = 1.0
    n_actions: int
    action_names: tuple[str, ...] = ()
    axes: tuple[int, ...] = ()
    space: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    actions: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    pictures: tuple[tuple[int, ...], ...] = ()

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation: (stack, *frame_shape), or frame_shape if nothing is stacked."""
        return self.frame_shape if self.stack == 1 else (self.stack, *self.frame_shape)


class Step(NamedTuple):
    """The result of one step of N environments. The arrays do not change until the next step.

    Attributes:
        observations: (N, *observation_shape), what to act on next; if an episode ended, the first of the new one.
        final_observations: (N, *observation_shape), what the action led to. The same array as `observations`
            if no episode ended.
        rewards: (N,), float64, as the environment returns them.
        terminal, truncated, life_lost: (N,), bool; the module explains them.
        action_masks: (N, A), bool, the valid actions in `observations`; None if every action is always valid.
        final_masks: (N, A), bool, the valid actions in `final_observations`. A terminal state may have none.
    """

    observations: np.ndarray
    final_observations: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    truncated: np.ndarray
    life_lost: np.ndarray
    action_masks: np.ndarray | None = None
    final_masks: np.ndarray | None = None

    @property
    def ended(self) -> np.ndarray:
        """(N,), bool: the episode is terminal or truncated."""
        return self.terminal | self.truncated


class VectorEnv(Protocol):
    """N environments. All their random numbers follow from the seed that you create them with.

    Subclasses implement `reset`, `send`, `recv` and `render`. The other methods suit environments that limit the length
    of their games themselves, cannot be saved, and hold nothing to release.

    Attributes:
        spec: Their observations and actions.
        count: N.
        action_masks: (N, A), bool, the valid actions in the newest observations; None if every action is always valid.
    """

    spec: EnvSpec
    count: int
    action_masks: np.ndarray | None = None

    def reset(self) -> np.ndarray:
        """Begin an episode in every environment; return observations (N, *observation_shape)."""

    def send(self, actions: np.ndarray) -> None:
        """Start a step with actions (N,), int64. Native environments compute it while you do other things."""

    def recv(self) -> Step:
        """Wait for the step that `send` started."""

    def limit_games(self, steps: int) -> bool:
        """Truncate games after this many steps unless they already have a limit; return whether the limit was set."""
        return False

    def capture(self) -> Mapping[str, Any] | None:
        """Return everything that later steps depend on, as arrays and JSON types; None if it cannot be saved."""
        return None

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Go back to a captured state; return the observations to act on.

        Raises:
            ValueError: If the state belongs to other environments, or if these cannot be saved.
        """
        raise ValueError(f"{self.spec.id} cannot be restored: its state cannot be saved. Begin new games.")

    def render(self, index: int = 0) -> np.ndarray:
        """Draw a picture of one environment, (H, W, 3), uint8."""

    def close(self) -> None:
        """Release threads and windows."""
        return


def step(env: VectorEnv, actions: np.ndarray) -> Step:
    """Step all environments with actions (N,): send and receive."""
    env.send(actions)
    return env.recv()


def env_seeds(seed: int, count: int) -> tuple[int, ...]:
    """A seed in [0, 2^31) for each of `count` environments; seed k comes from SeedSequence([seed, k]) for any count.

    Raises:
        ValueError: If the seed is negative or `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"At least 1 environment is needed, got {count}.")
    if seed < 0:
        raise ValueError(f"A seed is a whole number from 0, got {seed}.")
    return tuple(int(SeedSequence([seed, index]).generate_state(1)[0]) >> 1 for index in range(count))


def checked_actions(actions: np.ndarray, spec: EnvSpec, count: int) -> list[int]:
    """Return actions (N,) as a list.

    Raises:
        ValueError: If they are not N whole numbers, each the number of an action.
    """
    given = np.asarray(actions)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"{count} environments {spec.id} need whole numbers of shape ({count},) as actions, "
            f"got {given.dtype} of shape {given.shape}."
        )
    chosen: list[int] = given.tolist()
    if min(chosen) < 0 or max(chosen) >= spec.n_actions:
        raise ValueError(f"{spec.id} has actions 0 to {spec.n_actions - 1}, got {min(chosen)} to {max(chosen)}.")
    return chosen


def check_finite(name: str, what: str, numbers: np.ndarray) -> None:
    """Raise ValueError if a number is nan or infinite: an agent would silently learn nothing from it.

    The message says that environment `name` returned `what`, such as "a reward".
    """
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        wrong = numbers[~np.isfinite(numbers)][0]
        raise ValueError(f"{name} returned {what} that is not finite ({wrong}). Repair the environment.")
