"""Backups of a finite MDP from its stored transitions, as numba functions and in plain torch.

Row s * A + a of a compressed sparse matrix (S * A, S) holds the probabilities of the next states of
the pair (s, a). With indptr (S * A + 1,), indices and data (N,), as SciPy names them,

    Q(s, a) = reward[s, a] + gamma * sum_k data[k] * v[indices[k]],   indptr[row] <= k < indptr[row + 1],

and Q(s, a) = 0 in terminal states. Sums are taken in float64 and rounded once to the dtype of v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.model import sparse_rows
from svrl.runtime.kernels import njit, share_out

# Sums of a few gathered numbers are 2 to 5 times slower once reassociation lets LLVM make vectors of them.
COMPILE: dict[str, Any] = {
    "fastmath": {"contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
LEAST = 1 << 15
"""Stored entries worth a thread."""
SUM_TOLERANCE = 1e-6
"""How far the probabilities of a pair may sum from 1."""
SOUND, BAD_BOUNDS, BAD_PROBABILITY, BAD_INDEX, BAD_REWARD, BAD_SUM = range(6)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """A finite MDP as tensors on one device. Rows of `data` sum to less than 1 where an episode may end."""

    indptr: Tensor  # (S * A + 1,), int32 or int64
    indices: Tensor  # (N,), next states, int32 or int64
    data: Tensor  # (N,), probabilities, float32 or float64
    reward: Tensor  # (S, A), float64, expected; 0 in terminal states
    terminal: Tensor  # (S,), bool
    gamma: float


@njit(**COMPILE)
def check(indptr, indices, data, rewards, per_row, per_entry, per_next, terminal, tolerance, expected):
    """Look for the first error in one pass over the stored entries, and fill `expected` (S, A) with expected rewards.

    The reward of entry k, in a row and with next state j, is rewards[per_row * row + per_entry * k + per_next * j].
    With the last two 0 it is the reward of the pair. Rows of terminal states (S,) may be empty, the others sum to 1
    within the tolerance. Returns the code of the error, its row and its number, and whether all columns rise.
    """
    n_states, n_actions = expected.shape
    of_pair = per_entry == 0 and per_next == 0
    rising = True
    for row in range(n_states * n_actions):
        low, high = indptr[row], indptr[row + 1]
        if low < 0 or high < low or high > data.shape[0]:
            return BAD_BOUNDS, row, float(high), rising
        total, mean, before = 0.0, 0.0, -1
        for k in range(low, high):
            p, j = np.float64(data[k]), indices[k]
            if not 0.0 <= p < np.inf:
                return BAD_PROBABILITY, row, p, rising
            if j < 0 or j >= n_states:
                return BAD_INDEX, row, float(j), rising
            if not of_pair:
                mean += p * rewards[per_row * row + per_entry * k + per_next * j]
            rising = rising and j > before
            before = j
            total += p
        if of_pair:
            mean = float(rewards[per_row * row])
        if not np.isfinite(mean):
            return BAD_REWARD, row, mean, rising
        state = row // n_actions
        if not abs(total - 1.0) <= tolerance and not (low == high and terminal[state]):
            return BAD_SUM, row, total, rising
        expected[state, row - state * n_actions] = 0.0 if terminal[state] else mean
    return SOUND, 0, 0.0, rising


@njit(**COMPILE)
def align(indptr, indices, other_indptr, other_indices, other_data, out):
    """Write the values of another matrix, whose columns rise, at our entries; 0 where it stores none."""
    for row in range(indptr.shape[0] - 1):
        low, high = other_indptr[row], other_indptr[row + 1]
        for k in range(max(indptr[row], 0), min(indptr[row + 1], out.shape[0])):
            at = low + np.searchsorted(other_indices[low:high], indices[k])
            out[k] = other_data[at] if at < high and other_indices[at] == indices[k] else 0.0


@njit(inline="always", **COMPILE)
def _pair(indptr, indices, data, reward, gamma, v, s, a):
    """One backup, in the dtype of v."""
    row = s * reward.shape[1] + a
    total = 0.0
    # Unsigned, because numba tests signed indices for counting from the end.
    for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += np.float64(data[k]) * np.float64(v[np.uint64(indices[k])])
    return v.dtype.type(reward[s, a] + gamma * total)


@njit(**COMPILE)
def backup_block(indptr, indices, data, reward, terminal, gamma, v, states, actions, low, high, out):
    """All listed actions of the listed states low..high-1: out (len(states), len(actions))."""
    for i in range(low, high):
        s = states[i]
        for k in range(actions.shape[0]):
            if terminal[s]:
                out[i, k] = 0.0
            else:
                out[i, k] = _pair(indptr, indices, data, reward, gamma, v, s, actions[k])


@njit(**COMPILE)
def backup_pairs(indptr, indices, data, reward, terminal, gamma, v, states, actions, low, high, out):
    """The listed pairs low..high-1: out (len(states),)."""
    for i in range(low, high):
        s = states[i]
        if terminal[s]:
            out[i] = 0.0
        else:
            out[i] = _pair(indptr, indices, data, reward, gamma, v, s, actions[i])


@njit(**COMPILE)
def improve(indptr, indices, data, reward, terminal, gamma, v, low, high, best, action):
    """Maximum and first maximiser over the actions of states low..high-1; NaN counts as the largest."""
    for s in range(low, high):
        top, first = v.dtype.type(0.0), 0
        if not terminal[s]:
            top = _pair(indptr, indices, data, reward, gamma, v, s, 0)
            for a in range(1, reward.shape[1]):
                value = _pair(indptr, indices, data, reward, gamma, v, s, a)
                if value > top or (np.isnan(value) and not np.isnan(top)):
                    top = value
                    first = a
        best[s] = top
        action[s] = first


class Compiled:
    """The kernels over `Entries` on the CPU, with as many threads as torch uses."""

    def __init__(self, entries: Entries) -> None:
        arrays = (entries.indptr, entries.indices, entries.data, entries.reward, entries.terminal)
        self._arguments = (*[array.numpy() for array in arrays], entries.gamma)
        self._states, self._actions = (np.arange(size) for size in entries.reward.shape)
        self._per_pair = 1 + entries.data.numel() // entries.reward.numel()

    def block(self, v: Tensor, states: Tensor | None = None, actions: Tensor | None = None) -> Tensor:
        """Listed actions (L,) of listed states (K,), or all where there is no list: (K, L)."""
        rows = self._states if states is None else states.numpy()
        columns = self._actions if actions is None else actions.numpy()
        out = torch.empty(len(rows), len(columns), dtype=v.dtype)
        given = (*self._arguments, v.numpy(), rows, columns)
        self._share_out(lambda low, high: backup_block(*given, low, high, out.numpy()), len(rows), len(columns))
        return out

    def pairs(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Listed pairs, (K,)."""
        out = torch.empty(len(states), dtype=v.dtype)
        given = (*self._arguments, v.numpy(), states.numpy(), actions.numpy())
        self._share_out(lambda low, high: backup_pairs(*given, low, high, out.numpy()), len(states), 1)
        return out

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Maximum and first maximiser, each (S,)."""
        best, action = torch.empty_like(v), torch.empty(len(v), dtype=torch.int64)
        given, found = (*self._arguments, v.numpy()), (best.numpy(), action.numpy())
        self._share_out(lambda low, high: improve(*given, low, high, *found), len(v), len(self._actions))
        return best, action

    def _share_out(self, work: Any, size: int, pairs_each: int) -> None:
        share_out(work, size, torch.get_num_threads(), least=1 + LEAST // max(1, self._per_pair * pairs_each))


class Products:
    """The same by torch's sparse matrix products, for CUDA and as the reference of the kernels."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        # Sparse products need one dtype for both index arrays, and float64.
        self._csr = (entries.indptr, entries.indices.to(entries.indptr.dtype), entries.data.double())
        self._matrix = sparse_rows(*self._csr, (entries.reward.numel(), len(entries.reward)))

    def block(self, v: Tensor, states: Tensor | None = None, actions: Tensor | None = None) -> Tensor:
        """Listed actions (L,) of listed states (K,), or all where there is no list: (K, L)."""
        if states is None and actions is None:
            expected = (self._matrix @ v.double()).reshape(self._entries.reward.shape)
            return self._backup(self._entries.reward, expected, self._entries.terminal[:, None], v.dtype)
        lists = [
            torch.arange(size, device=v.device) if some is None else some
            for size, some in zip(self._entries.reward.shape, (states, actions), strict=True)
        ]
        return self.pairs(v, *torch.cartesian_prod(*lists).T).reshape(len(lists[0]), len(lists[1]))

    def pairs(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Listed pairs, (K,)."""
        reward, terminal = self._entries.reward, self._entries.terminal
        taken = take_rows(*self._csr, states * reward.shape[1] + actions)
        expected = sparse_rows(*taken, (len(states), len(v))) @ v.double()
        return self._backup(reward[states, actions], expected, terminal[states], v.dtype)

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Maximum and first maximiser, each (S,). Forms Q, which has the size of the stored rewards."""
        top = self.block(v).max(1)
        return top.values, top.indices

    def _backup(self, reward: Tensor, expected: Tensor, terminal: Tensor, dtype: torch.dtype) -> Tensor:
        return (reward + self._entries.gamma * expected).masked_fill(terminal, 0.0).to(dtype)


def take_rows(indptr: Tensor, indices: Tensor, data: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix of some rows (K,) of a compressed sparse matrix: indptr (K + 1,), indices and data."""
    starts, counts = indptr[rows], indptr[rows + 1] - indptr[rows]
    bounds = torch.cat([indptr.new_zeros(1), counts.cumsum(0, dtype=indptr.dtype)])
    within = torch.arange(int(bounds[-1]), device=rows.device)
    entries = within + torch.repeat_interleave((starts - bounds[:-1]).to(torch.int64), counts)
    return bounds, indices[entries], data[entries]
