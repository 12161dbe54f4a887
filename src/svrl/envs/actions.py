"""Number the actions of an environment from 0 to A - 1, as a Q network lists them.

An action chooses one level on each axis, and the last axis runs fastest in the numbering:

| action space           | axes                                                                     | A              |
|------------------------|--------------------------------------------------------------------------|----------------|
| `Discrete(n, start)`   | one, with n levels from `start`                                          | n              |
| `MultiDiscrete(nvec)`  | one for each entry                                                       | product of nvec|
| `MultiBinary(n)`       | one for each entry, 0 and 1                                              | 2^n            |
| `Box(low, high)`       | one for each entry, with evenly spaced levels from low to high (`bins`): | product of bins|
|                        | 2 are the ends, 3 add the middle (bang-off-bang)                         |                |

A mask of valid actions may have an entry for each action, or, as in `MultiDiscrete.sample` and sb3-contrib, one for
each level of each axis; an action is then valid if all of its levels are. If both lengths are the same, as with two
axes of two levels, the entries belong to the levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

MOST_ACTIONS = 1_000_000
NAMED = 1_000
"""Most actions that get a name each."""


@dataclass(frozen=True, eq=False)
class Actions:
    """The actions of an environment.

    Attributes:
        levels: The values that each axis can take.
        shape: Shape of the environment's action; None if it is a plain int.
        dtype: Type of its entries.
    """

    levels: tuple[np.ndarray, ...]
    shape: tuple[int, ...] | None
    dtype: str

    @classmethod
    def of(cls, space: spaces.Space, owner: str, bins: Sequence[int] = ()) -> Actions:
        """List the actions of a space.

        Args:
            space: The environment's action space.
            owner: The environment's name, for messages.
            bins: Levels of each axis of a Box, or one number for all axes; empty for every other space.

        Raises:
            ValueError: If the space cannot be listed, or `bins` does not fit it.
        """
        if not isinstance(space, spaces.Box) and bins:
            raise ValueError(f"{owner} has actions of {space}, and bins are for continuous ones (Box). Leave bins out.")
        if isinstance(space, spaces.Discrete):
            found = cls((np.arange(space.n) + space.start,), None, "int64")
        elif isinstance(space, spaces.MultiDiscrete):
            ranges = zip(space.start.flat, space.nvec.flat, strict=True)
            found = cls(tuple(start + np.arange(n) for start, n in ranges), space.shape, str(space.dtype))
        elif isinstance(space, spaces.MultiBinary):
            found = cls((np.arange(2),) * math.prod(space.shape), space.shape, str(space.dtype))
        elif isinstance(space, spaces.Box):
            found = cls(_levels_of(space, owner, bins), space.shape, str(space.dtype))
        else:
            raise ValueError(
                f"{owner} has actions of {space}, which cannot be listed. Wrap it so that they can: "
                "gymnasium.wrappers.TransformAction(env, function, gymnasium.spaces.Discrete(n)), where function "
                "turns a number from 0 to n - 1 into the environment's action."
            )
        if found.count > MOST_ACTIONS:
            raise ValueError(
                f"{owner} has {' x '.join(map(str, found.axes))} = {found.count:,} actions, and a network lists "
                f"{MOST_ACTIONS:,} at most. Use fewer levels, or fewer axes."
            )
        return found

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Number of levels of each axis."""
        return tuple(map(len, self.levels))

    @property
    def count(self) -> int:
        """A, the number of actions."""
        return math.prod(self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the actions; empty if there are more than a thousand."""
        if self.count > NAMED:
            return ()
        chosen = self._chosen(np.arange(self.count))
        return tuple(" ".join(f"{level:.4g}" for level in row) for row in chosen.tolist())

    @cached_property
    def start(self) -> int:
        """The environment's number of action 0, where actions are plain ints."""
        return int(self.levels[0][0])

    def __call__(self, numbers: Sequence[int] | np.ndarray) -> Any:
        """Turn numbers (N,) into the environment's actions: a list of ints, or an array (N, *shape)."""
        if self.shape is None:
            return [int(number) + self.start for number in numbers]
        return self._chosen(np.asarray(numbers)).astype(self.dtype).reshape(len(numbers), *self.shape)

    def mask(self, given: Any, owner: str) -> np.ndarray:
        """Turn the mask that an environment gives into the valid actions (A,), bool.

        Raises:
            ValueError: If the mask does not fit the actions.
        """
        parts = given if isinstance(given, tuple | list) and len(given) == len(self.axes) > 1 else [given]
        try:
            flat = np.concatenate([np.asarray(part).reshape(-1) for part in parts]).astype(bool)
        except (TypeError, ValueError):
            flat = np.zeros(0, bool)
        if len(flat) == sum(self.axes):
            valid = np.ones(1, bool)
            for axis in np.split(flat, np.cumsum(self.axes)[:-1]):
                valid = (valid[:, None] & axis).reshape(-1)
        elif len(flat) == self.count:
            valid = flat
        else:
            wanted = f"{self.count} entries, one for each action"
            if len(self.axes) > 1:
                wanted += f", or {sum(self.axes)}, one for each level of each axis"
            raise ValueError(f"{owner}: a mask of its actions has {wanted}; got {len(flat)}.")
        return valid

    def as_json(self) -> dict[str, Any]:
        """Describe the actions for an agent's file."""
        return {"levels": [level.tolist() for level in self.levels], "shape": self.shape, "dtype": self.dtype}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Actions:
        """Rebuild the actions that `as_json` described.

        Raises:
            KeyError, TypeError, ValueError: If `about` is not such a description.
        """
        shape = about["shape"]
        levels = tuple(np.array(level) for level in about["levels"])
        if not levels or any(level.ndim != 1 or not len(level) for level in levels):
            raise ValueError("an axis without levels")
        return cls(levels, None if shape is None else tuple(shape), str(np.dtype(about["dtype"])))

    def _chosen(self, numbers: np.ndarray) -> np.ndarray:
        """The levels (N, axes) of the actions with these numbers (N,)."""
        places = np.unravel_index(numbers, self.axes)
        return np.stack([level[place] for level, place in zip(self.levels, places, strict=True)], -1)


def _levels_of(space: spaces.Box, owner: str, bins: Sequence[int]) -> tuple[np.ndarray, ...]:
    low, high = (end.astype(np.float64).reshape(-1) for end in (space.low, space.high))
    many = f"{len(low)} numbers" if len(low) != 1 else "one number"
    if not bins:
        raise ValueError(
            f"{owner} has continuous actions, {many} in Box{space.shape}. Set how many levels each has: --bins 3, or "
            f"bins=(3,) in Python, gives {3 ** len(low):,} actions."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"{owner} has actions without bounds, {space}, so levels cannot be placed. Give it bounds: "
            "gymnasium.wrappers.RescaleAction, or your own Box in gymnasium.wrappers.TransformAction."
        )
    counts = tuple(bins) * len(low) if len(bins) == 1 else tuple(bins)
    if len(counts) != len(low):
        raise ValueError(f"{owner} has actions of {many}; got bins for {len(counts)}. Give one number, or {len(low)}.")
    levels = []
    for one, other, count in zip(low, high, counts, strict=True):
        level = np.linspace(one, other, count) if count > 1 else np.array([(one + other) / 2])
        levels.append(np.unique(level.round()) if np.issubdtype(space.dtype, np.integer) else level)
    return tuple(levels)
