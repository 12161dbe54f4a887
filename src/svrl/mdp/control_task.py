"""A control task: a box of states, a list of actions, one step, and its reward.

Step and reward are pure functions on batches of torch tensors, written with `...` so that states (..., d) and actions
(..., k) broadcast against each other:

    next = step(states, actions, noise)        (..., d), may leave the box
    r    = reward(states, actions)             (...)

`ControlTask.move` keeps states in the box: a periodic axis wraps, any other stops at its edge. A grid raises an error
for a next state millions of widths away.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.model import check_discount, check_rewards

FAR = 1e6
"""A next state may be this many widths of an axis away from it. Further out, wrapping leaves too few digits."""
UPRIGHT_DEGREES = 12.0
"""The paper's cart-pole counts as upright up to this angle."""
Step = Callable[[Tensor, Tensor, Tensor], Tensor]
Reward = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One coordinate of the state.

    Attributes:
        name: Name for plot labels, with its unit: "angle (rad)".
        low, high: Ends of the box, both on the grid.
        points: Grid points, at least 2.
        periodic: Whether high and low are the same place.
    """

    name: str
    low: float
    high: float
    points: int
    periodic: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.high - self.low < math.inf:
            raise ValueError(f"Axis {self.name!r} needs finite low < high, got {self.low!r} and {self.high!r}.")
        if not hasattr(self.points, "__index__") or operator.index(self.points) < 2:
            raise ValueError(f"Axis {self.name!r} needs at least 2 grid points, got {self.points!r}.")
        object.__setattr__(self, "points", operator.index(self.points))

    @property
    def values(self) -> Tensor:
        """The grid points, (points,), float64."""
        return torch.linspace(self.low, self.high, self.points, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class ControlTask:
    """A continuous control problem with finitely many actions.

    Attributes:
        name: Name of the task.
        axes: The d coordinates of the state. The last one runs fastest in the numbering of grid states.
        actions: (A, k), the inputs to choose from, in any order.
        action_axes: Levels of each input, if the actions are all their combinations and the last input runs fastest;
            their product is A. Empty otherwise.
        step: (states (..., d), actions (..., k), noise (..., d)) -> next states (..., d). Add the noise where it
            enters; it is zero in backups.
        reward: (states (..., d), actions (..., k)) -> (...).
        gamma: Discount factor in (0, 1).
        reward_range: Bounds (low, high) on the reward, if you know them. Otherwise a grid evaluates every pair once.
        noise: Standard deviation of the noise on each coordinate, (d,), in its unit.
        metric: Judges a rollout in addition to its return, like `svrl.UprightNorm`; or None.
        label: Variant and switches to report with results. JSON types only.
    """

    name: str
    axes: tuple[Axis, ...]
    actions: Tensor
    action_axes: tuple[int, ...] = ()
    step: Step
    reward: Reward
    gamma: float
    reward_range: tuple[float, float] | None = None
    noise: tuple[float, ...] = ()
    metric: Any = None
    label: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_discount(self.name, self.gamma))
        if not self.axes:
            raise ValueError(f"{self.name} needs at least one axis.")
        actions = torch.as_tensor(self.actions, dtype=torch.float64)
        actions = actions[:, None] if actions.ndim == 1 else actions
        if actions.ndim != 2 or len(actions) == 0 or not bool(torch.isfinite(actions).all()):
            raise ValueError(f"{self.name} needs finite actions of shape (A, k), got shape {tuple(actions.shape)}.")
        object.__setattr__(self, "actions", actions)
        try:
            levels = tuple(map(operator.index, self.action_axes))
        except TypeError:
            levels = (0,)
        if levels and (min(levels) < 1 or math.prod(levels) != len(actions)):
            raise ValueError(
                f"{self.name} has {len(actions)} actions and needs action_axes whose product is that number, "
                f"got {self.action_axes!r}. Give the levels of each input, or leave action_axes out."
            )
        object.__setattr__(self, "action_axes", levels)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not low <= high:
                raise ValueError(
                    f"{self.name} needs a reward range (low, high) with low <= high, got {self.reward_range}."
                )
            check_rewards(self.name, (low, high), self.gamma)
        noise = tuple(self.noise) or (0.0,) * len(self.axes)
        most = [FAR * (axis.high - axis.low) for axis in self.axes]
        if len(noise) != len(most) or not all(0.0 <= a <= b for a, b in zip(noise, most, strict=True)):
            raise ValueError(
                f"{self.name} has {len(self.axes)} axes and needs a noise level for each, at least 0 and at most "
                f"{FAR:g} times as wide as the axis, got {noise}."
            )
        object.__setattr__(self, "noise", noise)

    @property
    def dimensions(self) -> int:
        """d, the number of coordinates."""
        return len(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Grid points of each axis."""
        return tuple(axis.points for axis in self.axes)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The axes for compiled loops: low, high, points, and whether periodic, each (d,)."""
        low, high = (np.array([getattr(axis, end) for axis in self.axes], np.float64) for end in ("low", "high"))
        return low, high, np.array(self.shape), np.array([axis.periodic for axis in self.axes])

    @property
    def box(self) -> Tensor:
        """Low and high end of each axis, (2, d), float64."""
        return torch.tensor([(axis.low, axis.high) for axis in self.axes], dtype=torch.float64).T

    @property
    def n_states(self) -> int:
        """S, the points of the whole grid."""
        return math.prod(self.shape)

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return len(self.actions)

    def states(self) -> Tensor:
        """All grid states (S, d), float64, the last axis running fastest."""
        return torch.cartesian_prod(*[axis.values for axis in self.axes]).reshape(-1, self.dimensions)

    def move(self, states: Tensor, actions: Tensor, noise: Tensor) -> Tensor:
        """One step, kept inside the box: periodic axes wrap, the others stop at the edge."""
        return self.inside(torch.as_tensor(self.step(states, actions, noise)))

    def inside(self, states: Tensor) -> Tensor:
        """Wrap or clip states (..., d) into the box."""
        columns = []
        for i, axis in enumerate(self.axes):
            x = states[..., i]
            if axis.periodic:
                x = axis.low + torch.remainder(x - axis.low, axis.high - axis.low)
            columns.append(x.clamp(axis.low, axis.high))
        return torch.stack(columns, -1)

    def reached(self, states: Tensor) -> Tensor:
        """Whether states (..., d) are valid next states: finite and not millions of widths away, (...)."""
        low, high = self.box.to(states)
        return ((states - low).abs() <= FAR * (high - low)).all(-1)

    def describe(self) -> dict[str, Any]:
        """Name, label and sizes, for results."""
        return {
            "task": self.name,
            **self.label,
            "states": "x".join(str(points) for points in self.shape),
            "actions": self.n_actions,
            "gamma": self.gamma,
        }


def coordinates(*columns: Tensor) -> Tensor:
    """Broadcast coordinates to one shape and stack them into states (..., d): the last line of most steps."""
    # torch has the same rule as NumPy, but torch.broadcast_shapes imports half a second of symbolic algebra.
    shape = np.broadcast_shapes(*(column.shape for column in columns))
    return torch.stack([column.broadcast_to(shape) for column in columns], -1)


# Metrics judge a rollout in addition to its return. A metric is a frozen record. Calling it on a trajectory, states
# (T + 1, N, d) of N starts and T steps, gives named numbers, and `name` says which of them is the main one.


@dataclass(frozen=True, kw_only=True)
class UprightNorm:
    """How far from upright an angle stays, once the first steps have passed.

    The paper calls its number for the pendulum the average angular deviation. For each start, the authors' program
    takes the 2-norm in radians of the angles of steps 51 to 199 out of 200, and then the mean over starts. `norm_rad`
    does the same, and `mean_degrees` gives the mean angle.

    With T steps, the angles of steps skip, ..., T - 1 count. It returns:
        norm_rad: Mean over starts of the 2-norm of those angles, in radians.
        mean_degrees: Mean of their absolute values, in degrees.
        share_upright: Share of starts whose angle stays within 12 degrees at all these steps.

    Attributes:
        axis: Which coordinate is the angle; 0 rad is upright.
        skip: The first step that counts.
    """

    axis: int = 0
    skip: int = 51
    name = "norm_rad"

    def __call__(self, states: Tensor) -> dict[str, float]:
        """Judge a trajectory (T + 1, N, d)."""
        steps = _steps(states)
        if steps <= self.skip:
            raise ValueError(
                f"UprightNorm uses the steps from {self.skip} on, and this rollout has {steps}. "
                "Roll out longer, or lower skip."
            )
        angles = states[self.skip : steps, :, self.axis].double()
        upright = (angles.abs() <= math.radians(UPRIGHT_DEGREES)).all(0)
        return {
            "norm_rad": float(angles.norm(dim=0).mean()),
            "mean_degrees": math.degrees(float(angles.abs().mean())),
            "share_upright": float(upright.double().mean()),
        }


@dataclass(frozen=True, kw_only=True)
class TimeToGoal:
    """How soon a goal is reached.

    With T steps, it returns:
        time_to_goal: Mean over starts of the first step whose state is inside the goal, 0 for a start inside
            it, and T for those that never reach it.
        share_reached: Share of starts that reach it.

    Attributes:
        inside: states (..., d) -> boolean (...), whether a state is inside the goal.
    """

    inside: Callable[[Tensor], Tensor]
    name = "time_to_goal"

    def __call__(self, states: Tensor) -> dict[str, float]:
        """Judge a trajectory (T + 1, N, d)."""
        steps = _steps(states)
        inside = self.inside(states)
        reached = inside.any(0)
        # argmax gives the first of several largest values.
        first = inside.int().argmax(0).masked_fill(~reached, steps)
        return {"time_to_goal": float(first.double().mean()), "share_reached": float(reached.double().mean())}


def _steps(states: Tensor) -> int:
    if states.ndim != 3 or 0 in states.shape:
        raise ValueError(f"A metric needs a trajectory (T + 1, N, d) that is not empty, got {tuple(states.shape)}.")
    return len(states) - 1
