"""What an agent sees of the observations that a Gymnasium environment gives.

By the kind of observation space:

- Box of uint8 with two or three axes: a picture (channels, height, width), uint8, in which 255 counts as 1;
- any other Box: its numbers, float32;
- Discrete: one-hot, float32; MultiDiscrete, MultiBinary, Tuple, Dict: flattened as Gymnasium does it, float32.

`seen_through` does this for training and for `Reader`, which takes one observation or a batch of a vector environment.
A batch has one axis more, in every part of a Tuple or Dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from torch import Tensor

from svrl.envs.gymnasium_rules import kind_of
from svrl.envs.lanes import is_finite
from svrl.envs.vector import EnvSpec

_MOST_CHANNELS = 4


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How observations of a space reach the agent.

    Attributes:
        shape, dtype, high: As in `EnvSpec`.
        view: From what the environment gives to an array of that shape.
    """

    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    high: float
    view: Callable[[Any], Any]


def seen_through(space: spaces.Space, owner: str) -> Seen:
    """How observations of `space` reach the agent; the module says which way for which space.

    Raises:
        ValueError: If the space has no fixed size.
    """
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and len(space.shape) in (2, 3):
            return _picture(space.shape)
        shape = space.shape or (1,)
        high = 255.0 if space.dtype == np.uint8 else 1.0
        return Seen(shape=shape, dtype="float32", high=high, view=lambda got: _shaped(got, shape))
    try:
        size = spaces.flatdim(space) if space.is_np_flattenable else 0
    except RuntimeError:  # what a space of a class of its own raises
        size = 0
    if not size:
        raise ValueError(
            f"{owner} has observations of {_without_size(space)}, whose size is not fixed. "
            "Wrap it so that it gives a Box, Discrete, MultiDiscrete, Tuple or Dict of these."
        )
    return Seen(shape=(size,), dtype="float32", high=1.0, view=lambda got: spaces.flatten(space, got))


def _shaped(got: Any, shape: tuple[int, ...]) -> Any:
    """As `np.reshape`, which takes a while to find that there is nothing to do."""
    return got if isinstance(got, np.ndarray) and got.shape == shape else np.reshape(got, shape)


def _picture(shape: tuple[int, ...]) -> Seen:
    if len(shape) == 2:
        return Seen(shape=(1, *shape), dtype="uint8", high=255.0, view=lambda got: np.asarray(got)[None])
    if shape[0] <= _MOST_CHANNELS < shape[-1]:
        return Seen(shape=shape, dtype="uint8", high=255.0, view=lambda got: got)
    height, width, channels = shape
    return Seen(
        shape=(channels, height, width), dtype="uint8", high=255.0, view=lambda got: np.moveaxis(np.asarray(got), -1, 0)
    )


def as_json(space: spaces.Space) -> dict[str, Any] | None:
    """What an agent's file says of an observation space; None of a kind that `from_json` does not make."""
    about: dict[str, Any] | None = None
    if isinstance(space, spaces.Box):
        about = {"shape": list(space.shape), "dtype": str(space.dtype)}
    elif isinstance(space, spaces.Discrete):
        about = {"n": int(space.n), "start": int(space.start)}
    elif isinstance(space, spaces.MultiDiscrete):
        about = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
    elif isinstance(space, spaces.MultiBinary):
        about = {"shape": list(space.shape)}
    elif isinstance(space, spaces.Tuple | spaces.Dict):
        named = list(space.spaces.items()) if isinstance(space, spaces.Dict) else list(enumerate(space.spaces))
        parts = [[key, as_json(part)] for key, part in named]
        if all(part is not None and isinstance(key, str | int) for key, part in parts):
            about = {"parts": parts}
    kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Tuple, spaces.Dict)
    return about and {"kind": next(kind.__name__ for kind in kinds if isinstance(space, kind)), **about}


def from_json(about: Mapping[str, Any]) -> spaces.Space:
    """A space that `as_json` described, but for the bounds of a Box, which are not looked at.

    Raises:
        KeyError, TypeError, ValueError: If it is not such a description.
    """
    kind = about["kind"]
    if kind in ("Tuple", "Dict"):
        parts = [(key, from_json(part)) for key, part in about["parts"]]
        return spaces.Dict(parts) if kind == "Dict" else spaces.Tuple([part for _, part in parts])
    make: dict[str, Callable[[], spaces.Space]] = {
        "Box": lambda: spaces.Box(0, 1, tuple(about["shape"]), np.dtype(about["dtype"]).type),
        "Discrete": lambda: spaces.Discrete(about["n"], start=about["start"]),
        "MultiDiscrete": lambda: spaces.MultiDiscrete(about["nvec"], start=about["start"]),
        "MultiBinary": lambda: spaces.MultiBinary(about["shape"]),
    }
    return make[kind]()


class Reader:
    """What an environment gives, one observation or N of a vector environment, as a network takes it.

    Args:
        spec: Of the environment. Where it describes no observation space, observations are of its `observation_shape`.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        if spec.space is None:
            self._space: spaces.Space = spaces.Box(0, 1, spec.observation_shape, np.dtype(spec.dtype).type)
            self._view: Callable[[Any], Any] = lambda got: got
        else:
            self._space = from_json(spec.space)
            self._view = seen_through(self._space, spec.id).view

    def __call__(self, got: Any) -> tuple[np.ndarray, bool]:
        """Observations (N, *observation_shape), and whether it was one alone.

        Raises:
            ValueError: If shape or kind is another than the space says, or a number is not finite.
        """
        what = f"{self._spec.id}: the observation"
        lanes, counts = _lanes(self._space, got, what)
        if len(counts) > 1:
            raise ValueError(f"{what} has parts of one and of several environments, or of several numbers of them.")
        count = counts.pop()
        seen = np.empty((1 if count is None else count, *self._spec.observation_shape), self._spec.dtype)
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused
            for row in range(len(seen)):
                seen[row] = self._view(_lane(lanes, row))
        if not is_finite(seen):
            raise ValueError(f"{what} has a number that is nan or infinite in float32. An agent cannot act on it.")
        return seen, count is None


def _lanes(space: spaces.Space, got: Any, what: str) -> tuple[Any, set[int | None]]:
    """Arrays (N, ...) in the structure of the space, and every N that they have, None for one without that axis."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = isinstance(space, spaces.Dict)
        keys: Any = space.spaces if named else range(len(space.spaces))
        if not (isinstance(got, Mapping) and set(got) == set(keys) if named else _is_row(got, len(keys))):
            parts = f"a dictionary with {_listed(keys)}" if named else f"a tuple of {len(keys)} parts"
            found = f"one with {_listed(got)}" if named and isinstance(got, Mapping) else kind_of(got)
            raise ValueError(f"{what} must be {parts}, got {found}.")
        read = {key: _lanes(space.spaces[key], got[key], f"{what}[{key!r}]") for key in keys}
        lanes: Any = {key: arrays for key, (arrays, _) in read.items()}
        return lanes if named else tuple(lanes.values()), set().union(*(counts for _, counts in read.values()))
    array = _numbers(space, got, what)
    alone = array.shape == space.shape
    return array[None] if alone else array, {None if alone else len(array)}


def _numbers(space: spaces.Space, got: Any, what: str) -> np.ndarray:
    """The numbers of a space that has no parts, with its axes or one more."""
    shape = tuple(space.shape or ())
    kinds, low, high, wanted = "biuf", None, None, f"{space.dtype} of shape {shape}"
    if isinstance(space, spaces.Discrete):
        kinds, low, high = "iu", space.start, space.start + space.n - 1
        wanted = f"a whole number from {low} to {high}"
    elif isinstance(space, spaces.MultiDiscrete):
        kinds, low, high = "iu", space.start, space.start + space.nvec - 1
        wanted = f"of {space}"
    elif isinstance(space, spaces.MultiBinary):
        kinds, low, high = "biu", 0, 1
    elif space.dtype == np.uint8 and len(shape) in (2, 3):
        kinds, low, high = "biu", 0, 255
    try:
        array = got.numpy(force=True) if isinstance(got, Tensor) else np.asarray(got)
    except (TypeError, ValueError):
        array = np.empty((), object)
    found = kind_of(array if array.ndim else got)
    fits = array.dtype.kind in kinds and array.shape in (shape, (*array.shape[:1], *shape))
    if fits and low is not None and not bool(((low <= array) & (array <= high)).all()):
        fits, found = False, f"numbers from {array.min()} to {array.max()}" if array.ndim else found
    if not fits:
        raise ValueError(f"{what} must be {wanted}, or N of them with one axis more; got {found}.")
    return array


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(map(str, keys)) or "nothing"


def _is_row(got: Any, length: int) -> bool:
    return isinstance(got, tuple | list) and len(got) == length


def _lane(lanes: Any, row: int) -> Any:
    if isinstance(lanes, dict):
        return {key: _lane(part, row) for key, part in lanes.items()}
    return tuple(_lane(part, row) for part in lanes) if isinstance(lanes, tuple) else lanes[row]


def _without_size(space: spaces.Space) -> str:
    """The class of the part that has no fixed size."""
    parts = getattr(space, "spaces", ())
    for part in parts.values() if isinstance(parts, Mapping) else parts:
        try:
            spaces.flatdim(part)
        except (RuntimeError, ValueError):
            return f"{type(space).__name__} with {_without_size(part)}"
    return type(space).__name__
