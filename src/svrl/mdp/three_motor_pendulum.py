"""The three-motor pendulum: the inverted pendulum under a thousand actions that have no order.

Three motors sit 120 degrees apart and pull with the inputs u_0, u_1, u_2, each one of ten levels
in [-1, 1]. On the pendulum of the paper (appendix B of "Harnessing Structures for Value-Based
Planning and Reinforcement Learning", ICLR 2020) they act as

    torque = sum_i cos(theta - 2 pi i / 3) u_i,        r = exp(cos theta - 1) - 0.05 |u|^2

The task is not in the paper. Neighbouring actions of the list do different things, so nothing is
won by looking at every tenth action, while Q is still nearly of low rank.
"""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.inverted_pendulum import (
    DISCOUNT,
    SPEED_NOISE,
    VARIANTS,
    pendulum_acceleration,
    pendulum_axes,
    upright_reward,
)
from svrl.mdp.metric import UprightNorm
from svrl.mdp.task_parts import Switches, chosen, euler_step, evenly_spaced

NAME = "three-motor-pendulum"
MOTORS = 3


def torque_of(angle: Tensor, inputs: Tensor) -> Tensor:
    """What the motors do together, for angles (...) in rad and inputs (..., 3)."""
    parts = [torch.cos(angle - 2.0 * math.pi * i / MOTORS) * inputs[..., i] for i in range(MOTORS)]
    return parts[0] + parts[1] + parts[2]


def three_motor_pendulum(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    levels: int = 10,
    **switches: Unpack[Switches],
) -> ControlTask:
    """The inverted pendulum with three motors.

    Args:
        variant: Whose pendulum the motors move, "paper" or "authors": its time step and reward offset.
        states: Grid points of angle and angular speed.
        levels: Values of each motor's input, evenly spaced over [-1, 1]; there are levels^3 actions, the last
            motor's input running fastest.
        **switches: See `svrl.mdp.task_parts.Switches`.
    """
    motion = chosen(NAME, variant, VARIANTS).replaced(switches)
    axes = pendulum_axes(NAME, states)

    def accelerations(at: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        return (pendulum_acceleration(at, torque_of(at[..., 0], inputs)),)

    def reward(at: Tensor, inputs: Tensor) -> Tensor:
        return upright_reward(at) - 0.05 * (inputs**2).sum(-1) + motion.reward_offset

    return ControlTask(
        name=NAME,
        axes=axes,
        actions=torch.cartesian_prod(*[evenly_spaced(NAME, -1.0, 1.0, levels)] * MOTORS),
        step=euler_step(accelerations, motion, axes),
        reward=reward,
        gamma=DISCOUNT,
        reward_range=(math.exp(-2.0) - 0.15 + motion.reward_offset, 1.0 + motion.reward_offset),
        noise=(0.0, SPEED_NOISE),
        metric=UprightNorm(),
        label=motion.label(variant),
    )
