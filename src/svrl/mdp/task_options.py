"""A task from options as people write them: a grid as "50x40", a number of actions, one level of noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from svrl.mdp.catalogue import make_task
from svrl.mdp.control_task import ControlTask
from svrl.mdp.three_motor_pendulum import MOTORS
from svrl.mdp.three_motor_pendulum import NAME as THREE_MOTORS

MOST = 2**63
"""Of states or actions: larger numbers may not even fit into a floating-point number."""


def task_with(
    name: str, *, states: str | None = None, actions: int | None = None, noise: float | None = None, **switches: Any
) -> ControlTask:
    """A task by its name, with options; None leaves one to the task.

    Args:
        name: A key of `svrl.mdp.catalogue.TASKS`.
        states: Grid points of each axis, see `grid_shape`.
        actions: Number of actions.
        noise: Standard deviation in rollouts. It goes where the task has some, or else on every coordinate.
        **switches: variant, reward_offset, time_step.

    Raises:
        ValueError: If one is wrong. The sentence begins with its name, states or actions.
    """
    given = {switch: value for switch, value in switches.items() if value is not None}
    if states is not None:
        given["states"] = grid_shape(states, make_task(name).dimensions)
    if actions is not None:
        if not 1 <= actions < MOST:
            raise ValueError(f"actions must be at least 1 and fewer than 2^63, got {actions}.")
        given |= _actions(name, actions)
    task = make_task(name, **given)
    if noise is None:
        return task
    nowhere = max(task.noise) == 0.0
    return replace(task, noise=tuple(noise if nowhere or level > 0.0 else 0.0 for level in task.noise))


def grid_shape(text: str, dimensions: int) -> tuple[int, ...]:
    """Grid points of each axis from "50x40", or from one number, which is their product and a perfect power.

    Raises:
        ValueError: If it is neither, or of another number of axes.
    """
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(f"states must look like {_example(dimensions)} or be one number, got {text!r}.") from None
    if max(sizes) >= MOST:
        raise ValueError(f"states must be fewer than 2^63, got {text!r}.")
    least = 1 if dimensions == 1 else 2
    if len(sizes) == 1 and dimensions > 1 and sizes[0] >= least**dimensions:
        side = round(sizes[0] ** (1.0 / dimensions))
        if side**dimensions != sizes[0]:
            raise ValueError(
                f"states {text} is not the {_power(dimensions)} of a whole number. "
                f"Write the grid points of each axis, as in {_example(dimensions)}."
            )
        sizes = (side,) * dimensions
    if min(sizes) < least:
        raise ValueError(f"states needs at least {least} on every axis, got {text!r}.")
    if len(sizes) != dimensions:
        raise ValueError(
            f"states {text} has {len(sizes)} axes, and the task has {dimensions}, as in {_example(dimensions)}."
        )
    return sizes


def _actions(task: str, count: int) -> dict[str, int]:
    if task != THREE_MOTORS:
        return {"actions": count}
    levels = round(count ** (1.0 / MOTORS))
    if levels**MOTORS != count:
        raise ValueError(
            f"actions of {task} is a cube, one factor for each motor; got {count}. "
            f"Near it are {levels**MOTORS} and {(levels + (1 if levels**MOTORS < count else -1)) ** MOTORS}."
        )
    return {"levels": levels}


def _example(dimensions: int) -> str:
    return "1000" if dimensions == 1 else "x".join(["10" if dimensions > 2 else "50"] * dimensions)


def _power(dimensions: int) -> str:
    return {2: "square", 3: "cube"}.get(dimensions, f"{dimensions}th power")
