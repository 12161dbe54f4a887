"""Multilinear interpolation on the grid of a task: which cell a state lies in, and what its corners are worth.

A state x lies in one cell of the grid. `base` is the number of the cell's low corner and `fraction` (d,), in [0, 1],
the place in it. With the 2^d corners s_c and their weights w_c, which are the products of fraction or 1 - fraction
along the axes,

    v(x) = sum_c w_c v(s_c)

`svrl.mdp.grid_kernel` has compiled functions for both; that of `locate` has the same roundings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from svrl.mdp import grid_kernel
from svrl.mdp.control_task import FAR, ControlTask
from svrl.runtime.kernels import share_out

LEAST = 1 << 14
"""States worth a thread."""


def locate(task: ControlTask, states: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """base (N,) int32 and fraction (d, N) of states (N, d), which must lie in the box."""
    base = torch.zeros(len(states), dtype=torch.int32, device=states.device)
    fraction = torch.empty(task.dimensions, len(states), dtype=dtype, device=states.device)
    for k, axis in enumerate(task.axes):
        place = (states[:, k] - axis.low) * ((axis.points - 1) / (axis.high - axis.low))
        cell = place.floor().clamp_(0, axis.points - 2)
        fraction[k] = place.sub_(cell).clamp_(0, 1)
        base.mul_(axis.points).add_(cell.to(torch.int32))
    return base, fraction


def locate_inside(
    task: ControlTask, states: Tensor, dtype: torch.dtype, *, wrapped: bool = False
) -> tuple[Tensor, Tensor, bool]:
    """base (N,) and fraction (d, N) of states (N, d) moved into the box, and whether a step may lead to all of them.

    With `wrapped`, periodic coordinates are in their box already, and both of its ends stay where they are.
    """
    if states.device.type != "cpu":
        return *locate(task, task.inside(states), dtype), bool(task.reached(states).all())
    base = torch.empty(len(states), dtype=torch.int32)
    fraction = torch.empty(task.dimensions, len(states), dtype=dtype)
    low, high, points, periodic = task.arrays
    axes = low, high, FAR, points, periodic & (not wrapped)
    given, out = states.to(torch.float64).numpy(), (base.numpy(), fraction.numpy())
    sound: list[bool] = []
    share_out(
        lambda begin, end: sound.append(grid_kernel.locate_inside(given, *axes, begin, end, *out)),
        len(states),
        torch.get_num_threads(),
        least=LEAST,
    )
    return base, fraction, all(sound)


def corner_offsets(task: ControlTask) -> Tensor:
    """Index of each of the 2^d corners relative to the low one, (2^d,) int64; the first axis is the highest bit."""
    offsets = torch.zeros(1, dtype=torch.int64)
    for k in range(task.dimensions):
        offsets = (offsets[:, None] + torch.tensor([0, math.prod(task.shape[k + 1 :])])).reshape(-1)
    return offsets


def corner_weights(fraction: Tensor) -> Tensor:
    """Weights (2^d, N) of the corners, in the order of `corner_offsets`, from fraction (d, N)."""
    weight = torch.ones(1, fraction.shape[1], dtype=fraction.dtype, device=fraction.device)
    for part in fraction:
        weight = torch.stack([weight * (1 - part), weight * part], 1).reshape(-1, len(part))
    return weight


def corners(task: ControlTask, states: Tensor) -> tuple[Tensor, Tensor]:
    """Grid indices (N, 2^d), int64, of the corners around states (N, d) in the box, and their weights (N, 2^d)."""
    base, fraction = locate(task, states, states.dtype)
    return base[:, None] + corner_offsets(task).to(states.device), corner_weights(fraction).mT


def interpolate(v: Tensor, base: Tensor, fraction: Tensor, offsets: Tensor) -> Tensor:
    """Values (N,) of v (S,) at the places base (N,) and fraction (d, N), merging the last axis first."""
    corners = v[base.to(torch.int64)[None] + offsets.to(v.device)[:, None]]
    for part in fraction.to(v.dtype).flip(0):
        low, high = corners[0::2], corners[1::2]
        corners = low + part * (high - low)
    return corners[0]
