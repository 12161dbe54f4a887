"""Metrics judge a rollout beside its return: by the angle at the end, or by the time to a goal.

A metric is a frozen record. Calling it on a trajectory, states (T + 1, N, d) of N starts and T steps, gives named
numbers, and `name` says which of them is the main one.

The paper calls its number for the pendulum the average angular deviation. For each start, the authors' program takes
the 2-norm in radians of the angles of steps 51 to 199 out of 200, and then the mean over starts. `UprightNorm` does
that, and gives the mean angle in degrees beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

UPRIGHT_DEGREES = 12.0
"""The paper's cart-pole counts as upright up to this angle."""


@dataclass(frozen=True, kw_only=True)
class UprightNorm:
    """How far from upright an angle stays, once the first steps have passed.

    With T steps, the angles of steps skip, ..., T - 1 count. The values:
        norm_rad: Mean over starts of the 2-norm of those angles, in radians.
        mean_degrees: Mean of their absolute values, in degrees.
        share_upright: Share of starts whose angle stays within 12 degrees over all of them.

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
                f"UprightNorm looks at the steps from {self.skip} on, and this rollout has {steps}. "
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

    With T steps, the values:
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
        # Of several largest values argmax gives the first.
        first = inside.int().argmax(0).masked_fill(~reached, steps)
        return {"time_to_goal": float(first.double().mean()), "share_reached": float(reached.double().mean())}


def _steps(states: Tensor) -> int:
    if states.ndim != 3 or 0 in states.shape:
        raise ValueError(f"A metric needs a trajectory (T + 1, N, d) that is not empty, got {tuple(states.shape)}.")
    return len(states) - 1
