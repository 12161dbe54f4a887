"""TabularMDP: a finite MDP given by its table of transitions and rewards.

    Q(s, a) = r(s, a) + gamma * sum_s' P(s' | s, a) v(s')

The transitions are one compressed sparse (CSR) matrix (S * A, S), row s * A + a. A SciPy or torch CSR matrix is used
without a copy. Backups on the CPU are compiled, those on CUDA are sparse products of torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from svrl.mdp import tabular_kernel as kernel
from svrl.mdp.model import MarkovRewardProcess, check_discount, check_values, sparse_rows, summary
from svrl.mdp.tabular_kernel import Compiled, Entries, Products, take_rows
from svrl.runtime.device import check_device

Table: TypeAlias = Any
"""A NumPy array, a torch tensor (dense or sparse CSR), or a SciPy sparse matrix."""
ToyText: TypeAlias = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
"""P[s][a] = [(probability, next state, reward, done), ...]."""

_PROBLEMS = {
    kernel.BAD_BOUNDS: "The row bounds of the transitions are broken at {pair}, where they reach {number:.0f}. "
    "Bounds start at 0, never fall and end at the number of stored entries.",
    kernel.BAD_PROBABILITY: "A transition probability of {pair} is {number:g}. Make it finite and not negative.",
    kernel.BAD_INDEX: "A next state of {pair} is {number:.0f}, but states are numbered from 0 to {last}. "
    "Correct its column.",
    kernel.BAD_REWARD: "The expected reward of {pair} is {number:g}. Make its rewards finite.",
    kernel.BAD_SUM: "The transition probabilities of {pair} sum to {number:.9g}, which is not 1 within {tolerance:g}. "
    "Normalise them.",
}


class TabularMDP:
    """A finite MDP; implements `Model`.

    Attributes:
        n_states: S.
        n_actions: A.
        gamma: In (0, 1).
        device: The device of the table and of `v`.
        reward_range: Smallest and largest expected reward of a pair, and 0 where episodes can end.
        name: Name of the problem.
        entries: The table itself: transitions, expected rewards (S, A) and terminal states (S,).
        largest_row_sum: Of the probabilities of a pair. Rounding may make it a little more than 1.
    """

    def __init__(
        self,
        *,
        transitions: Table,
        rewards: Table,
        gamma: float,
        terminal: np.ndarray | Tensor | None = None,
        done: np.ndarray | Tensor | None = None,
        device: str | torch.device = "cpu",
        name: str = "tabular",
        label: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a table, and check every stored entry in one pass.

        Args:
            transitions: SciPy or torch CSR (S * A, S), row s * A + a, shared without a copy if float32 or
                float64; or dense (S, A, S). Every row sums to 1 within 1e-6.
            rewards: (S, A), or one for each transition: dense (S, A, S), read only where a probability is
                stored; CSR (S * A, S), 0 where nothing is stored; or (N,), in the order of the N entries
                of CSR transitions. The last three are averaged to r(s, a).
            gamma: In (0, 1), both ends excluded.
            terminal: (S,), bool. These states pay nothing, nothing follows them, and their value is 0 whatever `v`
                says. Their rows may be empty.
            done: (N,), bool, in the order of the N entries of CSR transitions. Such a transition pays its reward
                and ends the episode.
            device: Where backups are computed.
            name: Name of the problem, for `describe`.
            label: More entries for `describe`; JSON types only.

        Raises:
            ValueError: If shapes do not fit; or if a row is wrong, with its state and action.
        """
        check_device(device)
        self.gamma = check_discount("TabularMDP", gamma)
        csr, (self.n_states, self.n_actions) = _read_transitions(transitions)
        self.name = name
        self._label = dict(label or {})
        mask = _flags(terminal, self.n_states, "terminal", "state")
        reward, self._rising = _checked(csr, rewards, mask)
        ends = _flags(done, len(csr.data), "done", "stored transition")
        self._has_terminal, has_ends = bool(mask.any()), bool(ends.any())
        self._episodic = self._has_terminal or has_ends
        if has_ends:
            csr = csr.without(ends)
        least, self.largest_row_sum = _row_sums(csr, mask)
        # Bounds that rely on rows that sum to 1 would be wrong by the difference over 1 - gamma.
        self._exact_rows = max(1.0 - least, self.largest_row_sum - 1.0) <= 1e-12
        nothing = [0.0] if self._episodic else []  # an ended episode pays 0 from then on
        self.reward_range = (min([float(reward.min()), *nothing]), max([float(reward.max()), *nothing]))
        check_values("TabularMDP", self.reward_range, self.gamma)
        self._csr = Csr(*(part.to(device) for part in csr))
        self.entries = Entries(
            **self._csr._asdict(), reward=reward.to(device), terminal=mask.to(device), gamma=self.gamma
        )
        self.device = self.entries.reward.device
        self._engine = Compiled(self.entries) if self.device.type == "cpu" else Products(self.entries)

    def __repr__(self) -> str:
        return summary(self, self.name, f"{len(self._csr.data):,} transitions")

    @classmethod
    def deterministic(cls, *, following: Tensor, rewards: Table, gamma: float, **options: Any) -> TabularMDP:
        """Take one next state for each pair: following (S, A), whole numbers. Options are the constructor's."""
        following = torch.as_tensor(following)
        if following.ndim != 2 or following.is_floating_point():
            raise ValueError(f"Next states are whole numbers (S, A), got {following.dtype} {tuple(following.shape)}.")
        n_states, n_actions = following.shape
        indices = following.reshape(-1).to(torch.int64)
        ones = torch.ones(len(indices), dtype=torch.float64, device=indices.device)
        bounds = torch.arange(len(indices) + 1, device=indices.device)
        transitions = sparse_rows(bounds, indices, ones, (n_states * n_actions, n_states))
        return cls(transitions=transitions, rewards=rewards, gamma=gamma, **options)

    @classmethod
    def from_toy_text(cls, table: ToyText, gamma: float, **options: Any) -> TabularMDP:
        """Take P[s][a] = [(probability, next state, reward, done), ...], the table of Gymnasium's toy-text problems.

        A transition with `done` pays its reward and ends the episode. Options are the constructor's.
        """
        n_states, n_actions = len(table), len(table.get(0, ()))
        for s in range(n_states):
            if s not in table or set(table[s]) != set(range(n_actions)):
                found = f"actions {sorted(table[s])}" if s in table else "no entry"
                raise ValueError(
                    f"State {s} of {n_states} has {found}, and state 0 has {n_actions} actions. "
                    "Number states from 0, and give all of them the same actions, numbered from 0."
                )
        cells = [table[s][a] for s in range(n_states) for a in range(n_actions)]
        entries = np.array([entry for cell in cells for entry in cell], dtype=np.float64).reshape(-1, 4)
        probability, following, reward, done = (torch.from_numpy(column.copy()) for column in entries.T)
        bounds = torch.tensor([0, *(len(cell) for cell in cells)]).cumsum(0)
        transitions = sparse_rows(bounds, following.to(torch.int64), probability, (len(cells), n_states))
        return cls(transitions=transitions, rewards=reward, done=done != 0, gamma=gamma, **options)

    def describe(self) -> dict[str, Any]:
        """Name, label, sizes, stored transitions and whether episodes end."""
        return {
            "task": self.name,
            **self._label,
            "states": self.n_states,
            "actions": self.n_actions,
            "transitions": len(self._csr.data),
            "episodic": self._episodic,
            "rows_sum_to_one": self._exact_rows,
            "gamma": self.gamma,
            "device": str(self.device),
        }

    def backup(self, v: Tensor) -> Tensor:
        """All pairs, (S, A)."""
        return self._engine.block(self._values(v))

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """A full sweep: the maximum over actions (S,) and its first action (S,) int64. Terminal states give 0, 0."""
        return self._engine.improve(self._values(v))

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Listed pairs: states (K,) and actions (K,) give (K,)."""
        if states.shape != actions.shape:
            raise ValueError(
                f"backup_at needs one action for each state, got {tuple(states.shape)} and {tuple(actions.shape)}."
            )
        listed = self._listed(states, self.n_states, "state"), self._listed(actions, self.n_actions, "action")
        return self._engine.pairs(self._values(v), *listed)

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """All actions of some states, (K, A)."""
        return self._engine.block(self._values(v), states=self._listed(states, self.n_states, "state"))

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Some actions of all states, (S, K)."""
        return self._engine.block(self._values(v), actions=self._listed(actions, self.n_actions, "action"))

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,), without the transitions that end an episode."""
        if policy.shape != (self.n_states,):
            raise ValueError(f"A policy is one action for each of {self.n_states} states, got {tuple(policy.shape)}.")
        policy = self._listed(policy, self.n_actions, "action")
        states = torch.arange(self.n_states, device=self.device)
        chain = Csr(*take_rows(*self._csr, states * self.n_actions + policy))
        terminal = self.entries.terminal
        if self._has_terminal:
            chain = chain.without(terminal[chain.indices] | chain.spread(terminal))
        size = (self.n_states, self.n_states)
        if self._rising:
            transitions = sparse_rows(chain.indptr, chain.indices.to(chain.indptr.dtype), chain.data.double(), size)
        else:  # a CSR tensor needs every column once, in order
            places = torch.stack([chain.spread(states), chain.indices.to(torch.int64)])
            merged = torch.sparse_coo_tensor(places, chain.data.double(), size, check_invariants=False).coalesce()
            counts = torch.bincount(merged.indices()[0], minlength=self.n_states)
            bounds = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            transitions = sparse_rows(bounds, merged.indices()[1], merged.values(), size)
        return MarkovRewardProcess(
            reward=self.entries.reward[states, policy], transitions=transitions, gamma=self.gamma
        )

    def _values(self, v: Tensor) -> Tensor:
        """Values for backups: contiguous, and 0 in terminal states."""
        v = torch.as_tensor(v)
        if v.shape != (self.n_states,) or v.dtype not in (torch.float32, torch.float64) or v.device != self.device:
            raise ValueError(
                f"v must hold {self.n_states} values in float32 or float64 on {self.device}, "
                f"got {tuple(v.shape)}, {v.dtype} on {v.device}."
            )
        v = v.detach().contiguous()
        return v.masked_fill(self.entries.terminal, 0.0) if self._has_terminal else v

    def _listed(self, numbers: Tensor, size: int, what: str) -> Tensor:
        """Checked numbers of states or actions: a compiled backup would read past the end of the table."""
        if numbers.ndim != 1 or numbers.dtype not in (torch.int32, torch.int64) or numbers.device != self.device:
            raise ValueError(
                f"A list of {what}s has one axis and whole numbers, on {self.device}, "
                f"got {tuple(numbers.shape)}, {numbers.dtype} on {numbers.device}."
            )
        if len(numbers):
            low, high = (int(end) for end in numbers.aminmax())
            if low < 0 or high >= size:
                raise ValueError(f"There is no {what} {low if low < 0 else high}: they go from 0 to {size - 1}.")
        return numbers.to(torch.int64).contiguous()


class Csr(NamedTuple):
    """A compressed sparse matrix of n rows as tensors: indptr (n + 1,), indices (N,), data (N,)."""

    indptr: Tensor
    indices: Tensor
    data: Tensor

    def without(self, drop: Tensor) -> Csr:
        """The matrix without the entries where drop (N,) is True."""
        keep = ~drop.to(self.data.device)
        before = torch.cat([self.indptr.new_zeros(1), keep.cumsum(0, dtype=self.indptr.dtype)])
        return Csr(before[self.indptr.to(torch.int64)], self.indices[keep], self.data[keep])

    def spread(self, of_row: Tensor) -> Tensor:
        """A value of each row (n,), repeated for each of its entries (N,)."""
        return torch.repeat_interleave(of_row, self.indptr.diff().to(torch.int64))


def _read_transitions(transitions: Table) -> tuple[Csr, tuple[int, int]]:
    """The stored entries, in the caller's memory where they are CSR, and (S, A)."""
    csr = _read_csr(transitions)
    if csr is None:
        dense = _floats(transitions, "transitions")
        if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or dense.size == 0:
            raise ValueError(f"Dense transitions have the shape (S, A, S), with S and A not 0, got {dense.shape}.")
        return _read_transitions(scipy.sparse.csr_array(dense.reshape(-1, dense.shape[2])))
    shape = tuple(transitions.shape)
    if len(shape) != 2 or 0 in shape or shape[0] % shape[1]:
        raise ValueError(f"Sparse transitions have the shape (S * A, S), with S and A not 0, got {shape}.")
    if csr.indptr.shape != (shape[0] + 1,) or csr.indices.shape != csr.data.shape:
        raise ValueError(
            f"Sparse transitions with {shape[0]} rows need {shape[0] + 1} row bounds and as many columns as "
            f"probabilities, got {len(csr.indptr)} bounds, {len(csr.indices)} and {len(csr.data)}."
        )
    return csr, (shape[1], shape[0] // shape[1])


def _read_csr(table: Table) -> Csr | None:
    """The parts of a sparse matrix, or None of a dense array."""
    if isinstance(table, Tensor) and table.layout == torch.sparse_csr:
        data = table.values().detach()
        if data.dtype not in (torch.float32, torch.float64):
            data = torch.from_numpy(_floats(data, "stored entries")).to(data.device)
        return Csr(table.crow_indices(), table.col_indices(), data)
    if isinstance(table, Tensor) and table.layout != torch.strided:
        raise ValueError(f"Sparse tensors must be CSR, got {table.layout}. Call to_sparse_csr() on it.")
    if not scipy.sparse.issparse(table):
        return None
    table = table.tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns about read-only arrays; nothing writes into them
        data = torch.from_numpy(_floats(table.data, "stored entries"))
        return Csr(torch.from_numpy(table.indptr), torch.from_numpy(table.indices), data)


def _floats(array: Any, name: str) -> np.ndarray:
    """A contiguous array of float32 or float64, in the caller's memory where it already is one."""
    array = np.asarray(array.detach().cpu() if isinstance(array, Tensor) else array)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be real numbers, got {array.dtype}. Convert them to float64.")
    wanted = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(array, dtype=np.dtype(wanted).newbyteorder("="))


def _row_sums(csr: Csr, terminal: Tensor) -> tuple[float, float]:
    """Smallest and largest sum of the rows of states that are not terminal; 1 and 1 if there are none."""
    indptr = csr.indptr.cpu().numpy().astype(np.int64)
    filled = indptr[1:] > indptr[:-1]
    sums = np.zeros(len(filled))
    if filled.any():
        sums[filled] = np.add.reduceat(csr.data.cpu().numpy().astype(np.float64), indptr[:-1][filled])
    sums = sums.reshape(len(terminal), -1)[~terminal.cpu().numpy()]
    return (float(sums.min()), float(sums.max())) if sums.size else (1.0, 1.0)


def _flags(given: Any, size: int, name: str, each: str) -> Tensor:
    """A mask (size,) on the CPU, all False if none is given."""
    if given is None:
        return torch.zeros(size, dtype=torch.bool)
    flags = torch.as_tensor(given).cpu()
    if flags.dtype != torch.bool or flags.shape != (size,):
        raise ValueError(
            f"{name} needs one bool for each {each}, that is ({size},), got {flags.dtype} {tuple(flags.shape)}."
        )
    return flags


def _checked(csr: Csr, rewards: Table, terminal: Tensor) -> tuple[Tensor, bool]:
    """Expected rewards (S, A), and whether the columns of every row rise; raises for the first bad pair."""
    arrays = [part.cpu().numpy() for part in csr]
    n_states, n_actions = len(terminal), (len(csr.indptr) - 1) // len(terminal)
    flat, strides = _read_rewards(rewards, arrays, (n_states, n_actions))
    expected = np.empty((n_states, n_actions))
    tolerance = kernel.SUM_TOLERANCE
    code, row, number, rising = kernel.check(*arrays, flat, *strides, terminal.numpy(), tolerance, expected)
    if code != kernel.SOUND:
        pair = f"state {row // n_actions}, action {row % n_actions}"
        raise ValueError(_PROBLEMS[code].format(pair=pair, number=number, last=n_states - 1, tolerance=tolerance))
    return torch.from_numpy(expected), bool(rising)


def _read_rewards(
    rewards: Table, arrays: list[np.ndarray], size: tuple[int, int]
) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Rewards as a flat array, and its strides for a row, an entry and a next state."""
    n_states, n_actions = size
    csr = _read_csr(rewards)
    if csr is not None:
        if tuple(rewards.shape) != (n_states * n_actions, n_states):
            raise ValueError(
                f"Sparse rewards must have the shape of the transitions, {(n_states * n_actions, n_states)}, "
                f"got {tuple(rewards.shape)}."
            )
        return _aligned(csr, arrays, n_states), (0, 1, 0)
    dense = _floats(rewards, "rewards")
    places = {(n_states, n_actions): (1, 0, 0), (*size, n_states): (n_states, 0, 1), arrays[2].shape: (0, 1, 0)}
    if dense.shape not in places:
        raise ValueError(
            f"Rewards of {n_states} states and {n_actions} actions have the shape {size}, {(*size, n_states)} or "
            f"{arrays[2].shape} (one for each stored transition), got {dense.shape}."
        )
    return dense.reshape(-1), places[dense.shape]


def _aligned(csr: Csr, arrays: list[np.ndarray], n_states: int) -> np.ndarray:
    """Sparse rewards in the order of the stored transitions."""
    indptr, indices, data = (part.cpu().numpy() for part in csr)
    if np.array_equal(indptr, arrays[0]) and np.array_equal(indices, arrays[1]):
        return data
    ordered = scipy.sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_states), copy=True)
    ordered.check_format(full_check=True)
    ordered.sum_duplicates()
    out = np.empty(arrays[2].shape)
    kernel.align(*arrays[:2], ordered.indptr, ordered.indices, ordered.data, out)
    return out
