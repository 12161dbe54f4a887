"""A control task on a grid: states are grid points, and values between them are interpolated.

A state x lies in one cell of the grid. `base` is the number of the cell's low corner and `fraction` (d,), in [0, 1],
the place in the cell. With the 2^d corners s_c and their weights w_c, which are the products of fraction or
1 - fraction along the axes,

    v(x) = sum_c w_c v(s_c)

That is the same as a random transition to those corners, so the grid is a finite MDP with S x A pairs. A pair needs
base (int32), d fractions and a reward. A compact table stores them, with 16 bytes per pair in two dimensions and
float32, against 40 and more for a sparse matrix; where the table would not fit, every sweep recomputes them.

numba kernels (`svrl.mdp.grid_kernel`) work on the CPU. On a GPU, CUDA kernels (`svrl.mdp.grid_cuda`) work from a
stored table, and plain torch does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from svrl.matrix.arrays import check_whole
from svrl.mdp import grid_kernel
from svrl.mdp.control_task import FAR, ControlTask
from svrl.mdp.model import (
    LARGEST_VALUE,
    MarkovRewardProcess,
    check_pairs,
    check_policy,
    checked_numbers,
    checked_values,
    sparse_rows,
    summary,
)
from svrl.runtime.device import check_device, free_bytes
from svrl.runtime.kernels import share_out

if TYPE_CHECKING:
    from svrl.mdp.grid_cuda import GpuTable

Mode = Literal["auto", "table", "on-the-fly"]
BLOCK = 1 << 19
"""Pairs tabulated at once: their temporary arrays stay in tens of megabytes."""
GPU_BLOCK = 1 << 22
"""Pairs of a stored table that plain torch processes at once: with fewer, launching takes longer than the work."""
LEAST = 1 << 14
"""States, or pairs, worth a thread."""


class GridMDP:
    """A `ControlTask` discretised on the grid of its axes; implements `Model`.

    Attributes:
        task: The discretised task.
        storage: "table" or "on-the-fly".
        table_bytes: Size of the table, or the size that it would have.
        threads: CPU threads of a sweep.
    """

    def __init__(
        self,
        task: ControlTask,
        *,
        mode: Mode = "auto",
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Discretise a task.

        Args:
            task: The task to discretise. Its noise acts in rollouts only.
            mode: "table" keeps a table, "on-the-fly" does not, and "auto" keeps one that fits twice into free memory.
            device: Device of the backups.
            dtype: Type of the table's fractions and rewards.
            threads: CPU threads of a sweep; by default as many as torch uses.
            progress: Called as progress(done, of) with the number of tabulated pairs.
        """
        if not isinstance(task, ControlTask):
            raise ValueError(f"GridMDP takes a ControlTask, such as make_task('inverted-pendulum'); got {task!r}.")
        if mode not in ("auto", "table", "on-the-fly"):
            raise ValueError(f"GridMDP has no mode {mode!r}: choose auto, table or on-the-fly.")
        check_whole("GridMDP", threads=1 if threads is None else threads)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"GridMDP keeps rewards in a floating-point dtype such as torch.float32, got {dtype!r}.")
        if task.reward_range is not None:
            low, high = task.reward_range
            if torch.finfo(dtype).eps * max(abs(low), abs(high)) > 0.01 * (high - low) > 0.0:
                raise ValueError(
                    f"{task.name} has rewards from {low:.12g} to {high:.12g}, which {dtype} can hardly tell apart. "
                    "Make their offset smaller, or use dtype=torch.float64."
                )
        check_device(device)
        self.task, self.device, self.dtype = task, torch.device(device), dtype
        self.threads = threads or torch.get_num_threads()
        self.n_states, self.n_actions, self.gamma = task.n_states, task.n_actions, task.gamma
        self.storage, self.table_bytes = self._storage(mode)
        self._offsets = corner_offsets(task).to(self.device)
        self._actions = task.actions.to(self.device)
        self._states = task.states().to(self.device)
        self._backups = (
            CompiledBackups(self._offsets, self.gamma, self.threads)
            if self.device.type == "cpu"
            else PlainBackups(self._offsets, self.gamma)
        )
        self._table = self._fill(progress) if self.storage == "table" else None
        self._gpu: GpuTable | None = None
        if self._table is not None and self.device.type == "cuda":
            from svrl.mdp.grid_cuda import GpuTable

            self._gpu = GpuTable(table=self._table, shape=task.shape, gamma=self.gamma)

    def __repr__(self) -> str:
        return summary(self, self.task.name, self.storage)

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward of a pair, or the task's own bounds on them."""
        if self.task.reward_range is not None:
            low, high = self.task.reward_range
            rounding = torch.finfo(self.dtype).eps * max(abs(low), abs(high))
            return low - rounding, high + rounding
        if self._table is not None:
            return float(self._table.reward.min()), float(self._table.reward.max())
        low, high = math.inf, -math.inf
        for part in self._parts(BLOCK):
            least, most = self.task.reward(self._states[part, None], self._actions).to(self.dtype).aminmax()
            low, high = min(low, float(least)), max(high, float(most))
        return low, high

    def describe(self) -> dict[str, Any]:
        """The task's label and its discretisation."""
        return {
            **self.task.describe(),
            "storage": self.storage,
            "table_megabytes": round(self.table_bytes / 1e6, 1),
            "device": str(self.device),
        }

    def backup(self, v: Tensor) -> Tensor:
        """Back up all pairs, (S, A)."""
        return self._crossings(v)

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Run a full sweep without forming Q: maximum (S,) and its first action (S,)."""
        v = checked_values(self, v)
        if self._gpu is not None and (found := self._gpu.improve(v)) is not None:
            return found
        best = torch.empty(self.n_states, dtype=v.dtype, device=self.device)
        action = torch.empty(self.n_states, dtype=torch.int64, device=self.device)
        for part, table in self._tables():
            self._backups.improve(v, table, best[part], action[part])
        return best, action

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Back up listed pairs: states (K,) and actions (K,) give (K,)."""
        v = checked_values(self, v)
        check_pairs(states, actions)
        states, actions = self._listed("state", states), self._listed("action", actions)
        if self._gpu is not None and (found := self._gpu.backup_at(v, states, actions)) is not None:
            return found
        return self._backup_at(v, states, actions)

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """Back up all actions of some states, (K, A)."""
        return self._crossings(v, states=self._listed("state", states))

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Back up some actions of all states, (S, K)."""
        return self._crossings(v, actions=self._listed("action", actions))

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,): every state leads to the corners of one cell."""
        check_policy(self, policy)
        table = self._tabulate(self._states, self._actions[self._listed("action", policy)])
        weight = corner_weights(table.fraction.double()).mT
        column = table.base.to(torch.int64)[:, None] + self._offsets
        rows = torch.arange(self.n_states + 1, device=self.device) * len(self._offsets)
        size = (self.n_states, self.n_states)
        transitions = sparse_rows(rows, column.reshape(-1), weight.reshape(-1), size)
        return MarkovRewardProcess(reward=table.reward.double(), transitions=transitions, gamma=self.gamma)

    def _crossings(self, v: Tensor, states: Tensor | None = None, actions: Tensor | None = None) -> Tensor:
        """Back up listed actions (L,) of listed states (K,), or all without a list: (K, L)."""
        v = checked_values(self, v)
        if self._gpu is not None and (found := self._gpu.backup(v, states=states, actions=actions)) is not None:
            return found
        if states is None and actions is None:
            out = torch.empty(self.n_states, self.n_actions, dtype=v.dtype, device=self.device)
            for part, table in self._tables():
                self._backups.all(v, table, out[part].view(-1))
            return out
        rows = torch.arange(self.n_states, device=self.device) if states is None else states
        columns = torch.arange(self.n_actions, device=self.device) if actions is None else actions
        pairs = rows.repeat_interleave(len(columns)), columns.repeat(len(rows))
        return self._backup_at(v, *pairs).reshape(len(rows), len(columns))

    def _backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        out = torch.empty(len(states), dtype=v.dtype, device=self.device)
        if self._table is not None:
            self._backups.listed(v, self._table, states * self.n_actions + actions, out)
            return out
        for low in range(0, len(states), BLOCK):
            some = slice(low, low + BLOCK)
            self._backups.all(v, self._tabulate(self._states[states[some]], self._actions[actions[some]]), out[some])
        return out

    def _listed(self, what: Literal["state", "action"], numbers: Tensor) -> Tensor:
        if numbers.device.type != "cpu":
            return numbers  # a check would wait for the GPU, where torch checks indices and the kernels return NaN
        return checked_numbers(what, numbers, self.n_states if what == "state" else self.n_actions)

    def _storage(self, mode: Mode) -> tuple[str, int]:
        """Return how to store the grid and the bytes of its table; raise if memory is too small."""
        task, room = self.task, free_bytes(self.device)
        coordinates = 4 * 8 * task.n_states * (task.dimensions + 1)
        if task.n_states >= 2**31 or coordinates > room:
            raise ValueError(
                f"{task.name} on a grid of {task.n_states:.3g} states needs {coordinates / 1e9:.3g} GB for the "
                f"states alone, and {room / 1e9:.1f} GB are free. Use a coarser grid."
            )
        size = task.n_states * task.n_actions * (4 + (task.dimensions + 1) * self.dtype.itemsize)
        if mode == "table" and size > room:
            raise ValueError(
                f"A table of {task.name} with {task.n_states} states and {task.n_actions} actions takes "
                f"{size / 1e9:.1f} GB, and {room / 1e9:.1f} GB are free. "
                "Use mode='on-the-fly', or a coarser grid."
            )
        return mode if mode != "auto" else "table" if 2 * size <= room else "on-the-fly", size

    def _tabulate(self, states: Tensor, actions: Tensor) -> Table:
        return tabulate(self.task, states, actions, self.dtype)

    def _parts(self, block: int) -> Iterator[slice]:
        """Ranges of states of about `block` pairs."""
        rows = max(1, block // self.n_actions)
        for low in range(0, self.n_states, rows):
            yield slice(low, min(low + rows, self.n_states))

    def _tables(self) -> Iterator[tuple[slice, Table]]:
        """Yield the whole stored table on the CPU, otherwise tables of ranges of states."""
        if self._table is not None and self.device.type == "cpu":
            yield slice(0, self.n_states), self._table
            return
        for part in self._parts(BLOCK if self._table is None else GPU_BLOCK):
            if self._table is None:
                yield part, self._tabulate(self._states[part, None], self._actions)
            else:
                yield part, self._table[slice(part.start * self.n_actions, part.stop * self.n_actions)]

    def _fill(self, progress: Callable[[int, int], None] | None) -> Table:
        pairs = self.n_states * self.n_actions
        base = torch.empty(pairs, dtype=torch.int32, device=self.device)
        fraction = torch.empty(self.task.dimensions, pairs, dtype=self.dtype, device=self.device)
        reward = torch.empty(pairs, dtype=self.dtype, device=self.device)
        for part in self._parts(BLOCK):
            block = self._tabulate(self._states[part, None], self._actions)
            to = slice(part.start * self.n_actions, part.stop * self.n_actions)
            base[to], fraction[:, to], reward[to] = block.base, block.fraction, block.reward
            if progress is not None:
                progress(to.stop, pairs)
        return Table(base=base, fraction=fraction, reward=reward)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Entries of M pairs: base (M,) int32, fraction (d, M), reward (M,)."""

    base: Tensor
    fraction: Tensor
    reward: Tensor

    def __getitem__(self, pairs: slice | Tensor) -> Table:
        """Select some pairs: a range, or their numbers (K,)."""
        return Table(base=self.base[pairs], fraction=self.fraction[:, pairs], reward=self.reward[pairs])


def tabulate(task: ControlTask, states: Tensor, actions: Tensor, dtype: torch.dtype) -> Table:
    """The table of the pairs states (..., d) and actions (..., k), broadcast against each other and flattened."""
    # torch.broadcast_shapes would import a computer algebra system, which takes half a second.
    pairs = np.broadcast_shapes(states.shape[:-1], actions.shape[:-1])
    reward = torch.as_tensor(task.reward(states, actions)).broadcast_to(pairs).reshape(-1)
    calm = torch.zeros(task.dimensions, dtype=torch.float64, device=states.device)
    following = torch.as_tensor(task.step(states, actions, calm))
    following = following.broadcast_to((*pairs, task.dimensions)).reshape(-1, task.dimensions)
    states, actions = states.broadcast_to((*pairs, -1)), actions.broadcast_to((*pairs, -1))
    base, fraction = locate_next(task, states, actions, following, reward, dtype)
    return Table(base=base, fraction=fraction, reward=reward.to(dtype))


def locate_next(
    task: ControlTask, states: Tensor, actions: Tensor, following: Tensor, reward: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """base (N,) and fraction (d, N) of next states `following` (N, d).

    Raises ValueError for the first pair of states (..., d) and actions (..., k), N of them, whose next state or reward
    (N,) is not finite, or too large.
    """
    base, fraction, sound = locate_inside(task, following, dtype)
    most = LARGEST_VALUE * (1.0 - task.gamma)
    if sound and all(abs(float(end)) <= most for end in reward.aminmax()):
        return base, fraction
    reached = task.reached(following.double())
    first = int((~(reached & (reward.abs() <= most))).nonzero()[0])
    if not bool(reached[first]):
        what, found, limit = "step", following[first], f"within {FAR:g} widths of the box"
    else:
        what, found, limit = "reward", reward[first], f"within {most:g}"
    wrong = "too large" if bool(found.isfinite().all()) else "not finite"
    state, action = ([round(x, 6) for x in part.reshape(len(reward), -1)[first].tolist()] for part in (states, actions))
    raise ValueError(
        f"The {what} of {task.name} is {wrong} at state {state} and action {action}: it returned {found.tolist()}. "
        f"Make {what} finite on the whole box, and keep it {limit}."
    )


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
    """base (N,) and fraction (d, N) of states (N, d) moved into the box, and whether all are valid next states.

    With `wrapped`, periodic coordinates are already in the box, and do not wrap at its ends.
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


@dataclass(frozen=True)
class PlainBackups:
    """Backups from a table in plain torch: for GPUs without kernels, and as the reference of all kernels."""

    offsets: Tensor  # of the corners of a cell, (2^d,)
    gamma: float

    def expected(self, v: Tensor, table: Table) -> Tensor:
        """Backups of all pairs of a table, (M,)."""
        return table.reward.to(v.dtype) + self.gamma * interpolate(v, table.base, table.fraction, self.offsets)

    def all(self, v: Tensor, table: Table, out: Tensor) -> None:
        """Write the backups of all pairs of a table into out (M,)."""
        out[:] = self.expected(v, table)

    def listed(self, v: Tensor, table: Table, pairs: Tensor, out: Tensor) -> None:
        """Write the backups of the listed pairs (K,) of a table into out (K,)."""
        for low in range(0, len(pairs), GPU_BLOCK):
            some = slice(low, low + GPU_BLOCK)
            out[some] = self.expected(v, table[pairs[some]])

    def improve(self, v: Tensor, table: Table, best: Tensor, action: Tensor) -> None:
        """Write maximum and first maximiser over the actions of each state of a table into best and action (K,)."""
        top = self.expected(v, table).reshape(len(best), -1).max(1)
        best[:], action[:] = top.values, top.indices


@dataclass(frozen=True)
class CompiledBackups:
    """The same backups by the CPU kernels, on `threads` threads."""

    offsets: Tensor
    gamma: float
    threads: int

    def all(self, v: Tensor, table: Table, out: Tensor) -> None:
        """As in `PlainBackups`."""
        self._share_out(grid_kernel.backup, self._given(v, table), len(out), LEAST, out)

    def listed(self, v: Tensor, table: Table, pairs: Tensor, out: Tensor) -> None:
        """As in `PlainBackups`."""
        self._share_out(grid_kernel.backup_at, (*self._given(v, table), pairs.numpy()), len(out), LEAST, out)

    def improve(self, v: Tensor, table: Table, best: Tensor, action: Tensor) -> None:
        """As in `PlainBackups`."""
        n_actions = len(table.reward) // len(best)
        given = *self._given(v, table), n_actions
        self._share_out(grid_kernel.improve, given, len(best), LEAST // n_actions, best, action)

    def _share_out(self, kernel: Any, given: tuple[Any, ...], size: int, least: int, *out: Tensor) -> None:
        found = [tensor.numpy() for tensor in out]
        share_out(lambda low, high: kernel(*given, low, high, *found), size, self.threads, least=least)

    def _given(self, v: Tensor, table: Table) -> tuple[np.ndarray | float, ...]:
        arrays = table.base, table.fraction, table.reward, v, self.offsets
        return *(array.numpy() for array in arrays), self.gamma
