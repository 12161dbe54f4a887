"""The compact table of a grid: where every pair leads, as a cell, a place in it, and a reward.

A next state falls into one cell of the grid. Its value is interpolated from the cell's 2^d corners,
so a pair needs one corner (int32), d fractions and a reward: 16 bytes in two dimensions and float32,
against 40 and more for the same thing as a sparse matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.cells import locate
from svrl.mdp.control_task import FAR, ControlTask
from svrl.mdp.model import LARGEST_VALUE
from svrl.mdp.threads import share_out

LEAST = 1 << 14
"""Entries worth a thread."""


@dataclass(frozen=True, kw_only=True)
class Quadrature:
    """Nodes of the noise, (n, d), and their weights, (n,): a Gauss-Hermite rule on every noisy axis."""

    nodes: Tensor
    weights: Tensor

    @classmethod
    def of(cls, task: ControlTask, per_axis: int) -> Quadrature:
        """The rule with `per_axis` nodes on every axis that has noise; one node is no noise."""
        places, weights = np.polynomial.hermite_e.hermegauss(per_axis)
        nodes = torch.zeros(1, task.dimensions, dtype=torch.float64)
        mass = torch.ones(1, dtype=torch.float64)
        for axis, level in enumerate(task.noise):
            if level == 0.0 or per_axis == 1:
                continue
            spread = torch.zeros(per_axis, task.dimensions, dtype=torch.float64)
            spread[:, axis] = level * torch.from_numpy(places)
            nodes = (nodes[:, None] + spread[None]).reshape(-1, task.dimensions)
            mass = (mass[:, None] * torch.from_numpy(weights / weights.sum())).reshape(-1)
        return cls(nodes=nodes, weights=mass)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Entries of some pairs: base (N,) int32, fraction (d, N), reward (M,), with N = M * nodes."""

    base: Tensor
    fraction: Tensor
    reward: Tensor


def bytes_per_pair(task: ControlTask, nodes: int, dtype: torch.dtype) -> int:
    """What one pair takes in a table."""
    return nodes * (4 + task.dimensions * dtype.itemsize) + dtype.itemsize


def tabulate(task: ControlTask, states: Tensor, actions: Tensor, quadrature: Quadrature, dtype: torch.dtype) -> Table:
    """The table of the pairs states (..., d) and actions (..., k), broadcast against each other and flattened."""
    # torch.broadcast_shapes would import a computer algebra system, which takes half a second.
    pairs = np.broadcast_shapes(states.shape[:-1], actions.shape[:-1])
    nodes = quadrature.nodes.to(states.device)
    reward = torch.as_tensor(task.reward(states, actions)).broadcast_to(pairs).reshape(-1)
    following = torch.as_tensor(task.step(states[..., None, :], actions[..., None, :], nodes))
    following = following.broadcast_to((*pairs, len(nodes), task.dimensions)).reshape(-1, task.dimensions)
    base, fraction, sound = _locate(task, following, dtype)
    most = LARGEST_VALUE * (1.0 - task.discount)
    if not (sound and all(abs(float(end)) <= most for end in reward.aminmax())):
        _refuse(task, states.broadcast_to((*pairs, -1)), actions.broadcast_to((*pairs, -1)), following, reward)
    return Table(base=base, fraction=fraction, reward=reward.to(dtype))


def _locate(task: ControlTask, following: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, bool]:
    """Base (N,) and fraction (d, N) of next states (N, d), brought into the box; False if one cannot be reached."""
    if following.device.type != "cpu":
        return *locate(task, task.inside(following), dtype), bool(task.reached(following).all())
    from svrl.mdp.cells_kernel import locate_inside

    base = torch.empty(len(following), dtype=torch.int32)
    fraction = torch.empty(task.dimensions, len(following), dtype=dtype)
    ends = np.array([(axis.low, axis.high) for axis in task.axes], np.float64).T.copy()
    axes = *ends, FAR, np.array(task.shape), np.array([axis.periodic for axis in task.axes])
    given, out = following.to(torch.float64).numpy(), (base.numpy(), fraction.numpy())
    sound: list[bool] = []
    share_out(
        lambda begin, end: sound.append(locate_inside(given, *axes, begin, end, *out)),
        len(following),
        torch.get_num_threads(),
        least=LEAST,
    )
    return base, fraction, all(sound)


def _refuse(task: ControlTask, states: Tensor, actions: Tensor, following: Tensor, reward: Tensor) -> None:
    """Name the first pair whose next state or reward is not finite, or too large."""
    steps = task.reached(following.double()).reshape(len(reward), -1).all(1)
    most = LARGEST_VALUE * (1.0 - task.discount)
    first = int((~(steps & (reward.abs() <= most))).nonzero()[0])
    what = "step" if not bool(steps[first]) else "reward"
    found = following.reshape(len(reward), -1)[first] if what == "step" else reward[first]
    wrong = "too large" if bool(found.isfinite().all()) else "not finite"
    limit = f"within {FAR:g} widths of the box" if what == "step" else f"within {most:g}"
    state = [round(x, 6) for x in states.reshape(len(reward), -1)[first].tolist()]
    action = [round(x, 6) for x in actions.reshape(len(reward), -1)[first].tolist()]
    raise ValueError(
        f"The {what} of {task.name} is {wrong} at state {state} and action {action}: it gave {found.tolist()}. "
        f"Make {what} finite on the whole box, and keep it {limit}."
    )


def corner_offsets(task: ControlTask) -> Tensor:
    """Index of each of the 2^d corners relative to the low one, the first axis as the highest bit; (2^d,) int64."""
    strides = [math.prod(task.shape[k + 1 :]) for k in range(task.dimensions)]
    offsets = torch.zeros(1, dtype=torch.int64)
    for stride in strides:
        offsets = (offsets[:, None] + torch.tensor([0, stride])).reshape(-1)
    return offsets


def interpolate(v: Tensor, table: Table, offsets: Tensor) -> Tensor:
    """Values (N,) at the places of a table in plain torch: the twin of the kernels."""
    corners = v[(table.base.to(torch.int64)[None] + offsets.to(v.device)[:, None])]
    for fraction in table.fraction.to(v.dtype):
        low, high = corners.chunk(2)
        corners = low + fraction * (high - low)
    return corners[0]
