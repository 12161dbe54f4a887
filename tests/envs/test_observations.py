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


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "high"),
    [
        (spaces.Box(0, 1, (40, 50, 3)), (3, 40, 50), "float32", 1.0),
        (spaces.Box(0, 2, (3, 40, 50), np.float64), (3, 40, 50), "float32", 2.0),
        (spaces.Box(0, 9_000, (40, 50), np.uint16), (1, 40, 50), "float32", 9000.0),
        (spaces.Box(-np.inf, np.inf, (40, 50)), (1, 40, 50), "float32", 1.0),
        (spaces.Box(0, 1, (35, 50, 3)), (35, 50, 3), "float32", 1.0),
        (spaces.Box(0, 255, (4, 40, 50, 3), np.uint8), (12, 40, 50), "uint8", 255.0),
        (spaces.Box(0, 1, (2, 3, 40, 50)), (6, 40, 50), "float32", 1.0),
        (spaces.Box(0, 255, (4, 10, 11, 3), np.uint8), (4, 10, 11, 3), "float32", 255.0),
        (spaces.Box(0, 255, (12, 40, 50), np.uint8), (12, 40, 50), "uint8", 255.0),
        (spaces.Box(0, 255, (10, 10, 12), np.uint8), (12, 10, 10), "uint8", 255.0),
        (spaces.Box(0, 255, (12, 10, 10), np.uint8), (12, 10, 10), "uint8", 255.0),
        (spaces.Box(0, 255, (1, 40), np.uint8), (1, 1, 40), "uint8", 255.0),
        (spaces.Box(0, 255, (1, 40, 40), np.uint8), (1, 40, 40), "uint8", 255.0),
    ],
    ids=str,
)
def test_which_boxes_are_pictures(space: spaces.Space, shape: tuple[int, ...], dtype: str, high: float) -> None:
    sample = space.sample()
    for known in (space, space_from_json(json.loads(json.dumps(space_as_json(space))))):
        view = Observations(known, "it")
        assert (view.shape, view.dtype, view.high, view.pictures) == (shape, dtype, high, ())
        assert view(sample).shape == shape
        np.testing.assert_array_equal(view(np.stack([sample, sample]))[1], view(sample))


def test_pictures_stand_scaled_in_the_row_of_a_dict() -> None:
    parts = {"a": spaces.Box(0, 255, (40, 41, 3), np.uint8), "b": spaces.Discrete(2), "c": spaces.Box(0, 4, (36, 36))}
    space = spaces.Tuple([spaces.Dict(parts), spaces.Box(0, 255, (3, 3), np.uint8)])
    sample = space.sample()
    for known in (space, space_from_json(json.loads(json.dumps(space_as_json(space))))):
        view = Observations(known, "it")
        assert view.pictures == ((0, 3, 40, 41), (3 * 40 * 41 + 2, 1, 36, 36))
        assert (view.shape, view.dtype, view.high) == ((3 * 40 * 41 + 2 + 36 * 36 + 9,), "float32", 1.0)
        row, (first, second) = view(sample), view.pictures
        np.testing.assert_array_equal(
            row[: second[0] - 2].reshape(3, 40, 41)[2], sample[0]["a"][..., 2] / np.float32(255)
        )
        np.testing.assert_array_equal(row[second[0] : -9], sample[0]["c"].ravel() / 4)
        np.testing.assert_array_equal(row[-9:], sample[1].ravel())
        assert first[0] == 0


class Mission(spaces.Space):
    pass


def test_what_has_no_fixed_size_is_refused() -> None:
    space = spaces.Dict({"place": spaces.Discrete(4), "told": spaces.Tuple([Mission(dtype=str)])})
    with pytest.raises(
        ValueError, match="it has observations of Dict with Tuple with Mission, whose size is not fixed"
    ):
        Observations(space, "it")
