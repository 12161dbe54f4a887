"""The control tasks by the names that the command line and run directories use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from svrl.mdp.cart_pole import cart_pole
from svrl.mdp.control_task import ControlTask
from svrl.mdp.double_integrator import double_integrator
from svrl.mdp.inverted_pendulum import inverted_pendulum
from svrl.mdp.mountain_car import mountain_car
from svrl.mdp.task_parts import Switches, unknown
from svrl.mdp.three_motor_pendulum import MOTORS, three_motor_pendulum

TASKS: dict[str, Callable[..., ControlTask]] = {
    "inverted-pendulum": inverted_pendulum,
    "mountain-car": mountain_car,
    "double-integrator": double_integrator,
    "cart-pole": cart_pole,
    "three-motor-pendulum": three_motor_pendulum,
}


MOST = 2**63
"""Of actions: larger numbers may not even fit into a floating-point number."""


def make_task(name: str, *, actions: int | None = None, noise: float | None = None, **switches: Any) -> ControlTask:
    """Build a task by its name; what is None is left to the task.

    Args:
        name: A key of `TASKS`.
        actions: Number of actions. The three-motor pendulum has a cube of them, its `levels` times itself twice.
        noise: Standard deviation in rollouts. It goes where the task has some, or else on every coordinate.
        **switches: Further arguments of the task's function: variant, states, time_step and so on.

    Raises:
        ValueError: With the nearest right name, if there is no such task, variant or switch.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise unknown("The catalogue", "task", name, TASKS)
    known = [*inspect.signature(TASKS[name]).parameters, *Switches.__annotations__]
    given = {switch: value for switch, value in switches.items() if value is not None}
    for switch in given:
        if switch not in known:
            raise unknown(name, "switch", switch, known)
    if actions is not None:
        if isinstance(actions, int) and not 1 <= actions < MOST:
            raise ValueError(f"actions must be at least 1 and fewer than 2^63, got {actions}.")
        given |= {"actions": actions} if "actions" in known else {"levels": _levels(name, actions)}
    task = TASKS[name](**given)
    if noise is None:
        return task
    nowhere = max(task.noise) == 0.0
    return replace(task, noise=tuple(noise if nowhere or level > 0.0 else 0.0 for level in task.noise))


def _levels(task: str, actions: int) -> int:
    """Levels of each motor for so many actions."""
    levels = round(actions ** (1.0 / MOTORS))
    if levels**MOTORS != actions:
        other = levels + (1 if levels**MOTORS < actions else -1)
        raise ValueError(
            f"actions of {task} is a cube, one factor for each motor; got {actions}. "
            f"Near it are {levels**MOTORS} and {other**MOTORS}."
        )
    return levels
