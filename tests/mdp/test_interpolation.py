"""Locating next states: the compiled function against its reference in torch, bit for bit."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.grid import tabulate
from svrl.mdp.interpolation import locate

SPECIAL = [-3e6, -1e5, -7.5, -2.0, -1.0, -0.0, 0.3, 1.0, 2.0, 2.0 + 1e-15, 9.99, 1e5, 2.9e6]


def task_of(dimensions: int, periodic: bool) -> ControlTask:
    """One step leads to the action itself: what is located is given freely."""
    axes = tuple(
        Axis(name=f"x{k}", low=-1, high=2.0 + k, points=4 + k, periodic=periodic and k == 0) for k in range(dimensions)
    )
    return ControlTask(
        name="anywhere",
        axes=axes,
        actions=torch.zeros(1, dimensions),
        step=lambda states, actions, noise: actions + 0.0 * states,
        reward=lambda states, actions: actions[..., 0] * 0.0,
        gamma=0.9,
    )


def located(task: ControlTask, places: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    table = tabulate(task, torch.zeros_like(places), places, dtype)
    return table.base, table.fraction


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_the_reference_agrees_to_the_last_bit(dimensions: int, periodic: bool, dtype: torch.dtype, spread: float):
    task = task_of(dimensions, periodic)
    generator = torch.Generator().manual_seed(0)
    places = spread * torch.randn(5000, dimensions, generator=generator, dtype=torch.float64)
    ends = torch.tensor([[a.low, a.high, math.nextafter(a.low, -9.0), 1e6] for a in task.axes], dtype=torch.float64)
    places = torch.cat([places, torch.cartesian_prod(*ends).reshape(-1, dimensions), task.states()])
    base, fraction = located(task, places, dtype)
    plain_base, plain_fraction = locate(task, task.inside(places), dtype)
    assert torch.equal(base, plain_base)
    assert torch.equal(fraction, plain_fraction)


def test_edges_and_beyond():
    task = dataclasses.replace(task_of(1, False), reward=lambda states, actions: torch.zeros(len(actions)))
    places = torch.tensor(SPECIAL, dtype=torch.float64)[:, None]
    base, fraction = located(task, places, torch.float64)
    assert base.tolist() == [0] * 5 + [1, 1, 2, 2, 2, 2, 2, 2]
    assert fraction[0].tolist() == pytest.approx([0.0] * 5 + [0.0, 0.3, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])


def test_a_periodic_axis_wraps():
    base, fraction = located(task_of(1, True), torch.tensor([[-1.5], [2.5], [8.0]], dtype=torch.float64), torch.float64)
    assert base.tolist() == [2, 0, 0]
    assert fraction[0].tolist() == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize(
    ("bad", "wrong"),
    [(math.nan, "not finite"), (-math.inf, "not finite"), (1e300, "too large"), (-3.1e6, "too large")],
)
def test_what_cannot_be_located_is_refused_by_name(periodic: bool, bad: float, wrong: str):
    task = dataclasses.replace(task_of(2, periodic), reward=lambda states, actions: torch.zeros(len(actions)))
    places = torch.zeros(700, 2, dtype=torch.float64)
    places[600, 0] = bad
    with pytest.raises(ValueError, match=f"step of anywhere is {wrong} at state"):
        located(task, places, torch.float32)
    assert task.reached(places).tolist() == [True] * 600 + [False] + [True] * 99
