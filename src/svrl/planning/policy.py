"""Policies at continuous states: greedy by multilinear interpolation of Q over the grid, or of the nearest grid point.

A state x lies in a cell of the task's grid. With the 2^d corners s_c of the cell and their weights w_c,

    Q(x, a) = sum_c w_c Q(s_c, a),        action(x) = the first a that maximises it

which is how the paper treats continuous states (appendix B of "Harnessing Structures for Value-Based
Planning and Reinforcement Learning", ICLR 2020). Q may be given by factors, Q = left right^T; then no S x A array is
needed. The CPU runs a numba kernel, other devices its torch twin. Where two actions tie up to rounding, the two may
choose differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from svrl.matrix import Bernoulli, Estimate, Estimator, Observed, SoftImpute
from svrl.matrix.arrays import Array, as_array, as_floating
from svrl.mdp.control_task import ControlTask
from svrl.mdp.interpolation import corner_offsets, corners, locate_inside
from svrl.planning.policy_kernel import greedy_range
from svrl.runtime.threads import share_out

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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """The greedy policy of Q, at any state of a task's box.

    Give either q, or left and right; NumPy arrays are welcome. All are finite, of one precision
    (float32 or float64) and on one device.

    Attributes:
        task: Its axes are the grid, numbered with the last axis fastest; S states and A actions.
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
        wanted = {"q": (states, actions), "left": (states, rank), "right": (actions, rank)}
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
            return greedy_twin(self.task, states, self.table, self.right)
        return self._by_kernel(states)

    def _by_kernel(self, states: Tensor) -> tuple[Tensor, Tensor]:
        table, count = as_array(self.table), len(states)
        base, fraction, _ = locate_inside(self.task, states, torch.float64, wrapped=True)
        right = np.empty((0, 0), table.dtype) if self._columns is None else self._columns
        given = as_array(base), as_array(fraction), self._offsets, table, right, self.right is not None
        actions, values = np.empty(count, np.int64), np.empty(count, table.dtype)
        share_out(
            lambda low, high: greedy_range(*given, low, high, actions, values),
            count,
            torch.get_num_threads(),
            least=max(1, LEAST // self.task.n_actions),
        )
        return torch.from_numpy(actions), torch.from_numpy(values)

    @cached_property
    def _columns(self) -> np.ndarray | None:
        """Right as (r, A), for which the kernel's inner loop runs along memory."""
        return None if self.right is None else as_array(self.right.mT)

    @cached_property
    def _offsets(self) -> np.ndarray:
        return as_array(corner_offsets(self.task))

    def __repr__(self) -> str:
        kind = "dense Q" if self.right is None else f"factors of rank {self.right.shape[1]}"
        return f"GreedyPolicy({self.task.name}, {kind}, {self.device})"


def greedy_twin(task: ControlTask, states: Tensor, table: Tensor, right: Tensor | None) -> tuple[Tensor, Tensor]:
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
    return actions, values


@dataclass(frozen=True, kw_only=True)
class NearestPolicy:
    """A table of actions (S,), looked up at the nearest grid point of a task."""

    task: ControlTask
    table: Tensor

    @property
    def device(self) -> torch.device:
        """Where states must be."""
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
        estimate: How it was recovered.
        p: Share of the entries that was kept.
    """

    policy: Tensor
    q: Tensor
    estimate: Estimate
    p: float


def low_rank_policy(
    q: Tensor, generator: torch.Generator, *, p: float = 0.5, estimator: Estimator | None = None
) -> LowRankPolicy:
    """Keep each entry of q (S, A) with probability `p`, recover the rest, and act greedily.

    This is the paper's appendix C, for a Q* that was planned in full: if the policy of the recovered matrix is as good
    as the optimal one, the structure was in Q*. The default estimator is the authors' rule for Soft-Impute, solved to
    its optimum.
    """
    q = torch.as_tensor(q)
    if estimator is None:
        estimator = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill")
    mask = Bernoulli(p=p).mask(tuple(q.shape), generator, q.device)
    estimate = estimator(Observed(values=q.float(), mask=mask), generator=generator)
    recovered = torch.as_tensor(estimate.matrix)
    return LowRankPolicy(policy=recovered.argmax(1), q=recovered, estimate=estimate, p=p)


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
