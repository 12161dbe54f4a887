"""Cart-pole: balance a pole by pushing the cart it stands on.

The state is the pole's angle theta (rad, 0 upright) and angular speed w, and the cart's position x
and speed; the input u in [-10, 10] is a force in newtons. With g = 9.8, cart 1 kg, pole m = 0.1 kg
of half-length l = 0.5 m, and M = 1.1 kg for both together:

    theta'' = (g sin theta - cos theta (u + m l w^2 sin theta) / M) / (l (4/3 - m cos^2 theta / M))
    x''     = (u + m l (w^2 sin theta - theta'' cos theta)) / M
    r       = cos^4(15 theta)

stepped by Euler with tau = 0.1 s, every coordinate from the old state. The box stops all four
coordinates at its edges; the angle is not periodic. Source: appendix B of "Harnessing Structures for
Value-Based Planning and Reinforcement Learning", ICLR 2020; the authors' program agrees.

The reward has further maxima every 12 degrees, and about half of the starts in the box cannot be
saved by any policy: read the share of upright starts beside the norm of the angle.
"""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.metric import UprightNorm
from svrl.mdp.task_parts import Motion, Switches, chosen, euler_step, evenly_spaced, grid_axes, whatever_the_input

NAME = "cart-pole"
GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
VARIANTS = {"paper": Motion(time_step=0.1), "authors": Motion(time_step=0.1)}


def cart_pole_accelerations(states: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Of the angle (rad/s^2) and of the cart (m/s^2), for states (..., 4) and forces (..., 1)."""
    sine, cosine = torch.sin(states[..., 0]), torch.cos(states[..., 0])
    swing = POLE_MASS * HALF_LENGTH * states[..., 1] ** 2 * sine
    pushed = (inputs[..., 0] + swing) / TOTAL_MASS
    turning = (GRAVITY * sine - pushed * cosine) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS))
    return turning, pushed - POLE_MASS * HALF_LENGTH * turning * cosine / TOTAL_MASS


def cart_pole(
    *,
    variant: str = "paper",
    states: tuple[int, int, int, int] = (10, 10, 10, 10),
    actions: int = 1000,
    **switches: Unpack[Switches],
) -> ControlTask:
    """The paper's cart-pole.

    Args:
        variant: "paper" or "authors", which are the same here.
        states: Grid points of angle, angular speed, position and speed.
        actions: Forces, evenly spaced over [-10, 10].
        **switches: See `svrl.mdp.task_parts.Switches`.
    """
    motion = chosen(NAME, variant, VARIANTS).replaced(switches)
    axes = grid_axes(
        NAME,
        states,
        ("angle (rad)", -math.pi / 2, math.pi / 2),
        ("angular speed (rad/s)", -3.0, 3.0),
        ("position (m)", -2.4, 2.4),
        ("speed (m/s)", -3.5, 3.5),
    )

    def reward(at: Tensor, inputs: Tensor) -> Tensor:
        return whatever_the_input(torch.cos(15.0 * at[..., 0]) ** 4 + motion.reward_offset, inputs)

    return ControlTask(
        name=NAME,
        axes=axes,
        actions=evenly_spaced(NAME, -10.0, 10.0, actions)[:, None],
        step=euler_step(cart_pole_accelerations, motion, axes),
        reward=reward,
        gamma=0.95,
        reward_range=(0.0 + motion.reward_offset, 1.0 + motion.reward_offset),
        noise=(0.0, 0.0, 0.0, 0.0),
        metric=UprightNorm(),
        label=motion.label(variant),
    )
