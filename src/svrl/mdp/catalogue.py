"""The control tasks by the names that the command line and run directories use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from svrl.mdp.cart_pole import cart_pole
from svrl.mdp.control_task import ControlTask
from svrl.mdp.double_integrator import double_integrator
from svrl.mdp.inverted_pendulum import inverted_pendulum
from svrl.mdp.mountain_car import mountain_car
from svrl.mdp.task_parts import unknown
from svrl.mdp.three_motor_pendulum import three_motor_pendulum

TASKS: dict[str, Callable[..., ControlTask]] = {
    "inverted-pendulum": inverted_pendulum,
    "mountain-car": mountain_car,
    "double-integrator": double_integrator,
    "cart-pole": cart_pole,
    "three-motor-pendulum": three_motor_pendulum,
}


def make_task(name: str, **switches: Any) -> ControlTask:
    """Build a task by its name.

    Args:
        name: A key of `TASKS`.
        **switches: Arguments of the task's function: variant, states, actions and so on.

    Raises:
        ValueError: With the nearest right name, if there is no such task, variant or switch.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise unknown("The catalogue", "task", name, TASKS)
    known = inspect.signature(TASKS[name]).parameters
    for switch in switches:
        if switch not in known:
            raise unknown(name, "switch", switch, known)
    return TASKS[name](**switches)
