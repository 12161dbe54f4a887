"""From what a sweep says about a run to everything that decides its result, checked before any run begins.

Options that a run has no use for are left out: structure's of a plain agent, those that a method does not take. So
the plain arm of a grid over p is one run, not one for every p. The grid, the actions and the equations of a plan are
those of the task that its options make, the shares and numbers those of its method. So an option that is left out and
the same option given as its default are one run.

A file has texts, whole numbers, numbers, true and false. 0 is no false, 4.0 is no whole number, and "4" is no number.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
import sys
import typing
from collections.abc import Mapping
from typing import Any

from svrl.agents.config import BY_FAMILY, CHOICES, FIELD_ALIASES, PRECISIONS, AgentConfig, family_of
from svrl.runs.plan_run import ESTIMATORS, METHODS, OF_A_METHOD, PLAN, PlanSettings, grid_in_one_form
from svrl.runs.spec import SUBJECT, RunSpec
from svrl.runs.train_run import STRUCTURE, training
from svrl.runtime.names import nearest_name

LARGEST = sys.float_info.max
_WORDS = {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false"}
_NEEDS = {
    "atari": ("ale_py", 'Atari needs ale-py, which is not installed. Run: pip install "svrl[atari]".'),
    "minatar": ("minatar", 'MinAtar needs minatar, which is not installed. Run: pip install "svrl[minatar]".'),
}
"""Families of environments whose package is an extra: the module, and what to say where it is missing."""
_PLAN_FORMS: dict[str, type] = {
    name: next(kind for kind in (*typing.get_args(hint), hint) if kind in _WORDS)
    for name, hint in typing.get_type_hints(PlanSettings).items()
    if name not in ("states", "seed")
}
"""What the options of a plan are, but for states, which is a text, a whole number or a list of them."""
OF_THE_MACHINE = ("device", "precision")
"""Settings of a training beside the fields of AgentConfig. Threads are resources: `cores`."""
_FIELDS = [entry.name for entry in dataclasses.fields(AgentConfig)]
_FLOATS = frozenset(entry.name for entry in dataclasses.fields(AgentConfig) if isinstance(entry.default, float))
OTHER_NAMES = {"p": "observe"}
ARMS = tuple(f"{prefix}{agent}" for prefix in ("", "sv-") for agent in CHOICES["agent"])
"""What `arm` may be: an agent, plain or structured."""


def known_settings(kind: str) -> list[str]:
    """Names that a sweep may set, beside `arm` and `seeds`, which stand for others."""
    own = [*_FIELDS, *OF_THE_MACHINE] if kind == "train" else [*_PLAN_FORMS, "states", "device"]
    return list(dict.fromkeys([SUBJECT[kind], "seed", *own]))


def spec_of(kind: str, given: Mapping[str, Any]) -> RunSpec:
    """The run with these settings.

    Raises:
        ValueError: If one is wrong, with a sentence that says which.
    """
    settings = renamed(given)
    settings = _without_arm(settings) if kind == "train" else settings
    _refuse_unknown(kind, settings)
    subject, seed = settings.get(SUBJECT[kind]), settings.get("seed", 0)
    if not isinstance(subject, str):
        raise ValueError(f"every run needs {SUBJECT[kind]}, as a text; got {subject!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is a whole number from 0 to 2^63 - 1, got {seed!r}.")
    settings = {**settings, "seed": seed}
    return _training(settings) if kind == "train" else _planning(settings)


def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their own names, in place of others such as p.

    Raises:
        ValueError: If one is there by both.
    """
    for other, name in OTHER_NAMES.items():
        if other in given and name in given:
            raise ValueError(f"{other} is another name of {name}: give one of them, not both.")
    return {OTHER_NAMES.get(name, name): value for name, value in given.items()}


def value_in(spec: RunSpec, name: str) -> Any:
    """A setting of a run, or its arm.

    Raises:
        KeyError: If runs of its kind have none of that name.
    """
    if name == "arm":
        return spec.arm
    for settings in (spec.settings, spec.given, *(run.settings for run in spec.after)):
        if name in settings:
            return settings[name]
    if name == "device":
        return spec.device
    raise KeyError(name)


def names_in(spec: RunSpec) -> list[str]:
    """Names that `value_in` knows, the most telling ones first."""
    first = [*filter(None, [SUBJECT.get(spec.kind.name)]), "arm", "seed"]
    after = [name for run in spec.after for name in run.settings]
    return list(dict.fromkeys([*first, *spec.given, *spec.settings, *after, "device"]))


def in_one_form(spec: RunSpec, name: str, value: Any) -> Any:
    """A value to compare with that of a run: grids and widths can be written in several ways."""
    if name == "states" and spec.kind == PLAN and value is not None:
        return grid_in_one_form(spec.subject, value)
    if name == "hidden" and isinstance(value, str) and "*" not in value:
        return widths(value)
    if name == "hidden" and isinstance(value, int):
        return [value]
    return value


def _training(settings: dict[str, Any]) -> RunSpec:
    _check_forms(settings, dict.fromkeys(("preset", "agent", "estimator", *OF_THE_MACHINE), str))
    _check_forms(settings, dict.fromkeys(_FLOATS, float))
    env, precision = settings["env"], settings.get("precision")
    if family_of(env) != "gymnasium":  # which is asked before runs begin, see `why_not_here`
        _check_name("environment", env, _environments())
    device = _device_in(settings)
    if precision is not None:
        _check_name("precision", precision, PRECISIONS)
        if precision != "float32" and device == "cpu":
            raise ValueError(f"precision {precision} needs a CUDA device, and the device is cpu. Take float32.")
    if "estimator" in settings:
        _check_name("estimator", settings["estimator"], ESTIMATORS)
    if isinstance(settings.get("hidden"), str):
        settings["hidden"] = widths(settings["hidden"])
    config = _config(settings)  # with what a plain agent has no use for, which may be wrong nevertheless
    if not config.structured:
        settings = {name: value for name, value in settings.items() if name not in STRUCTURE}
        config = _config(settings)
    if settings.get("actions") == 0:  # as if it were not given
        settings = {name: value for name, value in settings.items() if name != "actions"}
    return training(env, config, seed=settings["seed"], precision=precision, device=device, given=settings)


def _config(settings: Mapping[str, Any]) -> AgentConfig:
    env = settings["env"]
    changes = {name: value for name, value in settings.items() if name in _FIELDS and name != "preset"}
    return AgentConfig.for_env(env, settings.get("preset", BY_FAMILY[family_of(env)]), **changes)


def widths(text: str) -> list[int]:
    """Widths of layers from "128x128" or "128,128"."""
    try:
        return [int(part) for part in text.lower().replace(",", "x").split("x")]
    except ValueError:
        raise ValueError(f"hidden must look like 128x128, got {text!r}.") from None


def _without_arm(settings: dict[str, Any]) -> dict[str, Any]:
    """With agent and structured in place of an arm such as sv-dqn."""
    if "arm" not in settings:
        return settings
    for name in ("agent", "structured"):
        if name in settings:
            raise ValueError(f"arm stands for agent and structured, so {name} has no place beside it.")
    _check_forms(settings, {"arm": str})
    arm = settings["arm"]
    _check_name("arm", arm, ARMS, most=2)
    rest = {name: value for name, value in settings.items() if name != "arm"}
    return {**rest, "agent": arm.removeprefix("sv-"), "structured": arm.startswith("sv-")}


def _refuse_unknown(kind: str, settings: Mapping[str, Any]) -> None:
    known = known_settings(kind)
    for name in settings:
        if name == "threads":
            raise ValueError("threads are resources of a run: set cores in [resources].")
        if name not in known:
            if name == "seeds":
                raise ValueError("seeds is an axis: change it in the file, or take some of them by --where seed=0,1.")
            raise ValueError(f"svrl {kind} has no option {name!r}. {nearest_name(name, known, synonyms=FIELD_ALIASES)}")


@functools.cache
def _environments() -> frozenset[str]:
    from svrl.envs.make import known_environments

    return frozenset(known_environments())


def _planning(settings: Mapping[str, Any]) -> RunSpec:
    _check_forms(settings, {**_PLAN_FORMS, "device": str})
    device = _device_in(settings)
    if "estimator" in settings:
        _check_name("estimator", settings["estimator"], ESTIMATORS)
    method = settings.get("method", PlanSettings.method)
    _check_name("method", method, METHODS)
    useless = set(OF_A_METHOD) - _takes(method)
    settings = {name: value for name, value in settings.items() if name not in useless}
    plan = PlanSettings.of(settings)
    full = dataclasses.asdict(plan.written_out())
    return RunSpec(kind=PLAN, settings=full, given=settings, device=device, steps=plan.iterations)


def _takes(method: str) -> frozenset[str]:
    from svrl.planning.catalogue import METHODS as CATALOGUE

    return CATALOGUE[method].takes


def _check_name(what: str, got: str, known: Any, most: int = 1) -> None:
    if got not in known:
        raise ValueError(f"There is no {what} {got!r}. {nearest_name(got, known, most=most)}")


def _check_forms(settings: Mapping[str, Any], forms: Mapping[str, type]) -> None:
    """Raise ValueError for the first setting that has not the form it should have."""
    for name, value in settings.items():
        if name in forms and not _is(value, forms[name]):
            got = repr(value) if isinstance(value, str) else str(value)
            raise ValueError(f"{name} is {_WORDS[forms[name]]}, got {got}.")


def _is(value: object, form: type) -> bool:
    """True and false are no numbers, and what is too large for a float is none either."""
    if form is not bool and isinstance(value, bool):
        return False
    return isinstance(value, int | float) and abs(value) <= LARGEST if form is float else isinstance(value, form)


def _device_in(settings: Mapping[str, Any]) -> str:
    """cpu, cuda or cuda:N. Whether the GPU is there is known where the run is done."""
    device = str(settings.get("device", "cpu"))
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"There is no device {device!r}. Use cpu, cuda or cuda:N.")
    return device


def extra_of(spec: RunSpec) -> str:
    """The extra that a run needs, as in svrl[atari]; empty if none."""
    family = family_of(str(spec.settings.get("env", "")))
    return family if family in _NEEDS else ""


def why_not_here(env: str) -> str | None:
    """Why no run can learn in an environment on this machine, in one sentence; None if nothing stands against it.

    One of Gymnasium's is made and closed for it; an id such as "module:Name-v0" is left to its run.
    """
    module, sentence = _NEEDS.get(family_of(env), ("", ""))
    if module:
        return sentence if importlib.util.find_spec(module) is None else None
    if family_of(env) != "gymnasium" or ":" in env:
        return None
    from svrl.envs.make import describe_env

    try:
        describe_env(env)
    except ValueError as error:
        return str(error)
    return None
