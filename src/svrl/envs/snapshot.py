"""What a Python object holds, as arrays and JSON types, and back: nothing is pickled and no code is run.

JSON knows neither tuples nor arrays, so everything but None, truth values, numbers, text and lists is a
dictionary with one tag that says what it is. An object that is found twice is written once and
referred to afterwards, so that two names for one generator are still two names for one generator
when they come back. What cannot be written exactly is refused: `Unwritable`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox, RandomState

_BIT_GENERATORS = {kind.__name__: kind for kind in (MT19937, PCG64, PCG64DXSM, SFC64, Philox)}
_EXACT_INT = 2**53


class Unwritable(Exception):
    """Something was found whose state is unknown."""


def write(value: Any) -> Any:
    """A value as arrays and JSON types.

    Raises:
        Unwritable: If it holds anything but JSON types, tuples, deques, arrays and generators of numbers, or two
            arrays that share memory.
    """
    writer = _Writer()
    written = writer.write(value)
    writer.refuse_views()
    return written


def read(written: Any) -> Any:
    """Back from `write`; all objects are new."""
    return _Reader().read(written)


def rules(thing: Any) -> dict[str, Any]:
    """The functions, classes and spaces that an object holds: no state, as long as they are those it was made with."""
    return {name: value for name, value in vars(thing).items() if _is_rule(value)}


def attributes(
    thing: Any, *, made_with: Mapping[str, Any] = MappingProxyType({}), apart: Collection[str] = ()
) -> dict[str, Any]:
    """The attributes of an object that can change. Nothing is left out for its name alone, unless the caller says so.

    Left out are the functions, classes and spaces that the object was made with, Gymnasium's specs, and what
    Gymnasium's own environments draw on.

    Args:
        thing: The object.
        made_with: Its `rules` when it was made.
        apart: Names of attributes that the caller looks after.

    Raises:
        Unwritable: If a space was drawn from, for its generator is then part of the state; if the object has slots.
    """
    if any(vars(kind).get("__slots__") for kind in type(thing).__mro__):
        raise Unwritable(f"{type(thing).__qualname__}, which has slots")
    found = {}
    for name, value in vars(thing).items():
        if _is_rule(value) and made_with.get(name) is value:
            _refuse_used(value)
        elif name not in apart and not _constant(value, _package(thing) == "gymnasium"):
            found[name] = value
    return found


def _is_rule(value: Any) -> bool:
    """A class, a function that can remember nothing, or a space."""
    if isinstance(value, FunctionType):
        return value.__closure__ is None and not vars(value)
    if isinstance(value, BuiltinFunctionType):
        return isinstance(value.__self__, ModuleType | None)
    return isinstance(value, type) or (isinstance(value, gymnasium.Space) and _package(value) == "gymnasium")


def _constant(value: Any, draws: bool) -> bool:
    """Whether a value is a spec or, in an object that draws, a surface, a font, a clock, or a list of such."""
    if draws and type(value) in (list, tuple) and value:
        return all(_constant(part, draws) for part in value)
    return type(value) is EnvSpec or (draws and _package(value) == "pygame")


def _package(thing: Any) -> str:
    return type(thing).__module__.partition(".")[0]


def _refuse_used(rule: Any) -> None:
    """Raise if a space, or one that it is made of, has a generator, as after the first draw."""
    if not isinstance(rule, gymnasium.Space):
        return
    if getattr(rule, "_np_random", None) is not None:  # its type says that there always is one
        raise Unwritable("a space that was drawn from")
    for part in vars(rule).values():
        inside = part.values() if isinstance(part, Mapping) else part if isinstance(part, list | tuple) else (part,)
        for inner in inside:
            _refuse_used(inner)


_LITERALS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: lambda value: value if abs(value) <= _EXACT_INT else {"int": str(value)},
    float: lambda value: value if math.isfinite(value) else {"float": repr(value)},
    bytes: lambda value: {"bytes": np.frombuffer(value, dtype=np.uint8).copy()},
}


class _Writer:
    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}  # the object is kept, so that nothing else takes its id

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _LITERALS:
            return _LITERALS[kind](value)
        if isinstance(value, np.generic):
            return {"scalar": _plain(np.asarray(value))}
        if kind is tuple:
            return {"tuple": [self.write(part) for part in value]}
        if id(value) in self._seen:
            return {"same": self._seen[id(value)][0]}
        self._seen[id(value)] = (len(self._seen), value)
        return self._write_mutable(value, kind)

    def _write_mutable(self, value: Any, kind: type) -> Any:
        if kind is list:
            return [self.write(part) for part in value]
        if kind is dict:
            return {"dict": [[self.write(key), self.write(part)] for key, part in value.items()]}
        if kind is deque:
            return {"deque": [self.write(part) for part in value], "longest": value.maxlen}
        if kind is np.ndarray:
            return {"array": _plain(value)}
        if kind is Generator and type(value.bit_generator).__name__ in _BIT_GENERATORS:
            return {"generator": self.write(value.bit_generator.state)}
        if kind is RandomState:
            return {"random_state": self.write(value.get_state(legacy=False))}
        raise Unwritable(f"{kind.__module__}.{kind.__qualname__}")

    def refuse_views(self) -> None:
        """Arrays that share memory would come back apart."""
        arrays = [value for _, value in self._seen.values() if type(value) is np.ndarray and value.size]
        bounds = sorted(np.lib.array_utils.byte_bounds(array) for array in arrays)
        if any(later[0] < earlier[1] for earlier, later in pairwise(bounds)):
            raise Unwritable("arrays that share memory")


def _plain(array: np.ndarray) -> Any:
    """Numbers as a copy; text and bytes as their memory, with dtype and shape beside it."""
    if array.dtype.kind in "biuf":
        return array.copy()
    if array.dtype.kind not in "SUc":
        raise Unwritable(f"an array of {array.dtype}")
    memory = np.frombuffer(array.tobytes(), dtype=np.uint8).copy()
    return {"memory": memory, "dtype": array.dtype.str, "shape": list(array.shape)}


def _from_plain(plain: Any) -> np.ndarray:
    if isinstance(plain, dict):
        memory = np.asarray(plain["memory"], dtype=np.uint8).tobytes()
        return np.frombuffer(memory, dtype=np.dtype(plain["dtype"])).reshape(plain["shape"]).copy()
    return np.array(plain)


class _Reader:
    def __init__(self) -> None:
        self._made: list[Any] = []

    def read(self, written: Any) -> Any:
        if isinstance(written, list):
            made: list[Any] = self._keep([])
            made.extend(self.read(part) for part in written)
            return made
        if not isinstance(written, dict):
            return written
        tag = next(iter(written))
        return _READERS[tag](self, written)

    def _keep(self, value: Any) -> Any:
        self._made.append(value)
        return value

    def read_same(self, written: dict[str, Any]) -> Any:
        return self._made[written["same"]]

    def read_tuple(self, written: dict[str, Any]) -> Any:
        return tuple(self.read(part) for part in written["tuple"])

    def read_dict(self, written: dict[str, Any]) -> Any:
        made = self._keep({})
        for key, part in written["dict"]:
            name = self.read(key)
            made[name] = self.read(part)
        return made

    def read_deque(self, written: dict[str, Any]) -> Any:
        made = self._keep(deque(maxlen=written["longest"]))
        made.extend(self.read(part) for part in written["deque"])
        return made

    def read_array(self, written: dict[str, Any]) -> Any:
        return self._keep(_from_plain(written["array"]))

    def read_generator(self, written: dict[str, Any]) -> Any:
        place = len(self._made)
        self._keep(None)
        state = self.read(written["generator"])
        bits = _BIT_GENERATORS[state["bit_generator"]](0)
        bits.state = state
        self._made[place] = Generator(bits)
        return self._made[place]

    def read_random_state(self, written: dict[str, Any]) -> Any:
        place = len(self._made)
        self._keep(None)
        made = RandomState(MT19937(0))
        made.set_state(self.read(written["random_state"]))
        self._made[place] = made
        return made


_READERS: dict[str, Any] = {
    "int": lambda _, written: int(written["int"]),
    "float": lambda _, written: float(written["float"]),
    "scalar": lambda _, written: _from_plain(written["scalar"])[()],
    "bytes": lambda _, written: np.asarray(written["bytes"], dtype=np.uint8).tobytes(),
    "same": _Reader.read_same,
    "tuple": _Reader.read_tuple,
    "dict": _Reader.read_dict,
    "deque": _Reader.read_deque,
    "array": _Reader.read_array,
    "generator": _Reader.read_generator,
    "random_state": _Reader.read_random_state,
}
