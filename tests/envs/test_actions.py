"""Every action space as numbers from 0 to A - 1."""

import itertools
import json

import numpy as np
import pytest
from gymnasium import spaces

from svrl.envs.actions import Actions

SPACES = {
    "Discrete": (spaces.Discrete(5, start=-2), (), [-2, -1, 0, 1, 2]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3], start=[0, 5]), (), list(itertools.product((0, 1), (5, 6, 7)))),
    "MultiDiscrete of two axes": (
        spaces.MultiDiscrete(np.array([[2, 1], [2, 2]])),
        (),
        [((a, 0), (b, c)) for a, b, c in itertools.product((0, 1), repeat=3)],
    ),
    "MultiBinary": (spaces.MultiBinary(3), (), list(itertools.product((0, 1), repeat=3))),
    "Box, bang-off-bang": (
        spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32)),
        (3,),
        list(itertools.product((-1, 0, 1), (0, 2, 4))),
    ),
    "Box, bins of its own": (spaces.Box(-2, 2, (2,)), (2, 1), [(-2, 0), (2, 0)]),
    "Box of whole numbers": (spaces.Box(0, 3, (1,), np.int32), (9,), [(0,), (1,), (2,), (3,)]),
}


@pytest.mark.parametrize(("space", "bins", "expected"), SPACES.values(), ids=SPACES)
def test_all_actions_are_of_the_space_in_row_major_order(space, bins, expected):
    actions = Actions.of(space, "Mine-v0", bins)
    assert actions.count == len(expected) == len(actions.names) == np.prod(actions.axes)
    made = actions(np.arange(actions.count))
    np.testing.assert_array_equal(np.array(made), np.array(expected))
    assert all(space.contains(action) for action in made)


@pytest.mark.parametrize(("space", "bins", "expected"), SPACES.values(), ids=SPACES)
def test_a_file_keeps_them(space, bins, expected):
    actions = Actions.of(space, "Mine-v0", bins)
    read = Actions.from_json(json.loads(json.dumps(actions.as_json())))
    made = read(np.arange(actions.count))
    np.testing.assert_array_equal(np.array(made), np.array(expected))
    assert all(space.contains(action) for action in made)


def test_masks_of_levels_and_of_actions():
    actions = Actions.of(spaces.MultiDiscrete([2, 3]), "Mine-v0")
    of_levels = (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8))
    expected = [False, True, True, False, False, False]
    for given in (of_levels, list(of_levels), np.concatenate(of_levels), np.array(expected)):
        assert actions.mask(given, "Mine-v0").tolist() == expected
    small = Actions.of(spaces.MultiDiscrete([2, 2]), "Mine-v0")
    assert small.mask([1, 0, 1, 1], "Mine-v0").tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("space", "bins", "words"),
    [
        (spaces.Box(-1, 1, (2,)), (), ["continuous", "2 numbers", "--bins 3", "9 actions"]),
        (spaces.Box(-np.inf, 1, (2,)), (3,), ["without bounds", "RescaleAction"]),
        (spaces.Box(-1, 1, (2,)), (3, 3, 3), ["2 numbers", "for 3"]),
        (spaces.Box(-1, 1, (30,)), (3,), ["actions, and a network lists", "fewer levels"]),
        (spaces.Discrete(3), (3,), ["bins are for continuous"]),
        (spaces.Dict({"a": spaces.Discrete(2)}), (), ["cannot be listed", "TransformAction"]),
    ],
)
def test_what_cannot_be_listed_is_answered(space, bins, words):
    with pytest.raises(ValueError, match="Mine-v0") as error:
        Actions.of(space, "Mine-v0", bins)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(("given", "words"), [([1] * 4, "got 4"), ("x", "got ")])
def test_odd_masks_are_answered(given, words):
    actions = Actions.of(spaces.MultiDiscrete([2, 3]), "Mine-v0")
    with pytest.raises(ValueError, match=words):
        actions.mask(given, "Mine-v0")
