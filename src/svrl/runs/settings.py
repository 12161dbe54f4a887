"""From what a sweep says about a run to everything that decides its result, checked before any run begins.

Options that a run has no use for are left out: structure's of a plain agent, those that a method does not take. So
the plain arm of a grid over p is one run, not one for every p. The grid, the actions and the equations of a plan are
those of the task that its options make, the shares and numbers those of its method. So an option that is left out and
the same option given as its default are one run.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from svrl.agents.config import ARMS, FIELD_ALIASES, PRECISIONS, PRESETS, AgentConfig, family_of
from svrl.runs.plan_run import ESTIMATORS, METHODS, OF_A_METHOD, PLAN, PlanSettings
from svrl.runs.spec import SUBJECT, RunSpec
from svrl.runs.train_run import STRUCTURE, training
from svrl.runtime.names import nearest_name

_NEEDS = {
    "atari": ("ale_py", 'Atari needs ale-py, which is not installed. Run: pip install "svrl[atari]".'),
    "minatar": ("minatar", 'MinAtar needs minatar, which is not installed. Run: pip install "svrl[minatar]".'),
}
"""Families of environments whose package is an extra: the module, and what to say where it is missing."""
_FIELDS = [entry.name for entry in dataclasses.fields(AgentConfig)]
_KNOWN = {
    "train": ["env", "seed", "arm", *_FIELDS, "device", "precision"],
    "plan": [*(entry.name for entry in dataclasses.fields(PlanSettings)), "device"],
}
"""Names that a sweep may set, of runs of each kind. Threads are resources: `cores`."""


def spec_of(kind: str, given: Mapping[str, Any]) -> RunSpec:
    """The run with these settings.

    Raises:
        ValueError: If one is wrong, with a sentence that says which.
    """
    settings = {"seed": 0, **given}
    for name in settings:
        if name == "threads":
            raise ValueError("threads are resources of a run: set cores in [resources].")
        if name == "seeds":
            raise ValueError("seeds is an axis: change it in the file, or take some of them by --where seed=0,1.")
        if name not in _KNOWN[kind]:
            hint = nearest_name(name, _KNOWN[kind], synonyms=FIELD_ALIASES)
            raise ValueError(f"svrl {kind} has no option {name!r}. {hint}")
    subject, seed, device = settings.get(SUBJECT[kind]), settings["seed"], settings.get("device", "cpu")
    if not isinstance(subject, str):
        raise ValueError(f"Every run needs {'an env' if kind == 'train' else 'a task'}, a text; got {subject!r}.")
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"seed is a whole number from 0 to 2^63 - 1, got {seed!r}.")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(device)):  # whether the GPU is there is known where the run is done
        raise ValueError(f"There is no device {device!r}. Use cpu, cuda or cuda:N.")
    return (_training if kind == "train" else _planning)(settings, device)


def settings_in(spec: RunSpec) -> dict[str, Any]:
    """All settings of a run, the most telling ones first, with its arm and those of the runs that it comes after."""
    found: dict[str, Any] = {"arm": spec.arm}
    for settings in (spec.settings, spec.given, *(run.settings for run in spec.after), {"device": spec.device}):
        found |= {name: value for name, value in settings.items() if name not in found}
    first = (SUBJECT.get(spec.kind.name), "arm", "seed", *spec.given)
    return {name: found[name] for name in dict.fromkeys([*first, *found]) if name in found}


def in_one_form(spec: RunSpec, name: str, value: Any) -> Any:
    """A value as a run has it: grids and widths can be written in several ways."""
    if name == "states" and spec.kind == PLAN and value is not None:
        with suppress(ValueError):  # what is no grid of the task stays as it is
            return PlanSettings.of({"task": spec.subject, "states": value}).written_out().states
    if name in ("hidden", "bins") and isinstance(value, int):
        return [value]
    listed = name in ("hidden", "bins") and isinstance(value, str) and "*" not in value
    return widths(value, name) if listed else value


def _training(settings: dict[str, Any], device: str) -> RunSpec:
    settings = _without_arm(settings)
    env, precision = settings["env"], settings.get("precision")
    if family_of(env) != "gymnasium":  # which is asked before runs begin, see `why_not_here`
        _check_name("environment", env, _environments())
    for name, known in (("preset", PRESETS), ("precision", PRECISIONS), ("estimator", ESTIMATORS)):
        if name in settings:
            _check_name(name, settings[name], known)
    if precision not in (None, "float32") and device == "cpu":
        raise ValueError(f"precision {precision} needs a CUDA device, and the device is cpu. Take float32.")
    for name in ("hidden", "bins"):
        if isinstance(settings.get(name), str):
            settings[name] = widths(settings[name], name)
    changes = {name: value for name, value in settings.items() if name in _FIELDS and name != "preset"}
    config = AgentConfig.for_env(env, settings.get("preset"), **changes)
    useless = frozenset() if config.structured else STRUCTURE
    useless |= {"actions"} if settings.get("actions") == 0 else frozenset()  # as if it were not given
    settings = {name: value for name, value in settings.items() if name not in useless}
    return training(env, config, seed=settings["seed"], precision=precision, device=device, given=settings)


EXAMPLES = {"hidden": "128x128", "bins": "3,5"}
"""How lists of numbers are written."""


def widths(text: str, name: str = "hidden") -> list[int]:
    """Widths of layers from "128x128" or "128,128", or other whole numbers that are written so."""
    try:
        return [int(part) for part in text.lower().replace(",", "x").split("x")]
    except ValueError:
        raise ValueError(f"{name} must look like {EXAMPLES[name]}, got {text!r}.") from None


def _without_arm(settings: dict[str, Any]) -> dict[str, Any]:
    """With the agent in place of an arm such as sv-dqn."""
    if "arm" not in settings:
        return settings
    for name in ("agent", "structured"):
        if name in settings:
            raise ValueError(f"arm stands for agent and structured, so {name} has no place beside it.")
    arm = settings["arm"]
    _check_name("arm", arm, ARMS, most=2)
    rest = {name: value for name, value in settings.items() if name != "arm"}
    return {**rest, "agent": arm}


@functools.cache
def _environments() -> frozenset[str]:
    from svrl.envs.make import known_environments

    return frozenset(known_environments())


def _planning(settings: Mapping[str, Any], device: str) -> RunSpec:
    from svrl.planning.catalogue import METHODS as CATALOGUE

    method = settings.get("method", PlanSettings.method)
    _check_name("method", method, METHODS)
    useless = set(OF_A_METHOD) - CATALOGUE[method].takes
    settings = {name: value for name, value in settings.items() if name not in useless}
    plan = PlanSettings.of(settings)
    full = dataclasses.asdict(plan.written_out())
    return RunSpec(kind=PLAN, settings=full, given=settings, device=device, steps=plan.iterations)


def _check_name(what: str, got: Any, known: Any, most: int = 1) -> None:
    if not isinstance(got, str):
        raise ValueError(f"{what} is a text, got {got!r}.")
    if got not in known:
        raise ValueError(f"There is no {what} {got!r}. {nearest_name(got, known, most=most)}")


def extra_of(spec: RunSpec) -> str:
    """The extra that a run needs, as in svrl[atari]; empty if none."""
    family = family_of(str(spec.settings.get("env", "")))
    return family if family in _NEEDS else ""


def why_not_here(env: str, bins: Sequence[int] = ()) -> str | None:
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
        describe_env(env, bins=bins)
    except ValueError as error:
        return str(error)
    return None
