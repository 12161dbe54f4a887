"""Fields that are read from the file of an agent, or of a run: a file may hold anything."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from svrl.envs.vector import EnvSpec, Family

_MOST = 2**63
"""Steps and seeds lie below it."""


@contextmanager
def reading_fields(file: str | Path, what: str) -> Iterator[None]:
    """Turn whatever goes wrong with the fields of a file into a ValueError that names the file.

    Args:
        file: Its path.
        what: What is then wrong with the file, as in "is not the file of an agent".
    """
    try:
        yield
    except Exception as error:  # networks and environments fail in many ways if their settings are odd
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise ValueError(f"{file} {what}: {said.rstrip('.')}.") from error


def word(fields: Mapping[str, Any], name: str) -> str:
    """A field that is text."""
    value = fields[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is a word, got {reprlib.repr(value)}")
    return value


def whole(fields: Mapping[str, Any], name: str) -> int:
    """A field that is a number of steps or updates, or a seed."""
    value: int = fields[name]
    _check_whole(name, value, least=0)
    return value


def check_spec(spec: EnvSpec) -> None:
    """Raise ValueError unless an environment could look like this."""
    for name, value in (("stack", spec.stack), ("n_actions", spec.n_actions)):
        _check_whole(name, value, least=1)
    for size in spec.frame_shape:
        _check_whole("each number of frame_shape", size, least=1)
    if spec.family not in get_args(Family) or spec.dtype not in ("uint8", "float32"):
        raise ValueError(f"family {reprlib.repr(spec.family)} or dtype {reprlib.repr(spec.dtype)} is unknown")
    if not isinstance(spec.high, float | int) or not 0 < spec.high < _MOST:
        raise ValueError(f"high is a number above 0, got {reprlib.repr(spec.high)}")


def _check_whole(name: str, value: object, *, least: int) -> None:
    if type(value) is not int or not least <= value < _MOST:
        raise ValueError(f"{name} is a whole number from {least} to 2^63 - 1, got {reprlib.repr(value)}")
