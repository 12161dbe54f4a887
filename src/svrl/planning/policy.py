"""Greedy policies at continuous states, by multilinear interpolation of Q over the grid.

A state x lies in a cell of the task's grid. With the 2^d corners s_c of the cell and their weights
w_c, the products of the fractions along the axes,

    Q(x, a) = sum_c w_c Q(s_c, a),        action(x) = the first a that maximises it

which is how the paper treats continuous states (appendix B of "Harnessing Structures for Value-Based
Planning and Reinforcement Learning", ICLR 2020). Q may be given by factors, Q = left right^T, plus a
number for each state; then no S x A array is needed. The CPU runs a numba kernel, other devices its
torch twin. Where two actions tie up to rounding, the two may choose differently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from svrl.matrix.arrays import Array, as_array, as_floating
from svrl.mdp.control_task import ControlTask
from svrl.mdp.threads import share_out

TWIN_BLOCK = 1 << 24
"""Scores that the torch twin holds at once."""
LEAST = 1 << 15
"""Scores worth a thread."""


class Policy(Protocol):
    """What can be rolled out."""

    @property
    def device(self) -> torch.device:
        """Where states must be."""

    def actions(self, states: Tensor) -> Tensor:
        """Indices (N,), int64, into the task's actions, for states (N, d)."""


class GridArrays(NamedTuple):
    """The axes as the kernel takes them, each (d,)."""

    low: np.ndarray
    spacing: np.ndarray
    points: np.ndarray
    strides: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """The greedy policy of Q, at any state of a task's box.

    Give either q, or left and right; NumPy arrays are welcome. All are finite, of one precision
    (float32 or float64) and on one device.

    Attributes:
        task: Its axes are the grid, numbered with the last axis fastest; S states and A actions.
        q: (S, A), or None.
        left: (S, r), or None.
        right: (A, r), or None; Q = left @ right.mT + offset[:, None].
        offset: (S,), or None for zeros. It moves values, never actions.
    """

    task: ControlTask
    q: Tensor | None = None
    left: Tensor | None = None
    right: Tensor | None = None
    offset: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.q is None) == (self.left is None) or (self.left is None) != (self.right is None):
            raise ValueError("GreedyPolicy needs either q, or left and right. Give one of the two.")
        states, actions = self.task.n_states, self.task.n_actions
        rank = self.left.shape[-1] if self.left is not None else 0
        wanted = {"q": (states, actions), "left": (states, rank), "right": (actions, rank), "offset": (states,)}
        kept: dict[str, Tensor] = {}
        for name, shape in wanted.items():
            given: Array | None = getattr(self, name)
            if given is not None:
                kept[name] = _checked(self.task.name, name, as_floating(given, name), shape)
                object.__setattr__(self, name, kept[name])
        kinds = {f"{name} is {x.dtype} on {x.device}".replace("torch.", "") for name, x in kept.items()}
        if len({(x.dtype, x.device) for x in kept.values()}) > 1:
            raise ValueError(
                f"GreedyPolicy needs arrays of one precision on one device, got {', '.join(sorted(kinds))}."
            )

    @property
    def table(self) -> Tensor:
        """What is interpolated: q, or left."""
        table = self.q if self.q is not None else self.left
        assert table is not None
        return table

    @property
    def device(self) -> torch.device:
        """Where states must be."""
        return self.table.device

    def actions(self, states: Tensor) -> Tensor:
        """The first best action (N,), int64, of each state (N, d)."""
        return self.greedy(states)[0]

    def greedy(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The first best action (N,), int64, of each state (N, d), and its interpolated value (N,).

        A periodic coordinate outside its box is wrapped, any other is moved to the edge.
        """
        states = torch.as_tensor(states)
        if states.ndim != 2 or states.shape[1] != self.task.dimensions:
            raise ValueError(
                f"{self.task.name} has states of {self.task.dimensions} coordinates, (N, {self.task.dimensions}); "
                f"got shape {tuple(states.shape)}."
            )
        if states.device != self.device:
            raise ValueError(f"The policy is on {self.device}, the states are on {states.device}. Move one of them.")
        if not bool(torch.isfinite(states).all()):
            raise ValueError("States must be finite, got NaN or infinity. Look at what produced them.")
        states = _wrapped(self.task, states.detach().double())
        if self.device.type != "cpu":
            return greedy_twin(self.task, states, self.table, self.right, self.offset)
        return self._by_kernel(as_array(states))

    def _by_kernel(self, states: np.ndarray) -> tuple[Tensor, Tensor]:
        from svrl.planning.policy_kernel import greedy_range

        table, count = as_array(self.table), len(states)
        empty = np.empty((0, 0), table.dtype)
        right = empty if self._columns is None else self._columns
        offset = empty[0:0].reshape(-1) if self.offset is None else as_array(self.offset)
        actions, values = np.empty(count, np.int64), np.empty(count, table.dtype)

        def work(low: int, high: int) -> None:
            greedy_range(states, *self._grid, table, right, self.right is not None, offset, low, high, actions, values)

        share_out(work, count, torch.get_num_threads(), least=max(1, LEAST // self.task.n_actions))
        return torch.from_numpy(actions), torch.from_numpy(values)

    @cached_property
    def _columns(self) -> np.ndarray | None:
        """Right as (r, A), for which the kernel's inner loop runs along memory."""
        return None if self.right is None else as_array(self.right.mT)

    @cached_property
    def _grid(self) -> GridArrays:
        axes = self.task.axes
        return GridArrays(
            low=np.array([axis.low for axis in axes]),
            spacing=np.array([_spacing(self.task, k) for k in range(len(axes))]),
            points=np.array(self.task.shape),
            strides=np.array([_stride(self.task, k) for k in range(len(axes))]),
        )

    def __repr__(self) -> str:
        kind = "dense Q" if self.right is None else f"factors of rank {self.right.shape[1]}"
        return f"GreedyPolicy({self.task.name}, {kind}, {self.device})"


def greedy_twin(
    task: ControlTask, states: Tensor, table: Tensor, right: Tensor | None, offset: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The kernel's answer in plain torch: actions (N,) and values (N,) at states (N, d), float64, inside the box.

    `table` is Q (S, A), or left (S, r), and then right is (A, r).
    """
    index, weight = corners(task, states)
    weight = weight.to(table.dtype)
    actions = torch.empty(len(states), dtype=torch.int64, device=table.device)
    values = torch.empty(len(states), dtype=table.dtype, device=table.device)
    rows = max(1, TWIN_BLOCK // task.n_actions)
    for low in range(0, len(states), rows):
        part = slice(low, low + rows)
        scores = torch.zeros(len(index[part]), table.shape[1], dtype=table.dtype, device=table.device)
        for c in range(index.shape[1]):
            scores += weight[part, c, None] * table[index[part, c]]
        if right is not None:
            scores = scores @ right.mT
        actions[part] = scores.argmax(1)
        values[part] = scores.gather(1, actions[part, None])[:, 0]
    if offset is not None:
        values += (weight * offset[index]).sum(1)
    return actions, values


def corners(task: ControlTask, states: Tensor) -> tuple[Tensor, Tensor]:
    """Grid indices (N, 2^d), int64, of the corners around states (N, d), and their weights (N, 2^d)."""
    index = torch.zeros(len(states), 1, dtype=torch.int64, device=states.device)
    weight = torch.ones(len(states), 1, dtype=states.dtype, device=states.device)
    for k, axis in enumerate(task.axes):
        place = (states[:, k, None] - axis.low) / _spacing(task, k)
        cell = place.floor().clamp(0, axis.points - 2)
        fraction = (place - cell).clamp(0, 1)
        stride = _stride(task, k)
        index = torch.cat([index, index + stride], 1) + cell.long() * stride
        weight = torch.cat([weight * (1 - fraction), weight * fraction], 1)
    return index, weight


def _spacing(task: ControlTask, k: int) -> float:
    axis = task.axes[k]
    return (axis.high - axis.low) / (axis.points - 1)


def _stride(task: ControlTask, k: int) -> int:
    return math.prod(task.shape[k + 1 :])


def _wrapped(task: ControlTask, states: Tensor) -> Tensor:
    """Periodic coordinates in their box; both ends stay where they are, as both are grid lines."""
    if not any(axis.periodic for axis in task.axes):
        return states
    columns = []
    for x, axis in zip(states.unbind(1), task.axes, strict=True):
        turned = axis.low + torch.remainder(x - axis.low, axis.high - axis.low)
        columns.append(torch.where((x < axis.low) | (x > axis.high), turned, x) if axis.periodic else x)
    return torch.stack(columns, 1)


def _checked(task: str, name: str, array: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(array.shape) != shape:
        raise ValueError(f"A greedy policy for {task} needs {name} of shape {shape}, got {tuple(array.shape)}.")
    # A sum is finite only if its terms are, and needs no array of booleans.
    if not bool(torch.isfinite(array.sum(dtype=torch.float64))):
        raise ValueError(f"A greedy policy for {task} needs finite {name}, got NaN or infinity in it.")
    return array.contiguous()
