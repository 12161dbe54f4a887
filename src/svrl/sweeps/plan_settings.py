"""Everything that decides the result of a plan, written out.

The grid, the actions and the equations are those of the task that the options make, the shares and numbers those of
the method. So an option that is left out and the same option given as its default are one run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from svrl.runs.nearest_name import nearest_name
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.setting_checks import Form, as_float, check_device, check_estimator, check_forms

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
PLAN_FORMS: dict[str, Form] = {
    **dict.fromkeys(("task", "method", "estimator", "variant", "device"), "text"),
    **dict.fromkeys(("rank", "actions", "iterations", "starts"), "whole"),
    **dict.fromkeys(("observe", "reward_offset", "time_step", "noise", "sample_noise", "backup_cost"), "number"),
    **dict.fromkeys(("final_sweep", "compare"), "switch"),
}
"""All but states, which is a text, a whole number or a list of them."""
_OF_A_METHOD = ("observe", "estimator", "rank", "final_sweep")
_OF_A_TASK = ("variant", "reward_offset", "time_step", "noise")
_RANKED = ("factor-als", "hard-impute")


def plan_spec(settings: Mapping[str, Any]) -> RunSpec:
    """The run with these settings, of known names.

    Raises:
        ValueError: If one is wrong, with a sentence that says which.
    """
    from svrl.planning.catalogue import METHODS

    check_forms(settings, PLAN_FORMS)
    device = settings.get("device", "cpu")
    check_device(device)
    if "estimator" in settings:
        check_estimator(settings["estimator"])
    task, method = settings["task"], settings.get("method", PLAN_DEFAULTS["method"])
    _check_name("task", task, ("toy", *_tasks()))
    _check_name("method", method, METHODS)
    useless = set(_OF_A_METHOD) - METHODS[method].takes
    settings = {name: value for name, value in settings.items() if name not in useless}
    chosen = {name: settings.get(name, default) for name, default in PLAN_DEFAULTS.items()}
    chosen |= {
        name: as_float(chosen[name])
        for name, form in PLAN_FORMS.items()
        if form == "number" and chosen.get(name) is not None
    }
    full = {
        "task": task,
        "seed": settings["seed"],
        "device": device.partition(":")[0],  # which card it is changes nothing
        **chosen,
        **_of_the_task(task, chosen),
        **_of_the_method(method, chosen),
    }
    return RunSpec(kind="plan", settings=settings, full=full, steps=chosen["iterations"])


def grid_in_one_form(task: str, states: Any) -> Any:
    """A grid as "50x50", from the same, "2500", 2500 or [50, 50]; what is no grid of the task stays as it is."""
    try:
        return _grid(task, states)
    except ValueError:
        return states


def _grid(task: str, states: Any) -> str:
    from svrl.mdp.task_options import grid_shape

    dimensions = 1 if task == "toy" else _task(task).dimensions
    return "x".join(str(points) for points in grid_shape(_as_text(states), dimensions))


def _as_text(states: Any) -> str:
    return "x".join(str(points) for points in states) if isinstance(states, list | tuple) else str(states)


def _of_the_task(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Grid, actions and equations of the task that these options make."""
    states = None if chosen["states"] is None else _grid(name, chosen["states"])
    if name == "toy":
        from svrl.mdp.toy import toy_mdp

        own = inspect.signature(toy_mdp).parameters
        actions = own["n_actions"].default if chosen["actions"] is None else chosen["actions"]
        return {"states": str(own["n_states"].default) if states is None else states, "actions": actions}
    task = _task(name, states=states, actions=chosen["actions"], **{one: chosen[one] for one in _OF_A_TASK})
    level = max(task.noise)
    return {
        "states": "x".join(str(points) for points in task.shape),
        "actions": task.n_actions,
        "variant": task.label["variant"],
        "reward_offset": as_float(task.label["reward_offset"]),
        "time_step": as_float(task.label["time_step"]),
        "noise": as_float(level) if set(task.noise) <= {0.0, level} else chosen["noise"],
    }


def _of_the_method(name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Shares and numbers of the method that these options make."""
    from svrl.planning.catalogue import IN_THE_LOOP, METHODS, make_method, most_iterations

    noisy = chosen["sample_noise"] is not None
    method: Any = make_method(
        name,
        **{option: chosen[option] for option in _OF_A_METHOD},
        iterations=most_iterations(name, chosen["iterations"], noisy=noisy),
    )
    takes = METHODS[name].takes
    full: dict[str, Any] = {"iterations": method.max_iterations}
    # Beside a method that plans from samples, baselines observe what was given, and each its own share if nothing was.
    if "observe" in takes and not (noisy and chosen["compare"]):
        full["observe"] = as_float(method.observe)
    if "final_sweep" in takes:
        full["final_sweep"] = method.final_sweep
    if "estimator" in takes:
        rank = getattr(method.estimator, "rank", None) if "rank" in takes else None
        same = [one for one, make in IN_THE_LOOP.items() if make(rank) == method.estimator]
        full["estimator"] = same[0] if same else chosen["estimator"]
        if "rank" in takes and full["estimator"] in _RANKED:
            full["rank"] = rank
    elif "rank" in takes:
        full["rank"] = method.rank
    return full


@functools.lru_cache(maxsize=256)
def _task(name: str, **options: Any) -> Any:
    """One that was made before is taken again: a sweep has many runs of each."""
    from svrl.mdp.task_options import task_with

    return task_with(name, **options)


def _tasks() -> tuple[str, ...]:
    from svrl.mdp.catalogue import TASKS

    return tuple(TASKS)


def _check_name(what: str, got: str, known: Any) -> None:
    if got not in known:
        raise ValueError(f"There is no {what} {got!r}. {nearest_name(got, known)}")
