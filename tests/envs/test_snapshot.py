from __future__ import annotations

import math
from collections import deque

import gymnasium
import numpy as np
import pytest
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox, RandomState

from svrl.envs.snapshot import Unwritable, attributes, read, rules, write

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


class Thing:
    def __init__(self) -> None:
        self.x, self.space, self.kind, self.function = 1, gymnasium.spaces.Discrete(2), int, math.sin


def test_constants_are_left_out() -> None:
    thing = Thing()
    assert attributes(thing, made_with=rules(thing)) == {"x": 1}
    thing.space.sample()
    with pytest.raises(Unwritable, match="drawn from"):
        attributes(thing, made_with=rules(thing))


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Dict({"a": gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)])}),
        gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)),
    ],
    ids=str,
)
def test_a_part_of_a_space_that_was_drawn_from_is_found(space: gymnasium.Space) -> None:
    thing = Thing()
    thing.space = space
    assert "space" not in attributes(thing, made_with=rules(thing))
    part = space["a"][0] if isinstance(space, gymnasium.spaces.Dict) else space.feature_space
    part.sample()
    with pytest.raises(Unwritable, match="drawn from"):
        attributes(thing, made_with=rules(thing))


def test_a_rule_that_was_exchanged_is_state() -> None:
    exchanges = {"function": math.cos, "kind": float, "space": gymnasium.spaces.Discrete(2), "new": math.sin}
    for name, other in exchanges.items():
        thing = Thing()
        made_with = rules(thing)
        setattr(thing, name, other)
        assert attributes(thing, made_with=made_with)[name] is other
        with pytest.raises(Unwritable):
            write(other)


def test_a_function_that_remembers_is_state() -> None:
    def counted() -> None:
        counted.calls += 1

    counted.calls = 0
    thing = Thing()
    for value in (counted, Generator(PCG64(0)).random, [1].append):
        thing.function = value
        assert attributes(thing, made_with=rules(thing))["function"] is value


def test_only_the_caller_knows_a_name() -> None:
    thing = Thing()
    for name in ("env", "spec", "metadata", "render_mode", "action_space", "observation_space"):
        setattr(thing, name, [1])
        assert name in attributes(thing)
        assert name not in attributes(thing, apart={name})


def test_what_lies_in_slots_is_not_seen_and_so_refused() -> None:
    class Slotted(Thing):
        __slots__ = ("hidden",)

    with pytest.raises(Unwritable, match="slots"):
        attributes(Slotted())
