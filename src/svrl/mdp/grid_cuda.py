"""Backups from a grid's table on a GPU: launches the kernels of grid_cuda.cu.

A full sweep in plain torch goes many times over arrays of the size of the table. Here it goes once over the table. The
kernels support 1 to 4 dimensions, and float32 or float64 for values and tables independently. No function waits for
the GPU. Plain torch does the rest and is the reference of the kernels, up to rounding.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

import torch
from torch import Tensor

from svrl.mdp.grid import Table
from svrl.runtime.nvrtc import Kernel, NoCompilerError, compiled

MOST_DIMENSIONS = 4
MOST_PAIRS = 2**31 - 1
"""Most pairs in one launch: the kernels count them in 32 bits."""
WARP_BITS = 5
BLOCK_BITS = 8
WORD = 4
"""Entries that a thread reads at once."""
WORD_BYTES = 16
REALS = {torch.float32: "float", torch.float64: "double"}
NUMBERS = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}


class TableArgument(ctypes.Structure):
    """`Table` of grid_cuda.cu: addresses, then sizes. The kernels take it by value."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("fraction", ctypes.c_void_p),
        ("reward", ctypes.c_void_p),
        ("entries", ctypes.c_longlong),
        ("strides", ctypes.c_int * MOST_DIMENSIONS),
        ("states", ctypes.c_int),
        ("actions", ctypes.c_int),
    )


@dataclass(frozen=True, kw_only=True)
class GpuTable:
    """The whole table of a grid, for backups on its GPU.

    Every method returns None where the kernels do not apply: without NVRTC, in other dimensions or types, for values
    on another device or with a gradient, and for 2^31 pairs and more.

    Attributes:
        table: Table of all S * A pairs.
        shape: Points of the axes; S is their product.
        gamma: Discount factor in (0, 1).
    """

    table: Table
    shape: tuple[int, ...]
    gamma: float

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor] | None:
        """Run a full sweep with values (S,): maximum over actions (S,) and its first action (S,) int64."""
        kernel = self._kernel("improve", v)
        if kernel is None:
            return None
        # A state has a thread for each word of actions, or for each action, and at most a block.
        each = -(-self._actions // WORD) if self._wide else self._actions
        team_bits = min((each - 1).bit_length(), BLOCK_BITS)
        threads_bits = BLOCK_BITS if team_bits <= WARP_BITS else team_bits
        best = torch.empty_like(v)
        action = torch.empty(self._states, dtype=torch.int64, device=v.device)
        with torch.cuda.device(v.device):
            kernel(
                *(self._argument(), v, NUMBERS[v.dtype](self.gamma), ctypes.c_int(team_bits), best, action),
                blocks=-(-self._states >> (threads_bits - team_bits)),
                threads=1 << threads_bits,
            )
        return best, action

    def backup(self, v: Tensor, *, states: Tensor | None = None, actions: Tensor | None = None) -> Tensor | None:
        """Back up listed actions (L,) of listed states (K,), or all: (K, L). NaN where there is no such pair."""
        rows = self._states if states is None else len(states)
        width = self._actions if actions is None else len(actions)
        found = self._backup(v, states, actions, rows * width, width, paired=False)
        return None if found is None else found.reshape(rows, width)

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor | None:
        """Back up listed pairs: states (K,) and actions (K,) give (K,). NaN where there is no such pair."""
        return self._backup(v, states, actions, len(states), 1, paired=True)

    def _backup(
        self, v: Tensor, states: Tensor | None, actions: Tensor | None, count: int, width: int, *, paired: bool
    ) -> Tensor | None:
        kernel = self._kernel("backup", v)
        if any(one is not None and one.dtype.is_floating_point for one in (states, actions)):
            return None  # plain torch raises the right error
        lists = [None if one is None else one.to(torch.int64).contiguous() for one in (states, actions)]
        if kernel is None or count > MOST_PAIRS or any(one is not None and one.device != v.device for one in lists):
            return None
        out = torch.empty(count, dtype=v.dtype, device=v.device)
        if count == 0:
            return out
        with torch.cuda.device(v.device):
            kernel(
                *(self._argument(), v, NUMBERS[v.dtype](self.gamma), *lists),
                *(ctypes.c_uint(width), ctypes.c_int(paired), ctypes.c_uint(count), out),
                blocks=-(-count >> BLOCK_BITS),
                threads=1 << BLOCK_BITS,
            )
        return out

    @cached_property
    def _states(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def _actions(self) -> int:
        return len(self.table.reward) // self._states

    @cached_property
    def _wide(self) -> bool:
        """Whether threads can read words of four entries: every array begins at a word, and the last word is full."""
        arrays = self.table.base, self.table.fraction, self.table.reward
        return all(one.data_ptr() % WORD_BYTES == 0 for one in arrays) and len(self.table.base) % WORD == 0

    def _argument(self) -> TableArgument:
        arrays = self.table.base, self.table.fraction, self.table.reward
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        return TableArgument(
            *(one.data_ptr() for one in arrays),
            len(self.table.base),
            (ctypes.c_int * MOST_DIMENSIONS)(*strides),
            self._states,
            self._actions,
        )

    def _kernel(self, name: str, v: Tensor) -> Kernel | None:
        """The kernel called `name` for values like v, or None."""
        arrays = self.table.base, self.table.fraction, self.table.reward, v
        stored = self.table.reward.dtype
        fits = len(self.shape) <= MOST_DIMENSIONS and v.dtype in REALS and stored in REALS and not v.requires_grad
        if not fits or any(one.device != v.device or not one.is_contiguous() for one in arrays):
            return None
        definitions: dict[str, str | int] = {
            "REAL": REALS[v.dtype],
            "STORED": REALS[stored],
            "DIMENSIONS": len(self.shape),
            "WIDE": int(self._wide),
            "THREADS": 1 << BLOCK_BITS,
            "BYTES": ctypes.sizeof(TableArgument),
        }
        try:
            return compiled(_source(), name, definitions, v.device)
        except NoCompilerError:
            return None


@cache
def _source() -> str:
    return resources.files("svrl.mdp").joinpath("grid_cuda.cu").read_text(encoding="utf-8")
