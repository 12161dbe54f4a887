"""What the records of parameters have in common: their choices, and the checks at birth."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Literal, SupportsIndex, get_args

Output = Literal["estimate", "fill"]
Centre = Literal["none", "mean", "midrange", "row"]
Bounds = tuple[float, float] | None


def check_options(name: str, output: str, centre: str, clip: Bounds) -> None:
    """Refuse a misspelt output or centre, or bounds in the wrong order, when a record is made."""
    for what, got, known in (("output", output, get_args(Output)), ("centre", centre, get_args(Centre))):
        if got not in known:
            raise ValueError(f"{name} has no {what} {got!r}: choose one of {', '.join(known)}.")
    if clip is not None and not (isinstance(clip, tuple) and len(clip) == 2 and clip[0] < clip[1]):
        raise ValueError(f"{name} needs clip bounds (low, high) with low < high, got {clip}.")


def check_whole(name: str, **numbers: SupportsIndex) -> None:
    """Refuse numbers that are not whole, or below 1; NumPy's whole numbers are welcome."""
    for what, got in numbers.items():
        if not hasattr(got, "__index__") or operator.index(got) < 1:
            raise ValueError(f"{name} needs {what} as a whole number of at least 1, got {got!r}.")


def as_number(got: object) -> float:
    """A number as a float, and NaN in place of text or anything else: no comparison with a bound lets NaN pass."""
    try:
        return float(got) if hasattr(got, "__float__") else math.nan
    except (ArithmeticError, TypeError, ValueError, RuntimeError):  # whole numbers beyond floats, arrays, tensors
        return math.nan


def check_positive(name: str, **numbers: object) -> None:
    """Refuse numbers that are not above zero and finite; None means not given."""
    for what, got in numbers.items():
        if got is not None and not (isinstance(got, Real) and 0 < float(got) < math.inf):
            raise ValueError(f"{name} needs {what} above 0 and finite, got {got}.")


def check_tolerance(name: str, tolerance: object) -> None:
    """Refuse a relative change that is not above 0 and at most 1."""
    if not (isinstance(tolerance, Real) and 0 < tolerance <= 1):  # type: ignore[operator]
        raise ValueError(
            f"{name} needs tolerance above 0 and at most 1, because it is a relative change; got {tolerance}."
        )
