"""What an agent sees of the observations of a Gymnasium environment.

By the kind of observation space:

- Box of uint8 with two or three axes: a picture (channels, height, width), uint8, in which 255 counts as 1;
- any other Box: its numbers, float32;
- Discrete: one-hot, float32; MultiDiscrete, MultiBinary, Tuple, Dict: flattened as Gymnasium does it, float32.

Training passes one observation at a time. Acting passes one, or a batch from a vector environment, which has one axis
more in every part of a Tuple or Dict.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from torch import Tensor

from svrl.envs.vector import EnvSpec

_MOST_CHANNELS = 4
_FIELDS: dict[type[spaces.Space], tuple[str, ...]] = {
    spaces.Box: ("shape", "dtype"),
    spaces.Discrete: ("n", "start"),
    spaces.MultiDiscrete: ("nvec", "start"),
    spaces.MultiBinary: ("shape",),
    spaces.Tuple: (),
    spaces.Dict: (),
}
"""The kinds of spaces, and what an agent's file stores of each beside its parts. Bounds of a Box do not matter."""


class Observations:
    """How observations of a space reach an agent.

    Attributes:
        shape, dtype, high: As `frame_shape`, `dtype` and `high` in `EnvSpec`.
    """

    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"] = "float32"
    high: float = 1.0

    def __init__(self, space: spaces.Space, owner: str) -> None:
        """Choose how to show the observations of a space; `owner` is the environment's name, for messages.

        Raises:
            ValueError: If the space has no fixed size.
        """
        unknown = _unknown(space)
        if unknown is not None:
            raise ValueError(
                f"{owner} has observations of {unknown}, whose size is not fixed. "
                "Wrap it so that it gives a Box, Discrete, MultiDiscrete, Tuple or Dict of these."
            )
        self._space, self._owner, self._channels_last = space, owner, False
        if not isinstance(space, spaces.Box):
            self.shape = (spaces.flatdim(space),)
            return
        self.shape = space.shape or (1,)
        self.high = 255.0 if space.dtype == np.uint8 else 1.0
        if _is_picture(space):
            self.dtype = "uint8"
            first, *middle, last = space.shape
            if not middle:
                self.shape = (1, first, last)
            elif not first <= _MOST_CHANNELS < last:
                self.shape, self._channels_last = (last, first, *middle), True

    @classmethod
    def of(cls, spec: EnvSpec) -> Observations:
        """The observations of an environment. Without a `space` in its spec an agent sees them as they are."""
        if spec.space is not None:
            return cls(space_from_json(spec.space), spec.id)
        found = cls(spaces.Box(0, 1, spec.observation_shape, np.dtype(spec.dtype).type), spec.id)
        found.shape, found.dtype, found._channels_last = spec.observation_shape, spec.dtype, False
        return found

    def __call__(self, given: Any) -> np.ndarray:
        """What the agent sees of one observation, `shape`, or of N of a vector environment, (N, *shape).

        Raises:
            ValueError: If the observation is not in the space.
        """
        what = f"{self._owner}: the observation"
        if not isinstance(self._space, spaces.Box):
            return _flat(self._space, given, what)
        array = _numbers(self._space, given, what)
        if self._channels_last:
            return np.moveaxis(array, -1, -3)
        shape = array.shape[: array.ndim - len(self._space.shape)] + self.shape
        return array if array.shape == shape else array.reshape(shape)

    def batch(self, given: Any) -> tuple[np.ndarray, bool]:
        """What a network takes, (N, *shape), finite; and whether a single observation was given.

        Raises:
            ValueError: If the observation is not in the space, or a number is not finite.
        """
        seen = self(given)
        alone = seen.ndim == len(self.shape)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
            seen = np.array(seen[None] if alone else seen, self.dtype)
        if not np.isfinite(seen).all():
            raise ValueError(
                f"{self._owner}: the observation has a number that is nan or infinite in float32. "
                "An agent cannot act on it."
            )
        return seen, alone


def _flat(space: spaces.Space, given: Any, what: str) -> np.ndarray:
    """All numbers of an observation in one row, (size,), or of N of them, (N, size); whole numbers are one-hot."""
    if parts := _parts(space):
        try:
            rows = [_flat(part, given[key], f"{what}[{key!r}]") for key, part in parts]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{what} must be of {space}, got {_text_of(given)}.") from error
        return np.concatenate(rows, axis=-1)
    array = _numbers(space, given, what)
    if isinstance(space, spaces.Discrete):
        return np.asarray(np.arange(space.n) == array[..., None] - space.start)
    flat = array.reshape(*array.shape[: array.ndim - len(space.shape or ())], -1)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = flat - space.start.reshape(-1)
        return np.concatenate([np.arange(n) == chosen[..., k, None] for k, n in enumerate(space.nvec.flat)], axis=-1)
    return flat


def _numbers(space: spaces.Space, given: Any, what: str) -> np.ndarray:
    """The numbers of an observation in a space without parts, with the axes of the space or one more.

    Raises:
        ValueError: With what was expected and what was given.
    """
    try:
        array = given.numpy(force=True) if isinstance(given, Tensor) else np.asarray(given)
    except (TypeError, ValueError):
        array = np.empty((), object)
    kinds, shape = "iu", space.shape or ()
    limits: tuple[Any, Any] | None = None
    match space:
        case spaces.Box():
            kinds = "biu" if _is_picture(space) else "biuf"
            limits = (0, 255) if _is_picture(space) and array.dtype != np.uint8 else None
        case spaces.MultiBinary():
            kinds, limits = "biu", (0, 1)
        case spaces.Discrete(start=start, n=n) | spaces.MultiDiscrete(start=start, nvec=n):
            limits = (start, start + n - 1)
    if array.dtype.kind in kinds and array.shape in (shape, (*array.shape[:1], *shape)):
        if limits is None or bool(((limits[0] <= array) & (array <= limits[1])).all()):
            return array
        found = f"numbers from {array.min()} to {array.max()}" if array.ndim else str(given)
    else:
        found = _text_of(array if array.ndim else given)
    wanted = f"{space.dtype} of shape {shape}" if isinstance(space, spaces.Box) else f"of {space}"
    raise ValueError(f"{what} must be {wanted}, or N of them with one axis more; got {found}.")


def _text_of(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return " ".join(reprlib.repr(value).split())


def _is_picture(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _parts(space: spaces.Space) -> list[tuple[Any, spaces.Space]]:
    """Keys and spaces of the parts of a Dict or Tuple."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _unknown(space: spaces.Space) -> str | None:
    """The class of a part that an agent cannot see, and the classes around it; None if it can see all of them."""
    inner = next((found for _, part in _parts(space) if (found := _unknown(part))), None)
    if inner is not None:
        return f"{type(space).__name__} with {inner}"
    return None if isinstance(space, tuple(_FIELDS)) else type(space).__name__


def space_as_json(space: spaces.Space) -> dict[str, Any]:
    """What an agent's file stores of an observation space."""
    kind, fields = next((kind, fields) for kind, fields in _FIELDS.items() if isinstance(space, kind))
    about: dict[str, Any] = {"kind": kind.__name__}
    if parts := _parts(space):
        about["parts"] = [[key, space_as_json(part)] for key, part in parts]
    for field in fields:
        value = getattr(space, field)
        about[field] = str(value) if field == "dtype" else np.asarray(value).tolist()
    return about


def space_from_json(about: Mapping[str, Any]) -> spaces.Space:
    """The space that `space_as_json` described, except for the bounds of a Box.

    Raises:
        KeyError, TypeError, ValueError: If it is not such a description.
    """
    parts = [(key, space_from_json(part)) for key, part in about.get("parts", ())]
    match about["kind"]:
        case "Dict":
            return spaces.Dict(parts)
        case "Tuple":
            return spaces.Tuple([part for _, part in parts])
        case "Box":
            return spaces.Box(0, 1, tuple(about["shape"]), np.dtype(about["dtype"]).type)
        case "Discrete":
            return spaces.Discrete(about["n"], start=about["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(about["nvec"], start=about["start"])
        case "MultiBinary":
            return spaces.MultiBinary(about["shape"])
    raise ValueError(f"There is no such kind of space: {about['kind']!r}.")
