"""What the settings of a run may be, told in one sentence before any run begins.

A file has texts, whole numbers, numbers, true and false. 0 is no false, 4.0 is no whole number, and "4" is no number.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from svrl.agents.config import PRECISIONS, family_of
from svrl.runs.nearest_name import nearest_name

Form = Literal["text", "whole", "number", "switch"]

_WORDS: dict[Form, str] = {
    "text": "a text",
    "whole": "a whole number",
    "number": "a finite number",
    "switch": "true or false",
}

_NEEDS = {
    "atari": ("ale_py", 'Atari needs ale-py, which is not installed. Run: pip install "svrl[atari]".'),
    "minatar": ("minatar", 'MinAtar needs minatar, which is not installed. Run: pip install "svrl[minatar]".'),
}
"""Families of environments whose package is an extra: the module, and what to say where it is missing."""


def check_forms(settings: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Raise ValueError for the first setting that has not the form it should have."""
    for name, value in settings.items():
        if name in forms and not _has(value, forms[name]):
            got = repr(value) if isinstance(value, str) else str(value)
            raise ValueError(f"{name} is {_WORDS[forms[name]]}, got {got}.")


def check_device(device: str) -> None:
    """Raise ValueError unless it is cpu, cuda or cuda:N. Whether the card is there is known where the run is done."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"There is no device {device!r}. Use cpu, cuda or cuda:N.")


def check_precision(precision: str, device: str) -> None:
    """Raise ValueError if there is no such precision, or not on this device."""
    if precision not in PRECISIONS:
        raise ValueError(f"There is no precision {precision!r}. {nearest_name(precision, PRECISIONS)}")
    if precision != "float32" and device == "cpu":
        raise ValueError(f"precision {precision} needs a CUDA device, and the device is cpu. Take float32.")


def check_estimator(name: str) -> None:
    """Raise ValueError if there is no such estimator."""
    from svrl.matrix.catalogue import ESTIMATORS

    if name not in ESTIMATORS:
        raise ValueError(f"There is no estimator {name!r}. {nearest_name(name, ESTIMATORS)}")


def check_registered(env: str) -> None:
    """Raise ValueError, with the nearest name, for an id that Gymnasium does not know. No environment is made.

    An id such as "module:Name-v0" is left to its run, because looking it up would import the module.
    """
    if family_of(env) != "gymnasium" or ":" in env:
        return
    from svrl.envs.catalogue import known_environments
    from svrl.envs.classic import registered

    registered(env, also=known_environments(), trusted=False)


def why_not_here(env: str) -> str | None:
    """Why no run can learn in an environment on this machine, in one sentence; None if nothing stands against it.

    One of Gymnasium's is made and closed for it; an id such as "module:Name-v0" is left to its run.
    """
    module, sentence = _NEEDS.get(family_of(env), ("", ""))
    if module:
        return sentence if importlib.util.find_spec(module) is None else None
    if family_of(env) != "gymnasium" or ":" in env:
        return None
    from svrl.envs.catalogue import describe_env

    try:
        describe_env(env, trusted=False)
    except ValueError as error:
        return str(error)
    return None


def as_float(value: float) -> float:
    """1 as 1.0 and -0.0 as 0.0, so that equal numbers are written alike."""
    return float(value) + 0.0


def _has(value: object, form: Form) -> bool:
    if form == "text":
        return isinstance(value, str)
    if form == "switch":
        return isinstance(value, bool)
    if form == "whole":
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
