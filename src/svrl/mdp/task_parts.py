"""What the control tasks are built from: variants and their switches, axes, actions, one Euler step.

A state is a list of pairs (position, speed), and a task gives the acceleration of each pair. With
time step tau and the acceleration a at the old state, one step is

    together:     x' = x + tau v               v' = v + tau a
    speed-first:  v' = clip(v + tau a)         x' = x + tau v'

where clip keeps the speed in its box. Noise is added to the coordinate it belongs to; in
speed-first the position is moved by the noisy speed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from svrl.matrix.parameters import as_number
from svrl.mdp.control_task import Axis, Step, coordinates
from svrl.runtime.names import nearest_name

UpdateOrder = Literal["together", "speed-first"]
Accelerations = Callable[[Tensor, Tensor], tuple[Tensor, ...]]

_Choice = TypeVar("_Choice")


class Switches(TypedDict, total=False):
    """The switches that every task takes; each overrides one thing of the variant where it is not None.

    Attributes:
        time_step: tau, in the task's unit of time.
        reward_offset: Added to every reward.
        update_order: "together" or "speed-first".
    """

    time_step: float | None
    reward_offset: float | None
    update_order: UpdateOrder | None


@dataclass(frozen=True, kw_only=True)
class Motion:
    """The switches that every task has, as a variant sets them.

    Attributes:
        time_step: tau, above 0.
        reward_offset: Added to every reward.
        update_order: "together" (every coordinate from the old state) or "speed-first".
    """

    time_step: float
    reward_offset: float = 0.0
    update_order: UpdateOrder = "together"

    def __post_init__(self) -> None:
        if not 0.0 < as_number(self.time_step) < math.inf:
            raise ValueError(f"A task needs a time_step above 0 and finite, got {self.time_step!r}.")
        if not math.isfinite(as_number(self.reward_offset)):
            raise ValueError(f"A task needs a finite reward_offset, got {self.reward_offset!r}.")
        if self.update_order not in get_args(UpdateOrder):
            raise unknown("A task", "update_order", self.update_order, get_args(UpdateOrder))

    def replaced(self, switches: Switches) -> Motion:
        """The same with some switches set; None leaves one as it is."""
        given: dict[str, Any] = {name: value for name, value in switches.items() if value is not None}
        return dataclasses.replace(self, **given)

    def label(self, variant: str, **more: Any) -> dict[str, Any]:
        """What a result must say: the variant, and every switch as it was resolved."""
        return {"variant": variant, **dataclasses.asdict(self), **more}


def unknown(owner: str, what: str, got: object, known: Iterable[str]) -> ValueError:
    """A wrong name is answered with the nearest right one."""
    return ValueError(f"{owner} has no {what} {got!r}. {nearest_name(str(got), known)}")


def chosen(task: str, variant: str, variants: Mapping[str, _Choice]) -> _Choice:
    """The entry of a variant."""
    if not isinstance(variant, str) or variant not in variants:
        raise unknown(task, "variant", variant, variants)
    return variants[variant]


def grid_axes(task: str, states: Sequence[int], *axes: tuple[str, float, float]) -> tuple[Axis, ...]:
    """Axes from (name, low, high) and the number of grid points of each."""
    if not isinstance(states, Sequence) or len(states) != len(axes):
        raise ValueError(f"{task} has {len(axes)} coordinates and needs as many grid sizes, got states={states!r}.")
    return tuple(
        Axis(name=name, low=low, high=high, points=points)
        for (name, low, high), points in zip(axes, states, strict=True)
    )


def evenly_spaced(task: str, low: float, high: float, count: int) -> Tensor:
    """Values from low to high, both among them, (count,), float64."""
    if not isinstance(count, int) or count < 2:
        raise ValueError(f"{task} needs at least 2 values of each input, the two ends of its range, got {count!r}.")
    return torch.linspace(low, high, count, dtype=torch.float64)


def whatever_the_input(reward: Tensor, inputs: Tensor) -> Tensor:
    """A reward (...) of the state alone, in the shape it has against inputs (..., k); nothing is copied."""
    return reward.expand(np.broadcast_shapes(reward.shape, inputs.shape[:-1]))


def euler_step(accelerations: Accelerations, motion: Motion, axes: Sequence[Axis]) -> Step:
    """The step function of a task whose state is pairs (position, speed).

    Args:
        accelerations: (states (..., d), actions (..., k)) -> one tensor (...) for each of the d / 2 pairs.
        motion: Time step and order.
        axes: Their speed boxes are what speed-first clips to.
    """
    tau = motion.time_step

    def together(states: Tensor, actions: Tensor, noise: Tensor) -> Tensor:
        columns = []
        for pair, acceleration in enumerate(accelerations(states, actions)):
            position, speed = 2 * pair, 2 * pair + 1
            columns.append(states[..., position] + tau * states[..., speed] + noise[..., position])
            columns.append(states[..., speed] + tau * acceleration + noise[..., speed])
        return coordinates(*columns)

    def speed_first(states: Tensor, actions: Tensor, noise: Tensor) -> Tensor:
        columns = []
        for pair, acceleration in enumerate(accelerations(states, actions)):
            position, speed = 2 * pair, 2 * pair + 1
            moved = states[..., speed] + tau * acceleration + noise[..., speed]
            moved = moved.clamp(axes[speed].low, axes[speed].high)
            columns += [states[..., position] + tau * moved + noise[..., position], moved]
        return coordinates(*columns)

    return {"together": together, "speed-first": speed_first}[motion.update_order]
