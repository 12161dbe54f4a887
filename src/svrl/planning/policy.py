"""Policies at continuous states: greedy for Q interpolated over the grid, or taken from the nearest grid point.

A state x lies in a cell of the task's grid. With the 2^d corners s_c of the cell and their weights w_c,

    Q(x, a) = sum_c w_c Q(s_c, a),        action(x) = the first a that maximises it

This is how the paper treats continuous states (appendix B of "Harnessing Structures for Value-Based Planning and
Reinforcement Learning", ICLR 2020). You can give Q by its factors, Q = left right^T, without an S x A array. A numba
kernel works on the CPU, and plain torch on other devices. Where two actions tie up to rounding, the two may choose
differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from svrl.matrix import Bernoulli, Estimate, Estimator, Observed, SoftImpute
from svrl.matrix.arrays import as_array, as_floating
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import corner_offsets, corners, locate_inside
from svrl.mdp.tabular import COMPILE
from svrl.runtime.kernels import njit, share_out

TORCH_BLOCK = 1 << 24
"""Scores that plain torch holds at once."""
LEAST = 1 << 15
"""Scores worth a thread."""
# Sums may be reordered, but NaN keeps its meaning: NaN must not become an index.
REORDER: dict[str, Any] = {**COMPILE, "fastmath": {"reassoc", *COMPILE["fastmath"]}}


class Policy(Protocol):
    """A policy that can be rolled out."""

    @property
    def device(self) -> torch.device:
        """The device of the states."""

    def actions(self, states: Tensor) -> Tensor:
        """Indices (N,), int64, into the task's actions, for states (N, d)."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """The greedy policy of Q, at any state of a task's box.

    Give either q, or left and right, as torch or NumPy arrays. All are finite, of one precision (float32 or float64)
    and on one device.

    Attributes:
        task: The task whose axes span the grid, with S states (last axis fastest) and A actions.
        q: (S, A), or None.
        left: (S, r), or None.
        right: (A, r), or None; Q = left @ right.mT.
    """

    task: ControlTask
    q: Tensor | None = None
    left: Tensor | None = None
    right: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.q is None) == (self.left is None) or (self.left is None) != (self.right is None):
            raise ValueError("GreedyPolicy needs either q, or left and right. Give one of the two.")
        states, actions = self.task.n_states, self.task.n_actions
        rank = self.left.shape[-1] if self.left is not None else 0
        kinds: dict[tuple[torch.dtype, torch.device], str] = {}
        for name, shape in {"q": (states, actions), "left": (states, rank), "right": (actions, rank)}.items():
            if getattr(self, name) is None:
                continue
            array = as_floating(getattr(self, name), name)
            if tuple(array.shape) != shape:
                raise ValueError(
                    f"A greedy policy for {self.task.name} needs {name} of shape {shape}, got {tuple(array.shape)}."
                )
            # A sum is finite only if its terms are, and needs no array of booleans.
            if not bool(torch.isfinite(array.sum(dtype=torch.float64))):
                raise ValueError(f"A greedy policy for {self.task.name} needs finite {name}, got NaN or infinity.")
            object.__setattr__(self, name, array.contiguous())
            kinds[array.dtype, array.device] = f"{name} is {array.dtype} on {array.device}".replace("torch.", "")
        if len(kinds) > 1:
            got = ", ".join(kinds.values())
            raise ValueError(f"GreedyPolicy needs arrays of one precision on one device, got {got}.")

    @property
    def table(self) -> Tensor:
        """The interpolated array: q, or left."""
        table = self.q if self.q is not None else self.left
        assert table is not None
        return table

    @property
    def device(self) -> torch.device:
        """The device of the states."""
        return self.table.device

    def actions(self, states: Tensor) -> Tensor:
        """The first best action (N,), int64, of each state (N, d)."""
        return self.greedy(states)[0]

    def greedy(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The first best action (N,), int64, of each state (N, d), and its interpolated value (N,).

        A periodic coordinate outside its box wraps, any other moves to the edge.
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
            raise ValueError("States must be finite, got NaN or infinity. Check the code that produced them.")
        states = _wrapped(self.task, states.detach().double())
        if self.device.type != "cpu":
            return greedy_by_torch(self.task, states, self.table, self.right)
        table, count = as_array(self.table), len(states)
        base, fraction, _ = locate_inside(self.task, states, torch.float64, wrapped=True)
        given = as_array(base), as_array(fraction), self._offsets, table, self._columns, self.right is not None
        actions, values = np.empty(count, np.int64), np.empty(count, table.dtype)
        share_out(
            lambda low, high: greedy_range(*given, low, high, actions, values),
            count,
            torch.get_num_threads(),
            least=max(1, LEAST // self.task.n_actions),
        )
        return torch.from_numpy(actions), torch.from_numpy(values)

    @cached_property
    def _columns(self) -> np.ndarray:
        """Right as (r, A), so that the kernel's inner loop runs along memory; empty without factors."""
        return np.empty((0, 0), as_array(self.table).dtype) if self.right is None else as_array(self.right.mT)

    @cached_property
    def _offsets(self) -> np.ndarray:
        return as_array(corner_offsets(self.task))

    def __repr__(self) -> str:
        kind = "dense Q" if self.right is None else f"factors of rank {self.right.shape[1]}"
        return f"GreedyPolicy({self.task.name}, {kind}, {self.device})"


def _wrapped(task: ControlTask, states: Tensor) -> Tensor:
    """Wrap periodic coordinates into their box. Both ends of the box stay, since both are grid lines."""
    if not any(axis.periodic for axis in task.axes):
        return states
    columns = []
    for x, axis in zip(states.unbind(1), task.axes, strict=True):
        turned = axis.low + torch.remainder(x - axis.low, axis.high - axis.low)
        columns.append(torch.where((x < axis.low) | (x > axis.high), turned, x) if axis.periodic else x)
    return torch.stack(columns, 1)


def greedy_by_torch(task: ControlTask, states: Tensor, table: Tensor, right: Tensor | None) -> tuple[Tensor, Tensor]:
    """Actions (N,) and values (N,) at states (N, d), float64, inside the box: the reference of the kernel.

    `table` is Q (S, A); or left (S, r), and then right is (A, r).
    """
    index, weight = corners(task, states)
    weight = weight.to(table.dtype)
    actions = torch.empty(len(states), dtype=torch.int64, device=table.device)
    values = torch.empty(len(states), dtype=table.dtype, device=table.device)
    rows = max(1, TORCH_BLOCK // task.n_actions)
    for low in range(0, len(states), rows):
        part = slice(low, low + rows)
        scores = torch.zeros(len(index[part]), table.shape[1], dtype=table.dtype, device=table.device)
        for c in range(index.shape[1]):
            scores += weight[part, c, None] * table[index[part, c]]
        if right is not None:
            scores = scores @ right.mT
        actions[part] = scores.argmax(1)
        values[part] = scores.gather(1, actions[part, None])[:, 0]
    return actions, values


@njit(inline="always", **REORDER)
def _corners(base, fraction, offsets, n, index, weight):  # type: ignore[no-untyped-def]
    """Fill index and weight (2^d,) with the corners of the cell of state n."""
    weight[0] = 1.0
    count = 1
    for part in fraction[:, n]:
        for c in range(count - 1, -1, -1):
            weight[2 * c + 1] = weight[c] * part
            weight[2 * c] = weight[c] * (1.0 - part)
        count *= 2
    for c in range(count):
        index[c] = base[n] + offsets[c]


@njit(inline="always", **REORDER)
def _blend(rows, index, weight, out):  # type: ignore[no-untyped-def]
    """Sum of weight[c] * rows[index[c]] over c; four at a time, because reading and writing `out` costs most."""
    count = len(index)
    wide = len(out)
    out[:] = 0
    whole = count - count % 4
    for c in range(0, whole, 4):
        i, j, k, m = index[c], index[c + 1], index[c + 2], index[c + 3]
        p, q, r, s = weight[c], weight[c + 1], weight[c + 2], weight[c + 3]
        for a in range(wide):
            out[a] += p * rows[i, a] + q * rows[j, a] + r * rows[k, a] + s * rows[m, a]
    for c in range(whole, count):
        i = index[c]
        p = weight[c]
        for a in range(wide):
            out[a] += p * rows[i, a]


@njit(**REORDER)
def greedy_range(base, fraction, offsets, table, right, factored, first, last, actions, values):  # type: ignore[no-untyped-def]
    """Write the first best action and its value for states first..last, at the places base (N,) and fraction (d, N).

    `table` is Q (S, A), or left (S, r) if `factored`, and then `right` is (r, A). The rows of `table` at the
    2^d corners are blended into one row, which stays in the first-level cache; with factors it then blends the rows of
    `right`.
    """
    corners = len(offsets)
    index = np.empty(corners, np.int64)
    exact = np.empty(corners, np.float64)
    weight = np.empty(corners, table.dtype)
    rank = right.shape[0]
    every = np.arange(rank)
    mixed = np.empty(rank, table.dtype)
    scores = np.empty(right.shape[1] if factored else table.shape[1], table.dtype)
    for n in range(first, last):
        _corners(base, fraction, offsets, n, index, exact)
        weight[:] = exact
        if factored:
            _blend(table, index, weight, mixed)
            _blend(right, every, mixed, scores)
        else:
            _blend(table, index, weight, scores)
        best = 0
        top = scores[0]
        for a in range(1, len(scores)):
            if scores[a] > top:
                top = scores[a]
                best = a
        actions[n] = best
        values[n] = top


@dataclass(frozen=True, kw_only=True)
class NearestPolicy:
    """A table of actions (S,), looked up at the nearest grid point of a task."""

    task: ControlTask
    table: Tensor

    @property
    def device(self) -> torch.device:
        """The device of the states."""
        return self.table.device

    def actions(self, states: Tensor) -> Tensor:
        """Actions (N,) of states (N, d)."""
        index, weight = corners(self.task, states.double())
        return self.table[index.gather(1, weight.argmax(1, keepdim=True))[:, 0]]


@dataclass(frozen=True, kw_only=True)
class LowRankPolicy:
    """A policy from a recovered Q.

    Attributes:
        policy: Actions (S,), int64.
        q: The recovered matrix (S, A).
        estimate: The estimator's answer.
        p: Share of the entries that was kept.
    """

    policy: Tensor
    q: Tensor
    estimate: Estimate
    p: float


def low_rank_policy(
    q: Tensor, generator: torch.Generator, *, p: float = 0.5, estimator: Estimator | None = None
) -> LowRankPolicy:
    """Keep each entry of q (S, A) with probability `p`, recover the others, and act greedily.

    This is the paper's appendix C, for a Q* that was planned in full: if the policy of the recovered matrix is as good
    as the optimal one, Q* has the structure. The default estimator is the authors' rule for Soft-Impute, solved to its
    optimum.
    """
    q = torch.as_tensor(q)
    if estimator is None:
        estimator = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill")
    mask = Bernoulli(p=p).mask(tuple(q.shape), generator, q.device)
    estimate = estimator(Observed(values=q.float(), mask=mask), generator=generator)
    recovered = torch.as_tensor(estimate.matrix)
    return LowRankPolicy(policy=recovered.argmax(1), q=recovered, estimate=estimate, p=p)
