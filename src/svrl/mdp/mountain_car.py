"""Mountain car: an engine too weak for the hill must swing the car up.

The state is the position x and the speed v per step; the input u in [-1, 1] is the throttle:

    v' = v - 0.0025 cos(3 x) + 0.001 u,        x' = x + v  (or v', see below)
    r  = 10 where x >= 0.5, else -1

of the current state; the goal does not end an episode. Source: appendix B of "Harnessing Structures
for Value-Based Planning and Reinforcement Learning", ICLR 2020. Its equations, as printed, move x by
the old speed; it prints the two boxes swapped, and means x in [-1.2, 0.6] and v in [-0.07, 0.07].
The authors' program updates and clips the speed first, moves x by the new speed, and ends the box at
x = 0.5, so that the goal is the last grid line.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from svrl.matrix.parameters import as_number
from svrl.mdp.control_task import ControlTask
from svrl.mdp.metric import TimeToGoal
from svrl.mdp.task_parts import Motion, Switches, chosen, euler_step, evenly_spaced, grid_axes, whatever_the_input

NAME = "mountain-car"
GOAL = 0.5
ROUNDING = 1e-9
"""A grid line at the goal may come out a little below it."""
VARIANTS = {
    "paper": (Motion(time_step=1.0), 0.6),
    "authors": (Motion(time_step=1.0, update_order="speed-first"), 0.5),
}


def at_goal(states: Tensor) -> Tensor:
    """Whether x >= 0.5, for states (..., 2)."""
    return states[..., 0] >= GOAL - ROUNDING


def mountain_car(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    x_max: float | None = None,
    **switches: Unpack[Switches],
) -> ControlTask:
    """The paper's mountain car.

    Args:
        variant: "paper" or "authors".
        states: Grid points of position and speed.
        actions: Throttles, evenly spaced over [-1, 1].
        x_max: Right end of the box, at least 0.5, where the goal begins.
        **switches: See `svrl.mdp.task_parts.Switches`.
    """
    motion, right_end = chosen(NAME, variant, VARIANTS)
    motion = motion.replaced(switches)
    right_end = right_end if x_max is None else x_max
    if not as_number(right_end) >= GOAL:
        raise ValueError(f"{NAME} needs x_max of at least {GOAL}, where the goal begins, got {x_max!r}.")
    axes = grid_axes(NAME, states, ("position", -1.2, right_end), ("speed", -0.07, 0.07))

    def accelerations(at: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        return (0.001 * inputs[..., 0] - 0.0025 * torch.cos(3.0 * at[..., 0]),)

    def reward(at: Tensor, inputs: Tensor) -> Tensor:
        paid = torch.where(at_goal(at), 10.0, -1.0).to(at.dtype) + motion.reward_offset
        return whatever_the_input(paid, inputs)

    return ControlTask(
        name=NAME,
        axes=axes,
        actions=evenly_spaced(NAME, -1.0, 1.0, actions)[:, None],
        step=euler_step(accelerations, motion, axes),
        reward=reward,
        gamma=0.95,
        reward_range=(-1.0 + motion.reward_offset, 10.0 + motion.reward_offset),
        noise=(0.0, 0.0),
        metric=TimeToGoal(inside=at_goal),
        label=motion.label(variant, x_max=right_end),
    )
