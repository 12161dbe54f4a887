"""The compact table of a grid: where every pair leads, as a cell, a place in it, and a reward; and backups from it.

A next state falls into one cell of the grid. Its value is interpolated from the cell's 2^d corners,
so a pair needs one corner (int32), d fractions and a reward: 16 bytes in two dimensions and float32,
against 40 and more for the same thing as a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from svrl.mdp import grid_kernel
from svrl.mdp.control_task import FAR, ControlTask
from svrl.mdp.interpolation import interpolate, locate_inside
from svrl.mdp.model import LARGEST_VALUE
from svrl.runtime.threads import share_out

BLOCK = 1 << 21
"""Listed pairs that plain torch works on at once."""
LEAST = 1 << 14
"""Pairs worth a thread."""


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
    """Entries of M pairs: base (N,) int32, fraction (d, N), reward (M,), with N = M * nodes."""

    base: Tensor
    fraction: Tensor
    reward: Tensor

    def part(self, pairs: slice, nodes: int) -> Table:
        """The entries of a range of pairs."""
        entries = slice(pairs.start * nodes, pairs.stop * nodes)
        return Table(base=self.base[entries], fraction=self.fraction[:, entries], reward=self.reward[pairs])

    def of(self, pairs: Tensor, nodes: int) -> Table:
        """The entries of listed pairs (K,)."""
        entries = (pairs[:, None] * nodes + torch.arange(nodes, device=pairs.device)).reshape(-1)
        return Table(base=self.base[entries], fraction=self.fraction[:, entries], reward=self.reward[pairs])


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
    base, fraction, sound = locate_inside(task, following, dtype)
    most = LARGEST_VALUE * (1.0 - task.gamma)
    if not (sound and all(abs(float(end)) <= most for end in reward.aminmax())):
        _refuse(task, states.broadcast_to((*pairs, -1)), actions.broadcast_to((*pairs, -1)), following, reward)
    return Table(base=base, fraction=fraction, reward=reward.to(dtype))


def _refuse(task: ControlTask, states: Tensor, actions: Tensor, following: Tensor, reward: Tensor) -> None:
    """Name the first pair whose next state or reward is not finite, or too large."""
    steps = task.reached(following.double()).reshape(len(reward), -1).all(1)
    most = LARGEST_VALUE * (1.0 - task.gamma)
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


@dataclass(frozen=True, kw_only=True)
class PlainBackups:
    """Backups from a table in plain torch: on a GPU that has no kernels, and to check the kernels by.

    Attributes:
        weights: Of the quadrature, (nodes,), float64.
        offsets: Of the corners of a cell, (2^d,).
        gamma: In (0, 1).
    """

    weights: Tensor
    offsets: Tensor
    gamma: float

    def expected(self, v: Tensor, table: Table) -> Tensor:
        """Backups of all pairs of a table, (M,)."""
        values = interpolate(v, table.base, table.fraction, self.offsets)
        if len(self.weights) > 1:
            values = values.reshape(-1, len(self.weights)) @ self.weights.to(v.dtype)
        return table.reward.to(v.dtype) + self.gamma * values

    def all(self, v: Tensor, table: Table, out: Tensor) -> None:
        """Write the backups of all pairs of a table into out (M,)."""
        out[:] = self.expected(v, table)

    def listed(self, v: Tensor, table: Table, pairs: Tensor, out: Tensor) -> None:
        """Write the backups of the listed pairs (K,) of a table into out (K,)."""
        for low in range(0, len(pairs), BLOCK):
            some = slice(low, low + BLOCK)
            out[some] = self.expected(v, table.of(pairs[some], len(self.weights)))

    def improve(self, v: Tensor, table: Table, best: Tensor, action: Tensor) -> None:
        """Write maximum and first maximiser over the actions of each state of a table into best and action (K,)."""
        top = self.expected(v, table).reshape(len(best), -1).max(1)
        best[:], action[:] = top.values, top.indices


@dataclass(frozen=True, kw_only=True)
class CompiledBackups:
    """The same by the kernels of the CPU, on `threads` threads."""

    weights: Tensor
    offsets: Tensor
    gamma: float
    threads: int

    def all(self, v: Tensor, table: Table, out: Tensor) -> None:
        """As in `PlainBackups`."""
        given, result = self._given(v, table), out.numpy()
        share_out(lambda low, high: grid_kernel.backup(*given, low, high, result), len(out), self.threads, least=LEAST)

    def listed(self, v: Tensor, table: Table, pairs: Tensor, out: Tensor) -> None:
        """As in `PlainBackups`."""
        given, result = (*self._given(v, table), pairs.numpy()), out.numpy()
        share_out(
            lambda low, high: grid_kernel.backup_at(*given, low, high, result), len(out), self.threads, least=LEAST
        )

    def improve(self, v: Tensor, table: Table, best: Tensor, action: Tensor) -> None:
        """As in `PlainBackups`."""
        n_actions = len(table.reward) // len(best)
        given, found = (*self._given(v, table), n_actions), (best.numpy(), action.numpy())
        least = max(1, LEAST // n_actions)
        share_out(
            lambda low, high: grid_kernel.improve(*given, low, high, *found), len(best), self.threads, least=least
        )

    def _given(self, v: Tensor, table: Table) -> tuple[np.ndarray | float, ...]:
        arrays = table.base, table.fraction, table.reward, self.weights, v, self.offsets
        return *(array.numpy() for array in arrays), self.gamma
