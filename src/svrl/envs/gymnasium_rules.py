"""What Gymnasium asks of an environment, and a sentence for each way to miss it.

    reset(seed=..., options=...)  gives  (observation, info)
    step(action)                  gives  (observation, reward, terminated, truncated, info)

Observations have the shape of the observation space. A reward is one number, and an array that holds one number
counts as it. The rules are looked at once for each copy of an environment, at its first reset and its first step.
After that only what breaks is looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_STEP = "step must return (observation, reward, terminated, truncated, info)"
_RESET = "reset must return (observation, info)"
_SIGNATURE = "reset must take seed and options, as in reset(self, *, seed=None, options=None)"
_PARTS = ("reset", "step", "action_space", "observation_space")


def check_made(env: Any, name: str) -> None:
    """Refuse what is no environment.

    Raises:
        ValueError: If it is a class, or has not the methods and spaces of one.
    """
    if isinstance(env, type):
        raise ValueError(f"The factory of {name} must return an environment, got the class {env.__name__}. Call it.")
    missing = [part for part in _PARTS if not hasattr(env, part)]
    if missing and isinstance(env, gymnasium.Env):
        raise ValueError(f"{name} has no {missing[0]}. Give the class one, as Gymnasium asks.")
    if missing or not hasattr(env, "__dict__"):
        raise ValueError(f"The factory of {name} must return a gymnasium.Env, got {kind_of(env)}.")


def check_reset(got: Any, space: spaces.Space, name: str) -> None:
    """Refuse a reset that gave anything but an observation and a dictionary.

    Raises:
        ValueError: With the rule that was missed.
    """
    if not isinstance(got, tuple) or len(got) != 2:
        raise ValueError(f"{name}: {_RESET}, got {_values(got)}.")
    seen, info = got
    if not isinstance(info, Mapping):
        raise ValueError(f"{name}: {_RESET} with a dictionary as info, got {kind_of(info)}.")
    check_observation(seen, space, f"{name}: the observation of reset")


def check_step(got: Any, space: spaces.Space, name: str) -> None:
    """Refuse a step that gave anything but the five values.

    Raises:
        ValueError: With the rule that was missed.
    """
    if not isinstance(got, tuple) or len(got) != 5:
        raise ValueError(f"{name}: {_STEP}, got {_values(got)}.")
    seen, reward, terminated, truncated, info = got
    check_observation(seen, space, f"{name}: the observation of step")
    as_number(reward, name)
    for what, flag in (("terminated", terminated), ("truncated", truncated)):
        if np.size(flag) != 1 or np.asarray(flag).dtype.kind not in "biuf":
            raise ValueError(f"{name}: {what} must be True or False, got {kind_of(flag)}.")
    if not isinstance(info, Mapping):
        raise ValueError(f"{name}: {_STEP} with a dictionary as info, got {kind_of(info)}.")


def check_observation(seen: Any, space: spaces.Space, what: str) -> None:
    """Refuse an observation that is not of its space: another shape, no numbers, fractions for whole numbers.

    Bounds of a Box are not looked at: they are often meant loosely.

    Raises:
        ValueError: With what was wanted and what came.
    """
    if isinstance(space, spaces.Box):
        whole = space.dtype == np.uint8 and len(space.shape) in (2, 3)
        fits = _is_array(seen, space.shape, "biu" if whole else "biuf")
        wanted = f"{space.dtype} of shape {space.shape}"
    elif isinstance(space, spaces.Discrete):
        last = space.start + space.n - 1
        fits = _is_array(seen, (), "iu") and space.start <= np.asarray(seen).item() <= last
        wanted = f"a whole number from {space.start} to {last}"
    else:
        fits = _flattens(seen, space)
        wanted = f"of {space}"
    if not fits:
        raise ValueError(f"{what} must be {wanted}, as its observation_space says, got {kind_of(seen)}.")


def as_number(reward: Any, name: str) -> float:
    """A reward as a float; an array of one number counts as that number.

    Raises:
        ValueError: If it is not one number.
    """
    if not _is_array(reward, (), "biuf"):
        raise ValueError(f"{name}: the reward must be one number, got {kind_of(reward)}.")
    return float(np.asarray(reward).item())


def failure(error: Exception, method: str, name: str) -> ValueError:
    """The one sentence for what an environment raised in `method`, "reset" or "step".

    Gymnasium's wrappers unpack what the environment inside them gave. When that fails, it is the rule that is named.
    """
    text = str(error)
    if method == "reset" and re.search(r"unexpected keyword argument '(seed|options)'", text):
        return ValueError(f"{name}: {_SIGNATURE}.")
    if "unpack" in text and _raised_in(error).startswith("gymnasium.wrappers"):
        count = re.search(r"got (\d+)", text)
        values = f"got {count[1]} values" if count else f"and did not: {text}"
        return ValueError(f"{name}: {_STEP if method == 'step' else _RESET}, {values}.")
    return ValueError(f"{name} failed in {method}: {error!r}")


def _raised_in(error: Exception) -> str:
    """Name of the module whose line raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


def _is_array(value: Any, shape: tuple[int, ...], kinds: str) -> bool:
    """Whether it is numbers of that shape and of one of NumPy's kinds; where the shape is (), one number in any."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return array.dtype.kind in kinds and (array.shape == shape if shape else array.size == 1)


def _flattens(seen: Any, space: spaces.Space) -> bool:
    try:
        flat = np.asarray(spaces.flatten(space, seen))
    except Exception:  # a wrong observation may break Gymnasium's code anywhere
        return False
    return flat.shape == (spaces.flatdim(space),)


def _values(got: Any) -> str:
    return f"{len(got)} values" if isinstance(got, tuple) else kind_of(got)


def kind_of(value: Any) -> str:
    """What something is, in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    if value is None or isinstance(value, bool | int | float | np.generic):
        return f"{value}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of length {len(value)}"
    return type(value).__name__
