"""The inverted pendulum: keep it upright with a torque too weak to lift it in one go.

The state is the angle theta (rad, 0 upright, periodic) and the angular speed w (rad/s); the input
u in [-1, 1] is a torque. One step is

    theta' = theta + w tau,        w' = w + (sin theta - w + u) tau
    r      = exp(cos theta - 1) - 0.1 u^2

Source: appendix B of "Harnessing Structures for Value-Based Planning and Reinforcement Learning",
ICLR 2020. The paper has tau = 0.3. The authors' program has tau = pi / 10 and a reward smaller by 1.
Both simulate with noise of half a degree on the angular speed, which planning does not know of.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Unpack

import torch
from torch import Tensor

from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.metric import UprightNorm
from svrl.mdp.task_parts import Motion, Switches, chosen, euler_step, evenly_spaced, grid_axes

NAME = "inverted-pendulum"
DISCOUNT = 0.95
SPEED_NOISE = math.radians(0.5)
VARIANTS = {
    "paper": Motion(time_step=0.3),
    "authors": Motion(time_step=math.pi / 10, reward_offset=-1.0),
}


def pendulum_axes(task: str, states: tuple[int, int]) -> tuple[Axis, ...]:
    """Angle and angular speed; the angle is periodic."""
    angle, speed = grid_axes(task, states, ("angle (rad)", -math.pi, math.pi), ("angular speed (rad/s)", -10.0, 10.0))
    return dataclasses.replace(angle, periodic=True), speed


def pendulum_acceleration(states: Tensor, torque: Tensor) -> Tensor:
    """sin theta - w + torque, for states (..., 2) and torques (...)."""
    return torch.sin(states[..., 0]) - states[..., 1] + torque


def upright_reward(states: Tensor) -> Tensor:
    """exp(cos theta - 1), for states (..., 2)."""
    return torch.exp(torch.cos(states[..., 0]) - 1.0)


def inverted_pendulum(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    **switches: Unpack[Switches],
) -> ControlTask:
    """The paper's inverted pendulum.

    Args:
        variant: "paper" or "authors".
        states: Grid points of angle and angular speed.
        actions: Torques, evenly spaced over [-1, 1].
        **switches: See `svrl.mdp.task_parts.Switches`.
    """
    motion = chosen(NAME, variant, VARIANTS).replaced(switches)
    axes = pendulum_axes(NAME, states)

    def accelerations(at: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        return (pendulum_acceleration(at, inputs[..., 0]),)

    def reward(at: Tensor, inputs: Tensor) -> Tensor:
        return upright_reward(at) - 0.1 * inputs[..., 0] ** 2 + motion.reward_offset

    return ControlTask(
        name=NAME,
        axes=axes,
        actions=evenly_spaced(NAME, -1.0, 1.0, actions)[:, None],
        step=euler_step(accelerations, motion, axes),
        reward=reward,
        gamma=DISCOUNT,
        reward_range=(math.exp(-2.0) - 0.1 + motion.reward_offset, 1.0 + motion.reward_offset),
        noise=(0.0, SPEED_NOISE),
        metric=UprightNorm(),
        label=motion.label(variant),
    )
