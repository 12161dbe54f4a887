"""From what a sweep says about a run to everything that decides its result.

Options that a run has no use for are left out: structure's of a plain agent, those that a method does not take. So
the plain arm of a grid over p is one run, not one for every p.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from svrl.agents.config import BY_FAMILY, AgentConfig, default_precision, family_of
from svrl.sweeps.run_spec import SUBJECT, Kind, RunSpec

OF_THE_MACHINE = ("device", "precision")
"""Settings of a training beside the fields of AgentConfig. Threads are resources: `cores`."""
PLAN_DEFAULTS: dict[str, Any] = {
    "method": "svp",
    "estimator": None,
    "observe": None,
    "rank": None,
    "states": None,
    "actions": None,
    "variant": None,
    "reward_offset": None,
    "time_step": None,
    "noise": None,
    "sample_noise": None,
    "iterations": None,
    "final_sweep": None,
    "compare": False,
    "backup_cost": None,
    "starts": 1000,
}
"""Options of svrl plan that decide a result, as its command line has them."""
_FIELDS = [entry.name for entry in dataclasses.fields(AgentConfig)]
STRUCTURE = frozenset(_FIELDS[_FIELDS.index("structured") + 1 : _FIELDS.index("discount")])
"""Fields that only structured agents have a use for."""
OTHER_NAMES = {"p": "observe"}


def known_settings(kind: Kind) -> list[str]:
    """Names that a sweep may set, beside `arm` and `seeds`, which stand for others."""
    own = [*_FIELDS, *OF_THE_MACHINE] if kind == "train" else [*PLAN_DEFAULTS, "device"]
    return [SUBJECT[kind], "seed", *own]


def spec_of(kind: Kind, given: Mapping[str, Any]) -> RunSpec:
    """The run with these settings.

    Raises:
        ValueError: If one is wrong, with a sentence that says which.
    """
    settings = {OTHER_NAMES.get(name, name): value for name, value in given.items()}
    settings = _without_arm(settings) if kind == "train" else settings
    _refuse_unknown(kind, settings)
    subject, seed = settings.get(SUBJECT[kind]), settings.get("seed", 0)
    if not isinstance(subject, str):
        raise ValueError(f"every run needs {SUBJECT[kind]}, as a text; got {subject!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed is a whole number from 0 to 2^63 - 1, got {seed!r}.")
    settings = {**settings, "seed": seed}
    return _training(settings) if kind == "train" else _plan(settings)


def _training(settings: dict[str, Any]) -> RunSpec:
    if isinstance(settings.get("hidden"), str):
        settings["hidden"] = [int(width) for width in settings["hidden"].replace(",", "x").split("x")]
    if not settings.get("structured", False):
        settings = {name: value for name, value in settings.items() if name not in STRUCTURE}
    env = settings["env"]
    _check_env(env)
    changes = {name: value for name, value in settings.items() if name in _FIELDS and name != "preset"}
    config = AgentConfig.for_env(env, settings.get("preset", BY_FAMILY[family_of(env)]), **changes)
    device = str(settings.get("device", "cpu"))
    full = {
        "env": env,
        "seed": settings["seed"],
        "device": device.partition(":")[0],  # which card it is changes nothing
        "precision": settings.get("precision", default_precision(device)),
        **{name: value for name, value in config.as_json().items() if name != "preset"},
    }
    return RunSpec(kind="train", settings=settings, full=full, steps=config.steps)


def _plan(settings: dict[str, Any]) -> RunSpec:
    from svrl.mdp.catalogue import TASKS
    from svrl.planning.catalogue import METHODS

    task, method = settings["task"], settings.get("method", PLAN_DEFAULTS["method"])
    for what, got, known in (("task", task, ("toy", *TASKS)), ("method", method, METHODS)):
        if got not in known:
            raise ValueError(f"There is no {what} {got!r}. {_nearest(str(got), known)}")
    useless = {"observe", "estimator", "rank", "final_sweep"} - METHODS[method].takes
    settings = {name: value for name, value in settings.items() if name not in useless}
    chosen = {name: settings.get(name, default) for name, default in PLAN_DEFAULTS.items()}
    device = str(settings.get("device", "cpu")).partition(":")[0]
    full = {"task": task, "seed": settings["seed"], "device": device, **chosen}
    return RunSpec(kind="plan", settings=settings, full=full, steps=chosen["iterations"])


def _without_arm(settings: dict[str, Any]) -> dict[str, Any]:
    """With agent and structured in place of an arm such as sv-dqn."""
    if "arm" not in settings:
        return settings
    for name in ("agent", "structured"):
        if name in settings:
            raise ValueError(f"arm stands for agent and structured, so {name} has no place beside it.")
    arm = str(settings["arm"])
    rest = {name: value for name, value in settings.items() if name != "arm"}
    return {**rest, "agent": arm.removeprefix("sv-"), "structured": arm.startswith("sv-")}


def _refuse_unknown(kind: Kind, settings: Mapping[str, Any]) -> None:
    known = known_settings(kind)
    for name in settings:
        if name == "threads":
            raise ValueError("threads are resources of a run: set cores in [resources].")
        if name not in known:
            raise ValueError(f"svrl {kind} has no option {name!r}. {_nearest(name, known)}")


def _check_env(env: str) -> None:
    """Names of our families are known; Gymnasium's are only when it is asked."""
    known = _known()
    if family_of(env) != "gymnasium" and env not in known:
        raise ValueError(f"There is no environment {env!r}. {_nearest(env, known)}")


@functools.cache
def _known() -> frozenset[str]:
    from svrl.envs.catalogue import known_environments

    return frozenset(known_environments())


def _nearest(got: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(got, names, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(names)}."
