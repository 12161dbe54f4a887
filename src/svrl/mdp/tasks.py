"""The paper's control tasks, and three more, by the names that the command line and run directories use.

The paper's equations are from appendix B of "Harnessing Structures for Value-Based Planning and Reinforcement
Learning", ICLR 2020. Variant "paper" follows the printed paper, and "authors" follows the authors' program.

The state of a task consists of pairs (position, speed), and the task gives the acceleration of each pair. With the time
step tau and the acceleration a at the old state, one Euler step is

    together:     x' = x + tau v               v' = v + tau a
    speed-first:  v' = clip(v + tau a)         x' = x + tau v'

where clip keeps the speed in its box. Noise is added to its own coordinate. In speed-first the noisy speed moves the
position.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.control_task import Axis, ControlTask, Reward, Step, TimeToGoal, UprightNorm, coordinates
from svrl.runtime.names import nearest_name

Accelerations = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
SPEED_NOISE = math.radians(0.5)
GOAL = 0.5
MOTORS = 3
CART_POLE_BOX = (
    ("angle (rad)", -math.pi / 2, math.pi / 2),
    ("angular speed (rad/s)", -3.0, 3.0),
    ("position (m)", -2.4, 2.4),
    ("speed (m/s)", -3.5, 3.5),
)


@dataclass(frozen=True, kw_only=True)
class Motion:
    """The choices of a variant; the top of this module explains the update order."""

    time_step: float  # tau, in the task's unit of time
    reward_offset: float = 0.0
    update_order: Literal["together", "speed-first"] = "together"

    def __post_init__(self) -> None:
        if not 0.0 < self.time_step < math.inf:
            raise ValueError(f"A task needs a time_step above 0 and finite, got {self.time_step!r}.")
        if not math.isfinite(self.reward_offset):
            raise ValueError(f"A task needs a finite reward_offset, got {self.reward_offset!r}.")


PENDULUM = {"paper": Motion(time_step=0.3), "authors": Motion(time_step=math.pi / 10, reward_offset=-1.0)}
MOUNTAIN_CAR = {"paper": Motion(time_step=1.0), "authors": Motion(time_step=1.0, update_order="speed-first")}
TENTH = dict.fromkeys(("paper", "authors"), Motion(time_step=0.1))
FIFTH = dict.fromkeys(("paper", "authors"), Motion(time_step=0.2))


def inverted_pendulum(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Keep a pendulum upright with a torque too weak to lift it in one go.

    The state is the angle theta (rad, 0 upright, periodic) and the angular speed w (rad/s). The input u in [-1, 1] is a
    torque:

        theta' = theta + w tau,        w' = w + (sin theta - w + u) tau,        r = exp(cos theta - 1) - 0.1 u^2

    The paper has tau = 0.3. The authors' program has tau = pi / 10 and a reward smaller by 1. Both simulate with noise
    of half a degree on the angular speed, which planning ignores.
    """
    name = "inverted-pendulum"
    return _task(
        name,
        PENDULUM,
        (variant, time_step, reward_offset),
        axes=_pendulum_axes(name, states),
        actions=_evenly_spaced(name, 1.0, actions)[:, None],
        accelerations=lambda at, inputs: (_pendulum_acceleration(at, inputs[..., 0]),),
        reward=lambda at, inputs: _upright_reward(at) - 0.1 * inputs[..., 0] ** 2,
        reward_range=(math.exp(-2.0) - 0.1, 1.0),
        noise=(0.0, SPEED_NOISE),
        metric=UprightNorm(),
    )


def three_motor_pendulum(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    levels: int = 10,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Keep the pendulum upright with a thousand actions that have no order. The task is not in the paper.

    Three motors sit 120 degrees apart and pull with the inputs u_0, u_1 and u_2. Each input is one of `levels`
    values in [-1, 1], so there are levels^3 actions, and the last motor's input runs fastest:

        torque = sum_i cos(theta - 2 pi i / 3) u_i,        r = exp(cos theta - 1) - 0.05 |u|^2

    Neighbouring actions of the list do different things. Trying every tenth action therefore gains nothing, while
    Q is still nearly low rank. The variant decides whose pendulum the motors move.
    """
    name = "three-motor-pendulum"

    def torque(angle: Tensor, inputs: Tensor) -> Tensor:
        parts = [torch.cos(angle - 2.0 * math.pi * i / MOTORS) * inputs[..., i] for i in range(MOTORS)]
        return parts[0] + parts[1] + parts[2]

    return _task(
        name,
        PENDULUM,
        (variant, time_step, reward_offset),
        axes=_pendulum_axes(name, states),
        **_every_combination(*[_evenly_spaced(name, 1.0, levels)] * MOTORS),
        accelerations=lambda at, inputs: (_pendulum_acceleration(at, torque(at[..., 0], inputs)),),
        reward=lambda at, inputs: _upright_reward(at) - 0.05 * (inputs**2).sum(-1),
        reward_range=(math.exp(-2.0) - 0.15, 1.0),
        noise=(0.0, SPEED_NOISE),
        metric=UprightNorm(),
    )


def mountain_car(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    x_max: float | None = None,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Swing a car up a hill that is too steep for its engine.

    The state is the position x and the speed v per step. The input u in [-1, 1] is the throttle:

        v' = v - 0.0025 cos(3 x) + 0.001 u,        x' = x + v,        r = 10 where x >= 0.5, else -1

    The reward is that of the current state, and the goal does not end an episode. The paper's equations move x by the
    old speed. It prints the two boxes swapped, and means x in [-1.2, 0.6] and v in [-0.07, 0.07]. The authors' program
    updates and clips the speed first, moves x by the new speed, and ends the box at x = 0.5, so that the goal is the
    last grid line. `x_max` sets the right end of the box.
    """
    name = "mountain-car"
    end = x_max if x_max is not None else 0.5 if variant == "authors" else 0.6
    if not end >= GOAL:
        raise ValueError(f"{name} needs x_max of at least {GOAL}, where the goal begins, got {x_max!r}.")

    def at_goal(at: Tensor) -> Tensor:
        return at[..., 0] >= GOAL - 1e-9  # a grid line at the goal may round to a little below it

    return _task(
        name,
        MOUNTAIN_CAR,
        (variant, time_step, reward_offset),
        axes=_axes(name, states, ("position", -1.2, end), ("speed", -0.07, 0.07)),
        actions=_evenly_spaced(name, 1.0, actions)[:, None],
        accelerations=lambda at, inputs: (0.001 * inputs[..., 0] - 0.0025 * torch.cos(3.0 * at[..., 0]),),
        reward=lambda at, inputs: torch.where(at_goal(at), 10.0, -1.0).to(at.dtype),
        reward_range=(-1.0, 10.0),
        metric=TimeToGoal(inside=at_goal),
        label={"x_max": end},
    )


def double_integrator(
    *,
    variant: str = "paper",
    states: tuple[int, int] = (50, 50),
    actions: int = 1000,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Push a brick on ice to rest at the origin.

    The state is the position x and the speed v, both in [-3, 3]. The input u in [-1, 1] is a force on a unit mass, and
    tau is 0.1:

        x' = x + v tau,        v' = v + u tau,        r = -(x^2 + v^2) / 2

    The metric is the time to the origin. The authors test for it by x == 0, which never happens. Here the goal is
    |x| <= 0.1 and |v| <= 0.1.
    """
    name = "double-integrator"
    return _task(
        name,
        TENTH,
        (variant, time_step, reward_offset),
        axes=_axes(name, states, ("position (m)", -3.0, 3.0), ("speed (m/s)", -3.0, 3.0)),
        actions=_evenly_spaced(name, 1.0, actions)[:, None],
        accelerations=lambda at, inputs: (inputs[..., 0],),
        reward=lambda at, inputs: -0.5 * (at**2).sum(-1),
        reward_range=(-9.0, 0.0),
        metric=TimeToGoal(inside=lambda at: (at.abs() <= 0.1).all(-1)),
    )


def planar_thrusters(
    *,
    variant: str = "paper",
    states: tuple[int, int, int, int] = (15, 15, 15, 15),
    levels: int = 6,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Bring a mass in the plane to rest at the origin with three thrusters. The task is not in the paper.

    The state s is x, its speed, y and its speed, all in [-3, 3]. The thrusters sit at 0, 120 and 240 degrees, push both
    ways, and act on a unit mass. Each of their inputs u_0, u_1 and u_2 is one of `levels` values in [-1, 1], so there
    are levels^3 actions, and the last thruster's input runs fastest. tau is 0.2:

        x'' = u_0 - (u_1 + u_2) / 2,        y'' = (sqrt(3) / 2) (u_1 - u_2),        r = -0.05 |s|^2 - 0.02 |u|^2

    Equal inputs cancel. The metric is the time to the origin, where all four coordinates are within 0.2. The variants
    do not differ.
    """
    name = "planar-thrusters"

    def accelerations(at: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        first, second, third = inputs.unbind(-1)
        return first - 0.5 * (second + third), math.sqrt(0.75) * (second - third)

    return _task(
        name,
        FIFTH,
        (variant, time_step, reward_offset),
        axes=_axes(
            name,
            states,
            ("x (m)", -3.0, 3.0),
            ("speed along x (m/s)", -3.0, 3.0),
            ("y (m)", -3.0, 3.0),
            ("speed along y (m/s)", -3.0, 3.0),
        ),
        **_every_combination(*[_evenly_spaced(name, 1.0, levels)] * 3),
        accelerations=accelerations,
        reward=lambda at, inputs: -0.05 * (at**2).sum(-1) - 0.02 * (inputs**2).sum(-1),
        reward_range=(-1.86, 0.0),
        metric=TimeToGoal(inside=lambda at: (at.abs() <= 0.2).all(-1)),
    )


def cart_pole(
    *,
    variant: str = "paper",
    states: tuple[int, int, int, int] = (10, 10, 10, 10),
    actions: int = 1000,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Balance a pole by pushing the cart on which it stands.

    The state is the pole's angle theta (rad, 0 upright) and angular speed w, and the cart's position x and speed. The
    input u in [-10, 10] is a force in newtons. With g = 9.8, a cart of 1 kg, a pole of m = 0.1 kg and half-length
    l = 0.5 m, M = 1.1 kg for both together, and tau = 0.1 s:

        theta'' = (g sin theta - cos theta (u + m l w^2 sin theta) / M) / (l (4/3 - m cos^2 theta / M))
        x''     = (u + m l (w^2 sin theta - theta'' cos theta)) / M
        r       = cos^4(15 theta)

    The box stops all four coordinates at its edges, and the angle is not periodic. The reward has further maxima every
    12 degrees, and no policy can save about half of the starts in the box. So look at the share of upright starts
    as well as the norm of the angle.
    """
    name = "cart-pole"
    return _task(
        name,
        TENTH,
        (variant, time_step, reward_offset),
        axes=_axes(name, states, *CART_POLE_BOX),
        actions=_evenly_spaced(name, 10.0, actions)[:, None],
        accelerations=lambda at, inputs: _cart_pole_accelerations(at, inputs[..., 0]),
        reward=lambda at, inputs: _cart_pole_reward(at),
        reward_range=(0.0, 1.0),
        metric=UprightNorm(),
    )


def two_input_cart_pole(
    *,
    variant: str = "paper",
    states: tuple[int, int, int, int] = (15, 15, 15, 15),
    levels: int = 16,
    time_step: float | None = None,
    reward_offset: float | None = None,
) -> ControlTask:
    """Balance a pole by pushing the cart and turning the joint between them. The task is not in the paper.

    State, box and constants are those of `cart_pole`. The input u_0 in [-10, 10] is the force in newtons, and u_1 in
    [-0.25, 0.25] the torque in newton metres, about half of what holds the pole level. Each input is one of `levels`
    values, so there are levels^2 actions, and the torque runs fastest. It turns the pole, and moves the cart through
    theta'':

        theta'' = (g sin theta + u_1 / (m l) - cos theta (u_0 + m l w^2 sin theta) / M) / (l (4/3 - m cos^2 theta / M))
        x''     = (u_0 + m l (w^2 sin theta - theta'' cos theta)) / M
        r       = cos^4(15 theta) - 0.0005 u_0^2 - 0.8 u_1^2

    The torque can hold the pole at 12 and 24 degrees, where cos^4(15 theta) has further maxima. The inputs have a cost,
    or the best policies would leave the pole leaning there. A grid with 15 angles, the default, does not show these
    maxima: there cos^4(15 theta) equals cos^4(theta). The variants do not differ.
    """
    name = "two-input-cart-pole"
    return _task(
        name,
        TENTH,
        (variant, time_step, reward_offset),
        axes=_axes(name, states, *CART_POLE_BOX),
        **_every_combination(*[_evenly_spaced(name, reach, levels) for reach in (10.0, 0.25)]),
        accelerations=lambda at, inputs: _cart_pole_accelerations(at, inputs[..., 0], inputs[..., 1]),
        reward=lambda at, inputs: _cart_pole_reward(at) - 0.0005 * inputs[..., 0] ** 2 - 0.8 * inputs[..., 1] ** 2,
        reward_range=(-0.1, 1.0),
        metric=UprightNorm(),
    )


TASKS: dict[str, Callable[..., ControlTask]] = {
    "inverted-pendulum": inverted_pendulum,
    "mountain-car": mountain_car,
    "double-integrator": double_integrator,
    "cart-pole": cart_pole,
    "three-motor-pendulum": three_motor_pendulum,
    "planar-thrusters": planar_thrusters,
    "two-input-cart-pole": two_input_cart_pole,
}


def make_task(name: str, *, actions: int | None = None, noise: float | None = None, **switches: Any) -> ControlTask:
    """Build a task by its name. Arguments that are None keep the task's defaults.

    Args:
        name: A key of `TASKS`.
        actions: Number of actions, evenly spaced over the range of the input. Tasks of several inputs need a power,
            `levels`^3 for three inputs and `levels`^2 for two.
        noise: Standard deviation in rollouts, on the coordinates where the task has noise, or on all if it has none.
        **switches: `variant` ("paper" or "authors"), `states` (grid points of each axis), `time_step`, `reward_offset`,
            `levels` of each of several inputs, and `x_max` of the mountain car.

    Raises:
        ValueError: If there is no such task, variant or switch. The message suggests the nearest name.
    """
    if not isinstance(name, str) or name not in TASKS:
        raise _unknown("The catalogue", "task", name, TASKS)
    known = inspect.signature(TASKS[name]).parameters
    given = {switch: value for switch, value in switches.items() if value is not None}
    for switch in given:
        if switch not in known:
            raise _unknown(name, "switch", switch, known)
    if actions is not None:
        if isinstance(actions, int) and not 1 <= actions < 2**63:  # larger numbers may not fit into a float
            raise ValueError(f"actions must be at least 1 and fewer than 2^63, got {actions}.")
        given |= {"actions": actions} if "actions" in known else {"levels": _levels(name, actions)}
    task = TASKS[name](**given)
    if noise is None:
        return task
    nowhere = max(task.noise) == 0.0
    return dataclasses.replace(task, noise=tuple(noise if nowhere or level > 0.0 else 0.0 for level in task.noise))


def _levels(task: str, actions: int) -> int:
    """Levels of each input for this many actions."""
    inputs = len(TASKS[task]().action_axes)
    levels = round(actions ** (1.0 / inputs))
    if levels**inputs != actions:
        power, other = {2: "square", 3: "cube"}[inputs], levels + (1 if levels**inputs < actions else -1)
        raise ValueError(
            f"actions of {task} must be a {power}, one factor for each input; got {actions}. "
            f"Near it are {levels**inputs} and {other**inputs}."
        )
    return levels


def _unknown(owner: str, what: str, got: object, known: Iterable[str]) -> ValueError:
    return ValueError(f"{owner} has no {what} {got!r}. {nearest_name(str(got), known)}")


def _task(
    name: str,
    variants: Mapping[str, Motion],
    chosen: tuple[str, float | None, float | None],
    *,
    axes: tuple[Axis, ...],
    accelerations: Accelerations,
    reward: Reward,
    reward_range: tuple[float, float],
    label: Mapping[str, Any] | None = None,
    **parts: Any,
) -> ControlTask:
    """Build a task with Euler steps; `chosen` holds its variant, and time step and reward offset or None."""
    variant, time_step, offset = chosen
    if not isinstance(variant, str) or variant not in variants:
        raise _unknown(name, "variant", variant, variants)
    motion = variants[variant]
    time_step = motion.time_step if time_step is None else time_step
    offset = motion.reward_offset if offset is None else offset
    motion = Motion(time_step=time_step, reward_offset=offset, update_order=motion.update_order)

    def moved_reward(states: Tensor, inputs: Tensor) -> Tensor:
        paid = reward(states, inputs) + offset
        return paid.expand(np.broadcast_shapes(paid.shape, inputs.shape[:-1]))  # it may be a reward of the state alone

    low, high = reward_range
    return ControlTask(
        name=name,
        axes=axes,
        step=_euler_step(accelerations, motion, axes),
        reward=moved_reward,
        gamma=0.95,
        reward_range=(low + offset, high + offset),
        label={"variant": variant, **dataclasses.asdict(motion), **(label or {})},
        **parts,
    )


def _euler_step(accelerations: Accelerations, motion: Motion, axes: Sequence[Axis]) -> Step:
    tau, speed_first = motion.time_step, motion.update_order == "speed-first"

    def step(states: Tensor, actions: Tensor, noise: Tensor) -> Tensor:
        columns = []
        for pair, acceleration in enumerate(accelerations(states, actions)):
            position, speed = 2 * pair, 2 * pair + 1
            moved = states[..., speed] + tau * acceleration + noise[..., speed]
            if speed_first:
                moved = moved.clamp(axes[speed].low, axes[speed].high)
            carries = moved if speed_first else states[..., speed]
            columns += [states[..., position] + tau * carries + noise[..., position], moved]
        return coordinates(*columns)

    return step


def _axes(task: str, states: Sequence[int], *boxes: tuple[str, float, float]) -> tuple[Axis, ...]:
    """Axes from (name, low, high), and the number of grid points of each."""
    if not isinstance(states, Sequence) or len(states) != len(boxes):
        raise ValueError(f"{task} has {len(boxes)} coordinates and needs as many grid sizes, got states={states!r}.")
    return tuple(
        Axis(name=name, low=low, high=high, points=points)
        for (name, low, high), points in zip(boxes, states, strict=True)
    )


def _evenly_spaced(task: str, reach: float, count: int) -> Tensor:
    """Values from -reach to reach, both included, (count,), float64."""
    if not isinstance(count, int) or count < 2:
        raise ValueError(f"{task} needs at least 2 values of each input, the two ends of its range, got {count!r}.")
    return torch.linspace(-reach, reach, count, dtype=torch.float64)


def _every_combination(*values: Tensor) -> dict[str, Any]:
    """Actions (A, k) that take one of the values of each of k inputs, the last input running fastest."""
    return {"actions": torch.cartesian_prod(*values), "action_axes": tuple(map(len, values))}


def _pendulum_axes(task: str, states: tuple[int, int]) -> tuple[Axis, ...]:
    angle, speed = _axes(task, states, ("angle (rad)", -math.pi, math.pi), ("angular speed (rad/s)", -10.0, 10.0))
    return dataclasses.replace(angle, periodic=True), speed


def _pendulum_acceleration(states: Tensor, torque: Tensor) -> Tensor:
    return torch.sin(states[..., 0]) - states[..., 1] + torque


def _upright_reward(states: Tensor) -> Tensor:
    return torch.exp(torch.cos(states[..., 0]) - 1.0)


def _cart_pole_accelerations(states: Tensor, force: Tensor, torque: Tensor | float = 0.0) -> tuple[Tensor, ...]:
    mass, whole_mass, half_length = 0.1, 1.1, 0.5
    sine, cosine = torch.sin(states[..., 0]), torch.cos(states[..., 0])
    pushed = (force + mass * half_length * states[..., 1] ** 2 * sine) / whole_mass
    turned = 9.8 * sine + torque / (mass * half_length) - pushed * cosine
    turning = turned / (half_length * (4.0 / 3.0 - mass * cosine**2 / whole_mass))
    return turning, pushed - mass * half_length * turning * cosine / whole_mass


def _cart_pole_reward(states: Tensor) -> Tensor:
    return torch.cos(15.0 * states[..., 0]) ** 4
