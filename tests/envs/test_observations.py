"""What an agent sees; what is no observation is in tests/agents/test_agent.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from svrl.envs.observations import Observations, space_as_json, space_from_json


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "high"),
    [
        (spaces.Box(-1, 1, (3,), np.float64), (3,), "float32", 1.0),
        (spaces.Box(-1, 1, (2, 5), np.float32), (2, 5), "float32", 1.0),
        (spaces.Box(-1, 1, (), np.float32), (1,), "float32", 1.0),
        (spaces.Box(0, 255, (128,), np.uint8), (128,), "float32", 255.0),
        (spaces.Box(0, 255, (20, 30, 3), np.uint8), (3, 20, 30), "uint8", 255.0),
        (spaces.Box(0, 255, (4, 20, 30), np.uint8), (4, 20, 30), "uint8", 255.0),
        (spaces.Box(0, 255, (20, 30), np.uint8), (1, 20, 30), "uint8", 255.0),
        (spaces.Discrete(4, start=-2), (4,), "float32", 1.0),
        (spaces.MultiDiscrete([2, 3]), (5,), "float32", 1.0),
        (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, -3]]), (14,), "float32", 1.0),
        (spaces.MultiBinary(6), (6,), "float32", 1.0),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (3,))]), (5,), "float32", 1.0),
        (spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (2, 2))}), (6,), "float32", 1.0),
    ],
    ids=str,
)
def test_what_an_agent_sees(space: spaces.Space, shape: tuple[int, ...], dtype: str, high: float) -> None:
    for known in (space, space_from_json(json.loads(json.dumps(space_as_json(space))))):
        view = Observations(known, "it")
        assert (view.shape, view.dtype, view.high) == (shape, dtype, high)
        space.seed(1)
        sample = space.sample()
        seen = view(sample)
        assert seen.shape == shape
        if shape == (3, 20, 30):
            np.testing.assert_array_equal(seen[1], sample[:, :, 1])
        elif isinstance(space, spaces.Box):
            np.testing.assert_array_equal(seen.ravel(), sample.ravel())
        else:
            np.testing.assert_array_equal(seen, spaces.flatten(space, sample))


class Mission(spaces.Space):
    pass


def test_what_has_no_fixed_size_is_refused() -> None:
    space = spaces.Dict({"place": spaces.Discrete(4), "told": spaces.Tuple([Mission(dtype=str)])})
    with pytest.raises(
        ValueError, match="it has observations of Dict with Tuple with Mission, whose size is not fixed"
    ):
        Observations(space, "it")
