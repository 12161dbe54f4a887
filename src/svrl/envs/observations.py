"""Prepare the observations of a Gymnasium environment for an agent.

The result depends on the observation space:

- Box of uint8 with two or three axes: a picture (channels, height, width), uint8, in which 255 counts as 1;
- Box of another type, or with four axes (a stack of pictures), and sides of 36 pixels or more: a picture too, with the
  channels of all pictures of the stack. Another type becomes float32, in which the upper bound of the Box counts as 1;
- any other Box: its numbers, float32;
- Discrete: one-hot, float32; MultiDiscrete, MultiBinary: flattened as in Gymnasium, float32;
- Tuple, Dict: all parts in one row, float32. Pictures with sides of 36 pixels or more are scaled and keep their axes,
  (channels, height, width), in a part of the row that `EnvSpec.pictures` names.

Channels are the first or the last of three axes, whichever is shorter; in a square picture the axis that differs.

Training passes one observation at a time. Acting passes one, or a batch from a vector environment, with one extra axis
in every part of a Tuple or Dict.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from torch import Tensor

from svrl.envs.vector import LEAST_SIDE, EnvSpec

_HIGHEST = 65_535
"""Largest upper bound of a Box that counts as a scale, from 16 bits; the largest float32, say, means no bound."""
_FIELDS: dict[type[spaces.Space], tuple[str, ...]] = {
    spaces.Box: ("shape", "dtype"),
    spaces.Discrete: ("n", "start"),
    spaces.MultiDiscrete: ("nvec", "start"),
    spaces.MultiBinary: ("shape",),
    spaces.Tuple: (),
    spaces.Dict: (),
}
"""The kinds of spaces, and what an agent's file stores of each besides its parts. Only the upper bound of a picture's
Box matters."""


class _Picture(NamedTuple):
    """A Box read as a picture.

    Attributes:
        shape: (channels, height, width).
        axes: Axes of the Box: 2 without channels, 3, or 4 for a stack of pictures.
        channels: The axis of the channels in the Box, -3 or -1.
        high: The number that counts as 1.
    """

    shape: tuple[int, ...]
    axes: int
    channels: int
    high: float = 255.0

    @property
    def is_large(self) -> bool:
        """Whether the picture is large enough for convolutions."""
        return min(self.shape[1:]) >= LEAST_SIDE

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Convert (..., *axes of the Box) to (..., channels, height, width)."""
        moved = np.moveaxis(array, -1, -3) if self.channels == -1 else array
        return moved.reshape(*moved.shape[: moved.ndim - self.axes], *self.shape)


class Observations:
    """Convert observations of a space for an agent.

    Attributes:
        shape, dtype, high, pictures: Like `frame_shape`, `dtype`, `high` and `pictures` in `EnvSpec`.
    """

    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"] = "float32"
    high: float = 1.0
    pictures: tuple[tuple[int, ...], ...] = ()

    def __init__(self, space: spaces.Space, owner: str) -> None:
        """Choose how to show the observations of a space; `owner` is the environment's name, for messages.

        Raises:
            ValueError: If the space has no fixed size.
        """
        unknown = _unknown(space)
        if unknown is not None:
            raise ValueError(
                f"{owner} has observations of {unknown}, whose size is not fixed. "
                "Wrap it so that it returns a Box, Discrete, MultiDiscrete, Tuple or Dict of these."
            )
        self._space, self._owner, self._picture = space, owner, _picture_of(space)
        self._usual = bool(space.shape) and isinstance(space, spaces.Box) and space.dtype in (np.float32, np.uint8)
        if not isinstance(space, spaces.Box):
            self.shape = (spaces.flatdim(space),)
            self.pictures = tuple((first, *picture.shape) for first, picture in _pictures_in(space, 0))
            return
        self.shape = space.shape or (1,)
        self.high = 255.0 if space.dtype == np.uint8 else 1.0
        if self._picture is not None:
            self.shape, self.high = self._picture.shape, self._picture.high
            self.dtype = "uint8" if space.dtype == np.uint8 else "float32"

    @classmethod
    def of(cls, spec: EnvSpec) -> Observations:
        """The observations of an environment. Without a `space` in its spec an agent sees them unchanged."""
        if spec.space is not None:
            return cls(space_from_json(spec.space), spec.id)
        found = cls(spaces.Box(0, 1, spec.observation_shape, np.dtype(spec.dtype).type), spec.id)
        found.shape, found.dtype, found._picture = spec.observation_shape, spec.dtype, None
        return found

    def __call__(self, given: Any) -> np.ndarray:
        """Convert one observation to `shape`, or N of a vector environment to (N, *shape).

        Raises:
            ValueError: If the observation is not in the space.
        """
        space = self._space
        if self._usual and type(given) is np.ndarray and given.dtype == space.dtype and given.shape == space.shape:
            return given if self._picture is None else self._picture(given)  # most environments: no more checks
        what = f"{self._owner}: the observation"
        if not isinstance(space, spaces.Box):
            return _flat(space, given, what)
        array = _numbers(space, given, what)
        if self._picture is not None:
            return self._picture(array)
        shape = array.shape[: array.ndim - len(space.shape)] + self.shape
        return array if array.shape == shape else array.reshape(shape)

    def batch(self, given: Any) -> tuple[np.ndarray, bool]:
        """Return a network's input, (N, *shape), finite; and whether `given` is a single observation.

        Raises:
            ValueError: If the observation is not in the space, or a number is not finite.
        """
        seen = self(given)
        alone = seen.ndim == len(self.shape)
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, and raise below
            seen = np.array(seen[None] if alone else seen, self.dtype)
        if not np.isfinite(seen).all():
            raise ValueError(
                f"{self._owner}: the observation has a number that is nan or infinite in float32. "
                "An agent cannot act on it."
            )
        return seen, alone


def _flat(space: spaces.Space, given: Any, what: str) -> np.ndarray:
    """Put all numbers of an observation in one row, (size,), or those of N of them, (N, size).

    Whole numbers become one-hot, and pictures that convolutions take are scaled.
    """
    if parts := _parts(space):
        try:
            rows = [_flat(part, given[key], f"{what}[{key!r}]") for key, part in parts]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{what} must be of {space}, got {_text_of(given)}.") from error
        return np.concatenate(rows, axis=-1)
    array = _numbers(space, given, what)
    if isinstance(space, spaces.Discrete):
        return np.asarray(np.arange(space.n) == array[..., None] - space.start)
    leading = array.shape[: array.ndim - len(space.shape or ())]
    picture = _picture_of(space)
    if picture is not None and picture.is_large:
        array = np.divide(picture(array), picture.high, dtype=np.float32)
    flat = array.reshape(*leading, -1)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = flat - space.start.reshape(-1)
        return np.concatenate([np.arange(n) == chosen[..., k, None] for k, n in enumerate(space.nvec.flat)], axis=-1)
    return flat


def _numbers(space: spaces.Space, given: Any, what: str) -> np.ndarray:
    """The numbers of an observation in a space without parts, with the axes of the space or one more.

    Raises:
        ValueError: If they do not fit. The message says what was expected and what was given.
    """
    try:
        array = given.numpy(force=True) if isinstance(given, Tensor) else np.asarray(given)
    except (TypeError, ValueError):
        array = np.empty((), object)
    kinds, shape = "iu", space.shape or ()
    limits: tuple[Any, Any] | None = None
    match space:
        case spaces.Box():
            kinds = "biu" if _is_bytes(space) else "biuf"
            limits = (0, 255) if _is_bytes(space) and array.dtype != np.uint8 else None
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
    raise ValueError(f"{what} must be {wanted}, or N of them with one extra axis; got {found}.")


def _text_of(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return " ".join(reprlib.repr(value).split())


def _is_bytes(space: spaces.Space) -> bool:
    """Whether the space is a picture of bytes."""
    return space.dtype == np.uint8 and _picture_of(space) is not None


def _picture_of(space: spaces.Space) -> _Picture | None:
    """Read a space as a picture; None if it is not one."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3, 4):
        return None
    axes = len(space.shape)
    stack = space.shape[0] if axes == 4 else 1
    first, middle, last = (1, *space.shape) if axes == 2 else space.shape[-3:]
    # Channels are the axis that differs in a square picture, and otherwise the shorter one.
    if axes > 2 and (first == middle != last or (last <= first and not first != middle == last)):
        picture = _Picture((stack * last, first, middle), axes, -1)
    else:
        picture = _Picture((stack * first, middle, last), axes, -3)
    if space.dtype == np.uint8 and (picture.is_large or axes < 4):
        return picture
    if not picture.is_large:
        return None
    high = float(space.high.max())
    return picture._replace(high=high if 0.0 < high <= _HIGHEST else 1.0)


def _pictures_in(space: spaces.Space, first: int) -> list[tuple[int, _Picture]]:
    """The pictures for convolutions in the row of a space, each with its first entry; the row begins at `first`."""
    found: list[tuple[int, _Picture]] = []
    for _, part in _parts(space):
        picture = _picture_of(part)
        found += [(first, picture)] if picture is not None and picture.is_large else _pictures_in(part, first)
        first += spaces.flatdim(part)
    return found


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
    """Describe an observation space for an agent's file."""
    kind, fields = next((kind, fields) for kind, fields in _FIELDS.items() if isinstance(space, kind))
    about: dict[str, Any] = {"kind": kind.__name__}
    if parts := _parts(space):
        about["parts"] = [[key, space_as_json(part)] for key, part in parts]
    for field in fields:
        value = getattr(space, field)
        about[field] = str(value) if field == "dtype" else np.asarray(value).tolist()
    picture = _picture_of(space)
    if picture is not None and space.dtype != np.uint8:
        about["high"] = picture.high
    return about


def space_from_json(about: Mapping[str, Any]) -> spaces.Space:
    """Rebuild the space that `space_as_json` described, except for bounds of a Box that do not matter.

    Raises:
        KeyError, TypeError, ValueError: If `about` is not such a description.
    """
    parts = [(key, space_from_json(part)) for key, part in about.get("parts", ())]
    match about["kind"]:
        case "Dict":
            return spaces.Dict(parts)
        case "Tuple":
            return spaces.Tuple([part for _, part in parts])
        case "Box":
            return spaces.Box(0, about.get("high", 1), tuple(about["shape"]), np.dtype(about["dtype"]).type)
        case "Discrete":
            return spaces.Discrete(about["n"], start=about["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(about["nvec"], start=about["start"])
        case "MultiBinary":
            return spaces.MultiBinary(about["shape"])
    raise ValueError(f"There is no such kind of space: {about['kind']!r}.")
