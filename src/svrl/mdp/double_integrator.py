"""The double integrator: push a brick on ice to rest at the origin.

The state is the position x and the speed v, both in [-3, 3]; the input u in [-1, 1] is a force on a
unit mass:

    x' = x + v tau,        v' = v + u tau,        r = -(x^2 + v^2) / 2

Source: appendix B of "Harnessing Structures for Value-Based Planning and Reinforcement Learning",
ICLR 2020, with tau = 0.1; the authors' program agrees. Its metric is the time to reach the origin,
which the authors test by x == 0, and that never happens. Here the goal is |x| <= 0.1 and |v| <= 0.1.
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.metric import TimeToGoal
from svrl.mdp.task_parts import Motion, Switches, chosen, euler_step, evenly_spaced, grid_axes, whatever_the_input

NAME = "double-integrator"
NEAR = 0.1
VARIANTS = {"paper": Motion(time_step=0.1), "authors": Motion(time_step=0.1)}


def at_rest(states: Tensor) -> Tensor:
    """Whether |x| and |v| are at most 0.1, for states (..., 2)."""
    return (states.abs() <= NEAR).all(-1)


def double_integrator(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    **switches: Unpack[Switches],
) -> ControlTask:
    """The paper's double integrator.

    Args:
        variant: "paper" or "authors", which are the same here.
        states: Grid points of position and speed.
        actions: Forces, evenly spaced over [-1, 1].
        **switches: See `svrl.mdp.task_parts.Switches`.
    """
    motion = chosen(NAME, variant, VARIANTS).replaced(switches)
    axes = grid_axes(NAME, states, ("position (m)", -3.0, 3.0), ("speed (m/s)", -3.0, 3.0))

    def accelerations(at: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        return (inputs[..., 0],)

    def reward(at: Tensor, inputs: Tensor) -> Tensor:
        return whatever_the_input(motion.reward_offset - 0.5 * (at**2).sum(-1), inputs)

    return ControlTask(
        name=NAME,
        axes=axes,
        actions=evenly_spaced(NAME, -1.0, 1.0, actions)[:, None],
        step=euler_step(accelerations, motion, axes),
        reward=reward,
        gamma=0.95,
        reward_range=(-9.0 + motion.reward_offset, 0.0 + motion.reward_offset),
        noise=(0.0, 0.0),
        metric=TimeToGoal(inside=at_rest),
        label=motion.label(variant),
    )
