"""From what a sweep says about a run to everything that decides its result.

Options that a run has no use for are left out: structure's of a plain agent, those that a method does not take. So
the plain arm of a grid over p is one run, not one for every p.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from svrl.agents.config import BY_FAMILY, CHOICES, AgentConfig, default_precision, family_of
from svrl.agents.foreign_names import FOREIGN_NAMES
from svrl.runs.nearest_name import nearest_name
from svrl.sweeps.plan_settings import PLAN_DEFAULTS, grid_in_one_form, plan_spec
from svrl.sweeps.run_spec import SUBJECT, Kind, RunSpec
from svrl.sweeps.setting_checks import as_float, check_device, check_estimator, check_forms, check_precision

OF_THE_MACHINE = ("device", "precision")
"""Settings of a training beside the fields of AgentConfig. Threads are resources: `cores`."""
_FIELDS = [entry.name for entry in dataclasses.fields(AgentConfig)]
_FLOATS = frozenset(entry.name for entry in dataclasses.fields(AgentConfig) if isinstance(entry.default, float))
STRUCTURE = frozenset(_FIELDS[_FIELDS.index("structured") + 1 : _FIELDS.index("discount")])
"""Fields that only structured agents have a use for."""
OTHER_NAMES = {"p": "observe"}
PLAIN_ARMS = CHOICES["agent"]
ARMS = (*PLAIN_ARMS, *(f"sv-{agent}" for agent in PLAIN_ARMS))
"""What `arm` may be: an agent, plain or structured."""


def known_settings(kind: Kind) -> list[str]:
    """Names that a sweep may set, beside `arm` and `seeds`, which stand for others."""
    own = [*_FIELDS, *OF_THE_MACHINE] if kind == "train" else [*PLAN_DEFAULTS, "device"]
    return [SUBJECT[kind], "seed", *own]


def spec_of(kind: Kind, given: Mapping[str, Any]) -> RunSpec:
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
    return _training(settings) if kind == "train" else plan_spec(settings)


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
    if name == "preset" and spec.kind == "train":
        return spec.settings.get(name, BY_FAMILY[family_of(spec.subject)])
    return spec.full[name] if name in spec.full else spec.settings[name]


def names_in(spec: RunSpec) -> list[str]:
    """Names that `value_in` knows, the most telling ones first."""
    first = [SUBJECT[spec.kind], "arm", "seed"]
    return list(dict.fromkeys([*first, *spec.settings, *spec.full, *(["preset"] if spec.kind == "train" else [])]))


def in_one_form(spec: RunSpec, name: str, value: Any) -> Any:
    """A value to compare with that of a run: grids and widths can be written in several ways."""
    if name == "states" and spec.kind == "plan" and value is not None:
        return grid_in_one_form(spec.subject, value)
    if name == "hidden" and isinstance(value, str) and "*" not in value:
        return _widths(value)
    if name == "hidden" and isinstance(value, int):
        return [value]
    return value


def _training(settings: dict[str, Any]) -> RunSpec:
    check_forms(settings, dict.fromkeys(("preset", "agent", "estimator", *OF_THE_MACHINE), "text"))
    check_forms(settings, dict.fromkeys(_FLOATS, "number"))
    env, device = settings["env"], settings.get("device", "cpu")
    precision = settings.get("precision", default_precision(device))
    _check_env(env)
    check_device(device)
    check_precision(precision, device)
    if "estimator" in settings:
        check_estimator(settings["estimator"])
    if isinstance(settings.get("hidden"), str):
        settings["hidden"] = _widths(settings["hidden"])
    config = _config(settings)  # with what a plain agent has no use for, which may be wrong nevertheless
    if not config.structured:
        settings = {name: value for name, value in settings.items() if name not in STRUCTURE}
        config = _config(settings)
    if settings.get("actions") == 0:  # as if it were not given
        settings = {name: value for name, value in settings.items() if name != "actions"}
    full = {
        "env": env,
        "seed": settings["seed"],
        "device": device.partition(":")[0],  # which card it is changes nothing
        "precision": precision,
        **{
            name: as_float(value) if name in _FLOATS else value
            for name, value in config.as_json().items()
            if name != "preset"
        },
        "actions": config.actions or _own_actions(env),
    }
    return RunSpec(kind="train", settings=settings, full=full, steps=config.steps)


def _config(settings: Mapping[str, Any]) -> AgentConfig:
    env = settings["env"]
    changes = {name: value for name, value in settings.items() if name in _FIELDS and name != "preset"}
    return AgentConfig.for_env(env, settings.get("preset", BY_FAMILY[family_of(env)]), **changes)


def _widths(text: str) -> list[int]:
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
    check_forms(settings, {"arm": "text"})
    arm = settings["arm"]
    if arm not in ARMS:
        raise ValueError(f"There is no arm {arm!r}. {nearest_name(arm, ARMS, most=2)}")
    rest = {name: value for name, value in settings.items() if name != "arm"}
    return {**rest, "agent": arm.removeprefix("sv-"), "structured": arm.startswith("sv-")}


def _refuse_unknown(kind: Kind, settings: Mapping[str, Any]) -> None:
    known = known_settings(kind)
    for name in settings:
        if name == "threads":
            raise ValueError("threads are resources of a run: set cores in [resources].")
        if name not in known:
            if name == "seeds":
                raise ValueError("seeds is an axis: change it in the file, or take some of them by --where seed=0,1.")
            raise ValueError(f"svrl {kind} has no option {name!r}. {nearest_name(name, known, synonyms=FOREIGN_NAMES)}")


def _check_env(env: str) -> None:
    """Names of our families are known; Gymnasium is asked before runs begin, see `check_registered`."""
    known = _known()
    if family_of(env) != "gymnasium" and env not in known:
        raise ValueError(f"There is no environment {env!r}. {nearest_name(env, known)}")


@functools.cache
def _own_actions(env: str) -> int:
    """How many a control task has by itself; 0 for other environments, where their number cannot be set."""
    if family_of(env) != "control":
        return 0
    from svrl.mdp.catalogue import make_task

    return make_task(env.partition("/")[2]).n_actions


@functools.cache
def _known() -> frozenset[str]:
    from svrl.envs.catalogue import known_environments

    return frozenset(known_environments())
