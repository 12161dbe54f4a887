from __future__ import annotations

import math
from collections import deque

import gymnasium
import numpy as np
import pytest
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox, RandomState

from svrl.envs.snapshot import Unwritable, attributes, read, write

from .playing import through_a_file


def there_and_back(value: object) -> object:
    return read(through_a_file(write(value)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0.1 + 0.2,
        -(2**100),
        math.inf,
        "text",
        b"\x00bytes",
        (1, (2, [3])),
        [],
        {},
        {1: "a", (2, 3): [None, 4.5]},
        {"array": "a dictionary whose key looks like a tag", "same": 0},
        deque([1, 2], maxlen=3),
    ],
    ids=repr,
)
def test_plain_values_come_back(value: object) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_what_compares_badly_comes_back_too() -> None:
    assert math.isnan(there_and_back(math.nan))
    scalar = there_and_back(np.float32(0.1))
    assert type(scalar) is np.float32
    assert scalar == np.float32(0.1)
    assert there_and_back(deque([1, 2], maxlen=3)).maxlen == 3


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([[b"S", b"F"]], dtype="c"),
        np.array(["ab"]),
        np.array(3),
        np.empty((0, 2)),
    ],
    ids=str,
)
def test_arrays_come_back(array: np.ndarray) -> None:
    back = there_and_back(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)
    assert back is not array


@pytest.mark.parametrize("kind", [MT19937, PCG64, PCG64DXSM, SFC64, Philox])
def test_generators_go_on_where_they_were(kind: type) -> None:
    source = Generator(kind(5))
    source.random(7)
    source.integers(3, dtype=np.int32)  # leaves half a word behind
    back = there_and_back(source)
    np.testing.assert_array_equal(
        back.integers(9, size=20, dtype=np.int32), source.integers(9, size=20, dtype=np.int32)
    )
    old = RandomState(MT19937(1))
    old.standard_normal()  # leaves its twin behind
    np.testing.assert_array_equal(there_and_back(old).standard_normal(5), old.standard_normal(5))


def test_two_names_for_one_thing_stay_so() -> None:
    source, shared = Generator(PCG64(0)), [1]
    loop: list[object] = [shared]
    loop.append(loop)
    back = there_and_back({"a": source, "b": [source], "c": shared, "d": (shared,), "loop": loop})
    assert back["a"] is back["b"][0]
    assert back["c"] is back["d"][0]
    assert back["c"] is not shared
    assert back["loop"][1] is back["loop"]
    assert back["loop"][0] is back["c"]


def test_what_cannot_be_written_is_refused() -> None:
    whole = np.zeros(4)
    for value in (object(), {1}, np.array([None]), lambda: 0, [whole, whole[:2]], 1j):
        with pytest.raises(Unwritable):
            write(value)
    write([whole, whole])
    write([whole[:2], whole[2:]])


def test_constants_are_left_out() -> None:
    class Thing:
        def __init__(self) -> None:
            self.x, self.space, self.kind, self.function = 1, gymnasium.spaces.Discrete(2), int, math.sin

    thing = Thing()
    assert attributes(thing) == {"x": 1}
    thing.space.sample()
    with pytest.raises(Unwritable, match="drawn from"):
        attributes(thing)
