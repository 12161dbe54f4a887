"""A control task on a grid: states are grid points, and values between them are interpolated.

The value of a next state is the multilinear interpolation of the 2^d corners of its cell, which is
the same as a random transition to those corners: a finite MDP with S x A pairs. Its transitions are
kept as a compact table, or worked out anew in every sweep where the table would not fit. On a GPU,
kernels answer from a table where they can (`svrl.mdp.grid_cuda`), and plain torch elsewhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from svrl.matrix.parameters import check_whole
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid_table import CompiledBackups, PlainBackups, Quadrature, Table, bytes_per_pair, tabulate
from svrl.mdp.interpolation import corner_offsets, corner_weights
from svrl.mdp.model import MarkovRewardProcess, sparse_rows, summary
from svrl.runtime.device import check_device

if TYPE_CHECKING:
    from svrl.mdp.grid_cuda import GpuTable

Mode = Literal["auto", "table", "on-the-fly"]
BLOCK = 1 << 19
"""Pairs worked on at once while tabulating or on a GPU: their temporary arrays stay in tens of megabytes."""
GPU_BLOCK = 1 << 22
"""Pairs of a stored table that a GPU works on at once: fewer, and launching takes longer than the work."""


class GridMDP:
    """A `ControlTask` discretised on the grid of its axes; implements `Model`.

    Attributes:
        task: What was discretised.
        storage: "table" or "on-the-fly", whichever was asked for or chosen.
        table_bytes: What the table takes, or would take.
        noise_nodes: Quadrature nodes on each noisy axis in a backup; 1 leaves the noise to rollouts.
        threads: CPU threads of a sweep.
    """

    def __init__(
        self,
        task: ControlTask,
        *,
        mode: Mode = "auto",
        noise_nodes: int = 1,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Discretise; `progress(done, of)` is called with tabulated pairs, `dtype` is that of fractions and rewards."""
        if not isinstance(task, ControlTask):
            raise ValueError(f"GridMDP takes a ControlTask, as make_task('inverted-pendulum') makes it; got {task!r}.")
        if mode not in ("auto", "table", "on-the-fly"):
            raise ValueError(f"GridMDP has no mode {mode!r}: choose auto, table or on-the-fly.")
        check_whole("GridMDP", noise_nodes=noise_nodes, threads=1 if threads is None else threads)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"GridMDP keeps rewards in a floating-point dtype such as torch.float32, got {dtype!r}.")
        if task.reward_range is not None:
            low, high = task.reward_range
            if torch.finfo(dtype).eps * max(abs(low), abs(high)) > 0.01 * (high - low) > 0.0:
                raise ValueError(
                    f"{task.name} has rewards from {low:.12g} to {high:.12g}, which {dtype} hardly tells apart. "
                    "Make their offset smaller, or use dtype=torch.float64."
                )
        self.task = task
        check_device(device)
        self.device = torch.device(device)
        room = memory_available(self.device)
        coordinates = 4 * 8 * task.n_states * (task.dimensions + 1)
        if task.n_states >= 2**31 or coordinates > room:
            raise ValueError(
                f"{task.name} on a grid of {task.n_states:.3g} states needs {coordinates / 1e9:.3g} GB for the "
                f"states alone, and {room / 1e9:.1f} GB are free. Use a coarser grid."
            )
        self.dtype = dtype
        self.noise_nodes = noise_nodes
        self.threads = threads or torch.get_num_threads()
        self._quadrature = Quadrature.of(task, noise_nodes)
        self._offsets = corner_offsets(task).to(self.device)
        self._weights = self._quadrature.weights.to(self.device)
        self._actions = task.actions.to(self.device)
        self._states = task.states().to(self.device)
        pair = bytes_per_pair(task, len(self._quadrature.weights), dtype)
        self.table_bytes = self.n_states * self.n_actions * pair
        if mode == "table" and self.table_bytes > room:
            raise ValueError(
                f"A table of {task.name} with {self.n_states} states and {self.n_actions} actions takes "
                f"{self.table_bytes / 1e9:.1f} GB, and {room / 1e9:.1f} GB are free. "
                "Use mode='on-the-fly', or a coarser grid."
            )
        self.storage = mode if mode != "auto" else ("table" if 2 * self.table_bytes <= room else "on-the-fly")
        self._table = self._fill(progress) if self.storage == "table" else None
        parts: dict[str, Any] = {"weights": self._weights, "offsets": self._offsets, "gamma": task.gamma}
        on_cpu = self.device.type == "cpu"
        self._backups = CompiledBackups(**parts, threads=self.threads) if on_cpu else PlainBackups(**parts)
        self._gpu = self._on_gpu() if self.device.type == "cuda" else None

    def __repr__(self) -> str:
        return summary(self, self.task.name, self.storage)

    @property
    def n_states(self) -> int:
        """S, the points of the grid."""
        return self.task.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.task.n_actions

    @property
    def gamma(self) -> float:
        """In (0, 1)."""
        return self.task.gamma

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
            "noise_nodes": self.noise_nodes,
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
                f"Pairs are as many states as actions, got {tuple(states.shape)} and {tuple(actions.shape)}."
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
        every = torch.arange(self.n_actions, device=self.device)
        pairs = states.repeat_interleave(self.n_actions), every.repeat(len(states))
        return self.backup_at(v, *pairs).reshape(len(states), -1)

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Some actions of all states, (S, K)."""
        if self._gpu is not None and (found := self._gpu.backup(self._checked(v), actions=actions)) is not None:
            return found
        every = torch.arange(self.n_states, device=self.device)
        pairs = every.repeat_interleave(len(actions)), actions.repeat(self.n_states)
        return self.backup_at(v, *pairs).reshape(self.n_states, -1)

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,): every state leads to the corners of one cell (per node)."""
        if policy.shape != (self.n_states,):
            raise ValueError(f"A policy is one action for each of {self.n_states} states, got {tuple(policy.shape)}.")
        self._check_numbers("action", policy, self.n_actions)
        table = self._tabulate(self._states, self._actions[policy])
        weight = corner_weights(table.fraction.double()).mT * self._weights.repeat(self.n_states)[:, None]
        column = table.base.to(torch.int64)[:, None] + self._offsets
        width = len(self._offsets) * len(self._weights)
        rows = torch.arange(self.n_states + 1, device=self.device) * width
        size = (self.n_states, self.n_states)
        transitions = sparse_rows(rows, column.reshape(-1), weight.reshape(-1), size)
        return MarkovRewardProcess(reward=table.reward.double(), transitions=transitions, gamma=self.gamma)

    def _checked(self, v: Tensor) -> Tensor:
        """Values as the kernels need them; they index without looking."""
        v = torch.as_tensor(v)
        if v.shape != (self.n_states,) or v.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"{self.task.name} needs values ({self.n_states},) in float32 or float64, "
                f"got {tuple(v.shape)} in {str(v.dtype).removeprefix('torch.')}."
            )
        return v.contiguous()

    def _check_numbers(self, what: str, numbers: Tensor, count: int) -> None:
        if numbers.device.type != "cpu" or len(numbers) == 0:
            return  # to look would be to wait: plain torch has CUDA check its indices, and the kernels give NaN
        low, high = (int(end) for end in numbers.aminmax())
        if low < 0 or high >= count:
            raise ValueError(f"{self.task.name} has {what}s 0..{count - 1}, got {low}..{high}.")

    def _tabulate(self, states: Tensor, actions: Tensor) -> Table:
        return tabulate(self.task, states, actions, self._quadrature, self.dtype)

    def _parts(self, block: int) -> Iterator[slice]:
        """Ranges of states of about `block` pairs."""
        rows = max(1, block // (self.n_actions * len(self._weights)))
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
                pairs = slice(part.start * self.n_actions, part.stop * self.n_actions)
                yield part, self._table.part(pairs, len(self._weights))

    def _fill(self, progress: Callable[[int, int], None] | None) -> Table:
        pairs = self.n_states * self.n_actions
        entries = pairs * len(self._weights)
        base = torch.empty(entries, dtype=torch.int32, device=self.device)
        fraction = torch.empty(self.task.dimensions, entries, dtype=self.dtype, device=self.device)
        reward = torch.empty(pairs, dtype=self.dtype, device=self.device)
        done = 0
        for part in self._parts(BLOCK):
            block = self._tabulate(self._states[part, None], self._actions)
            to = slice(done * len(self._weights), done * len(self._weights) + len(block.base))
            base[to], fraction[:, to] = block.base, block.fraction
            reward[done : done + len(block.reward)] = block.reward
            done += len(block.reward)
            if progress is not None:
                progress(done, pairs)
        return Table(base=base, fraction=fraction, reward=reward)

    def _on_gpu(self) -> GpuTable | None:
        """The stored table, for the kernels of a GPU."""
        if self._table is None:
            return None
        from svrl.mdp.grid_cuda import GpuTable

        return GpuTable(table=self._table, weights=self._weights, shape=self.task.shape, gamma=self.gamma)


def memory_available(device: torch.device) -> int:
    """Free bytes on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
