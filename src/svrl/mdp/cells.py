"""Where states fall between the points of a grid."""

from __future__ import annotations

import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask


def locate(task: ControlTask, states: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The low corner of each state's cell, base (N,) int32, and its place there, fraction (d, N) in [0, 1].

    States (N, d) must lie in the box.
    """
    base = torch.zeros(len(states), dtype=torch.int32, device=states.device)
    fraction = torch.empty(task.dimensions, len(states), dtype=dtype, device=states.device)
    for k, axis in enumerate(task.axes):
        place = (states[:, k] - axis.low) * ((axis.points - 1) / (axis.high - axis.low))
        cell = place.floor().clamp_(0, axis.points - 2)
        fraction[k] = place.sub_(cell).clamp_(0, 1)
        base.mul_(axis.points).add_(cell.to(torch.int32))
    return base, fraction
