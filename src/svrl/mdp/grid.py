"""A control task on a grid: states are grid points, and values between them are interpolated.

The value of a next state is the multilinear interpolation of the 2^d corners of its cell. That is the same as a random
transition to those corners, so the grid is a finite MDP with S x A pairs. A pair needs one corner (int32), d fractions
and a reward. These are kept as a compact table, with 16 bytes a pair in two dimensions and float32, against 40 and more
for a sparse matrix; or, where the table would not fit, they are computed anew in every sweep.

numba kernels (`svrl.mdp.grid_kernel`) work on the CPU. On a GPU, CUDA kernels (`svrl.mdp.grid_cuda`) answer from a
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
from svrl.mdp.interpolation import LEAST, corner_offsets, corner_weights, interpolate, locate_inside
from svrl.mdp.model import LARGEST_VALUE, MarkovRewardProcess, sparse_rows, summary
from svrl.runtime.device import check_device, free_bytes
from svrl.runtime.kernels import share_out

if TYPE_CHECKING:
    from svrl.mdp.grid_cuda import GpuTable

Mode = Literal["auto", "table", "on-the-fly"]
BLOCK = 1 << 19
"""Pairs tabulated at once: their temporary arrays stay in tens of megabytes."""
GPU_BLOCK = 1 << 22
"""Pairs of a stored table that plain torch works on at once: with fewer, launching takes longer than the work."""


class GridMDP:
    """A `ControlTask` discretised on the grid of its axes; implements `Model`.

    Attributes:
        task: What was discretised.
        storage: "table" or "on-the-fly".
        table_bytes: What the table takes, or would take.
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
            task: What to discretise. Its noise acts in rollouts only.
            mode: "table" keeps a table, "on-the-fly" does not, and "auto" keeps one that fits twice into free memory.
            device: Where backups are computed.
            dtype: Of the table's fractions and rewards.
            threads: CPU threads of a sweep; as many as torch uses, if not given.
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
                    f"{task.name} has rewards from {low:.12g} to {high:.12g}, which {dtype} hardly tells apart. "
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
        self._gpu = self._on_gpu() if self.device.type == "cuda" else None

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
        """The task's label, and how it was discretised."""
        return {
            **self.task.describe(),
            "storage": self.storage,
            "table_megabytes": round(self.table_bytes / 1e6, 1),
            "device": str(self.device),
        }

    def backup(self, v: Tensor) -> Tensor:
        """All pairs, (S, A)."""
        v = self._checked(v)
        if self._gpu is not None and (found := self._gpu.backup(v)) is not None:
            return found
        out = torch.empty(self.n_states, self.n_actions, dtype=v.dtype, device=self.device)
        for part, table in self._tables():
            self._backups.all(v, table, out[part].view(-1))
        return out

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """A full sweep without forming Q: maximum (S,) and its first action (S,)."""
        v = self._checked(v)
        if self._gpu is not None and (found := self._gpu.improve(v)) is not None:
            return found
        best = torch.empty(self.n_states, dtype=v.dtype, device=self.device)
        action = torch.empty(self.n_states, dtype=torch.int64, device=self.device)
        for part, table in self._tables():
            self._backups.improve(v, table, best[part], action[part])
        return best, action

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Listed pairs: states (K,) and actions (K,) give (K,)."""
        v = self._checked(v)
        if states.shape != actions.shape:
            raise ValueError(
                f"backup_at needs one action for each state, got {tuple(states.shape)} and {tuple(actions.shape)}."
            )
        self._check_numbers("state", states, self.n_states)
        self._check_numbers("action", actions, self.n_actions)
        if self._gpu is not None and (found := self._gpu.backup_at(v, states, actions)) is not None:
            return found
        out = torch.empty(len(states), dtype=v.dtype, device=self.device)
        if self._table is not None:
            self._backups.listed(v, self._table, states * self.n_actions + actions, out)
            return out
        for low in range(0, len(states), BLOCK):
            some = slice(low, low + BLOCK)
            self._backups.all(v, self._tabulate(self._states[states[some]], self._actions[actions[some]]), out[some])
        return out

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """All actions of some states, (K, A)."""
        if self._gpu is not None and (found := self._gpu.backup(self._checked(v), states=states)) is not None:
            return found
        return self._crossings(v, states, torch.arange(self.n_actions, device=self.device))

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Some actions of all states, (S, K)."""
        if self._gpu is not None and (found := self._gpu.backup(self._checked(v), actions=actions)) is not None:
            return found
        return self._crossings(v, torch.arange(self.n_states, device=self.device), actions)

    def _crossings(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Every listed action (L,) of every listed state (K,): (K, L)."""
        pairs = states.repeat_interleave(len(actions)), actions.repeat(len(states))
        return self.backup_at(v, *pairs).reshape(len(states), len(actions))

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,): every state leads to the corners of one cell."""
        if policy.shape != (self.n_states,):
            raise ValueError(f"A policy is one action for each of {self.n_states} states, got {tuple(policy.shape)}.")
        self._check_numbers("action", policy, self.n_actions)
        table = self._tabulate(self._states, self._actions[policy])
        weight = corner_weights(table.fraction.double()).mT
        column = table.base.to(torch.int64)[:, None] + self._offsets
        rows = torch.arange(self.n_states + 1, device=self.device) * len(self._offsets)
        size = (self.n_states, self.n_states)
        transitions = sparse_rows(rows, column.reshape(-1), weight.reshape(-1), size)
        return MarkovRewardProcess(reward=table.reward.double(), transitions=transitions, gamma=self.gamma)

    def _storage(self, mode: Mode) -> tuple[str, int]:
        """How to store the grid, and the bytes of its table; raises where memory is too small."""
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

    def _checked(self, v: Tensor) -> Tensor:
        """Checked values: the kernels index without looking."""
        v = torch.as_tensor(v)
        if v.shape != (self.n_states,) or v.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{self.task.name} needs values ({self.n_states},) in float32 or float64, "
                f"got {tuple(v.shape)} in {str(v.dtype).removeprefix('torch.')}."
            )
        return v.contiguous()

    def _check_numbers(self, what: str, numbers: Tensor, count: int) -> None:
        if numbers.device.type != "cpu" or len(numbers) == 0:
            return  # looking would wait for the GPU, where torch checks indices and the kernels answer with NaN
        low, high = (int(end) for end in numbers.aminmax())
        if low < 0 or high >= count:
            raise ValueError(f"{self.task.name} has {what}s 0..{count - 1}, got {low}..{high}.")

    def _tabulate(self, states: Tensor, actions: Tensor) -> Table:
        return tabulate(self.task, states, actions, self.dtype)

    def _parts(self, block: int) -> Iterator[slice]:
        """Ranges of states of about `block` pairs."""
        rows = max(1, block // self.n_actions)
        for low in range(0, self.n_states, rows):
            yield slice(low, min(low + rows, self.n_states))

    def _tables(self) -> Iterator[tuple[slice, Table]]:
        """The stored table whole on the CPU, otherwise tables of ranges of states."""
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

    def _on_gpu(self) -> GpuTable | None:
        """The stored table, for the kernels of a GPU."""
        if self._table is None:
            return None
        from svrl.mdp.grid_cuda import GpuTable

        return GpuTable(table=self._table, shape=self.task.shape, gamma=self.gamma)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Entries of M pairs: base (M,) int32, fraction (d, M), reward (M,)."""

    base: Tensor
    fraction: Tensor
    reward: Tensor

    def __getitem__(self, pairs: slice | Tensor) -> Table:
        """The entries of some pairs: a range, or their numbers (K,)."""
        return Table(base=self.base[pairs], fraction=self.fraction[:, pairs], reward=self.reward[pairs])


def tabulate(task: ControlTask, states: Tensor, actions: Tensor, dtype: torch.dtype) -> Table:
    """The table of the pairs states (..., d) and actions (..., k), broadcast against each other and flattened."""
    # torch.broadcast_shapes would import a computer algebra system, which takes half a second.
    pairs = np.broadcast_shapes(states.shape[:-1], actions.shape[:-1])
    reward = torch.as_tensor(task.reward(states, actions)).broadcast_to(pairs).reshape(-1)
    calm = torch.zeros(task.dimensions, dtype=torch.float64, device=states.device)
    following = torch.as_tensor(task.step(states, actions, calm))
    following = following.broadcast_to((*pairs, task.dimensions)).reshape(-1, task.dimensions)
    base, fraction, sound = locate_inside(task, following, dtype)
    most = LARGEST_VALUE * (1.0 - task.gamma)
    if not (sound and all(abs(float(end)) <= most for end in reward.aminmax())):
        _refuse(task, states.broadcast_to((*pairs, -1)), actions.broadcast_to((*pairs, -1)), following, reward)
    return Table(base=base, fraction=fraction, reward=reward.to(dtype))


def _refuse(task: ControlTask, states: Tensor, actions: Tensor, following: Tensor, reward: Tensor) -> None:
    """Name the first pair whose next state or reward is not finite, or too large."""
    steps, most = task.reached(following.double()), LARGEST_VALUE * (1.0 - task.gamma)
    first = int((~(steps & (reward.abs() <= most))).nonzero()[0])
    if not bool(steps[first]):
        what, found, limit = "step", following[first], f"within {FAR:g} widths of the box"
    else:
        what, found, limit = "reward", reward[first], f"within {most:g}"
    wrong = "too large" if bool(found.isfinite().all()) else "not finite"
    state, action = ([round(x, 6) for x in part.reshape(len(reward), -1)[first].tolist()] for part in (states, actions))
    raise ValueError(
        f"The {what} of {task.name} is {wrong} at state {state} and action {action}: it gave {found.tolist()}. "
        f"Make {what} finite on the whole box, and keep it {limit}."
    )


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
    """The same by the kernels of the CPU, on `threads` threads."""

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
