"""What every family of environments shares: seeds of lanes, checks of actions and numbers, a step put together."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.random import SeedSequence

from svrl.envs.vector import EnvSpec, Step


def lane_seeds(seed: int, count: int) -> tuple[int, ...]:
    """A seed in [0, 2^31) for each of `count` lanes: from SeedSequence([seed, lane]), whatever the count.

    Raises:
        ValueError: If the seed is negative or there is no lane.
    """
    if count < 1:
        raise ValueError(f"At least 1 environment is needed, got {count}.")
    if seed < 0:
        raise ValueError(f"A seed is a whole number from 0, got {seed}.")
    return tuple(int(SeedSequence([seed, lane]).generate_state(1)[0]) >> 1 for lane in range(count))


def checked_actions(actions: np.ndarray, spec: EnvSpec, count: int) -> list[int]:
    """Actions (N,) as a list; anything but whole numbers below `spec.n_actions`, one for each lane, is refused.

    Raises:
        ValueError: If shape or type is another, or an action is not one of the environment's.
    """
    given = np.asarray(actions)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"{spec.id} has {count} lanes and needs whole numbers of shape ({count},) as actions, "
            f"got {given.dtype} of shape {given.shape}."
        )
    chosen: list[int] = given.tolist()  # for a few lanes, min and max of a list are quicker than of an array
    low, high = min(chosen), max(chosen)
    if low < 0 or high >= spec.n_actions:
        raise ValueError(f"{spec.id} has actions 0 to {spec.n_actions - 1}, got {low} to {high}.")
    return chosen


def is_finite(numbers: np.ndarray) -> bool:
    """Whether no number of an array is nan or infinite; whole numbers never are.

    A sum of squares shows it in less than half the time; only where it overflows does every number have to be seen.
    """
    return numbers.dtype.kind != "f" or math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def not_finite(name: str, what: str, numbers: np.ndarray | float, at: int) -> ValueError:
    """The error for a reward or an observation that is not finite.

    Args:
        name: Of the environment.
        what: "a reward" or "an observation".
        numbers: What it gave; the first that is not finite is named.
        at: Steps of the game until then, 0 for a reset.
    """
    flat = np.ravel(numbers)
    wrong = flat[~np.isfinite(flat)][0]
    when = f"at step {at} of a game" if at else "at the start of a game"
    return ValueError(f"{name} gave {what} that is not finite ({wrong}) {when}. Repair the environment.")


def with_endings(step: Step, endings: Mapping[int, np.ndarray]) -> Step:
    """The step with its `final_observations`.

    Args:
        step: All but those.
        endings: Last observation of each lane that ended; where there is none, the step itself comes back.
    """
    if not endings:
        return step
    final = step.observations.copy()
    for lane, last in endings.items():
        final[lane] = last
    return step._replace(final_observations=final)


def empty_step(spec: EnvSpec, count: int) -> Step:
    """A step whose arrays are still to be filled: observations anything, the rest zero."""
    observations = np.empty((count, *spec.observation_shape), dtype=spec.dtype)
    flags = np.zeros((3, count), dtype=bool)
    return Step(observations, observations, np.zeros(count), flags[0], flags[1], flags[2])
