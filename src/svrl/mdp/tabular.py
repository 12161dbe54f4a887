"""TabularMDP: a finite MDP given by its table of transitions and rewards.

    Q(s, a) = r(s, a) + gamma * sum_s' P(s' | s, a) v(s')

The transitions are one compressed sparse (CSR) matrix (S * A, S), row s * A + a. With indptr (S * A + 1,), indices and
data (N,), as SciPy names them, row k holds the entries indptr[k] <= j < indptr[k + 1]. A SciPy or torch CSR matrix is
used without a copy. Backups on the CPU are compiled; on CUDA they are sparse products in torch. Both sum in float64
and round once to the dtype of v.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from svrl.matrix.arrays import check_whole
from svrl.mdp.model import (
    MarkovRewardProcess,
    check_discount,
    check_pairs,
    check_policy,
    check_rewards,
    checked_numbers,
    checked_values,
    sparse_rows,
    summary,
)
from svrl.runtime.device import check_device
from svrl.runtime.kernels import njit, share_out

Table: TypeAlias = Any
"""A NumPy array, a torch tensor (dense or sparse CSR), or a SciPy sparse matrix."""
ToyText: TypeAlias = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
"""P[s][a] = [(probability, next state, reward, done), ...]."""
LEAST = 1 << 15
"""Stored entries worth a thread."""
SUM_TOLERANCE = 1e-6
"""The sum of a pair's probabilities may differ from 1 by this much."""
SOUND, BAD_BOUNDS, BAD_PROBABILITY, BAD_INDEX, BAD_REWARD, BAD_SUM = range(6)
PROBLEMS = {
    BAD_BOUNDS: "The row bounds of the transitions are broken at {pair}, where they reach {number:.0f}. "
    "Bounds start at 0, never fall and end at the number of stored entries.",
    BAD_PROBABILITY: "A transition probability of {pair} is {number:g}. Make it finite and not negative.",
    BAD_INDEX: "A next state of {pair} is {number:.0f}, but states are numbered from 0 to {last}. Correct its column.",
    BAD_REWARD: "The expected reward of {pair} is {number:g}. Make its rewards finite.",
    BAD_SUM: "The transition probabilities of {pair} sum to {number:.9g}, which is not 1 within {tolerance:g}. "
    "Normalise them.",
}
DRAWS = {"uniform": torch.rand, "normal": torch.randn}
COMPILE: dict[str, Any] = {
    # Sums of a few gathered numbers take 2 to 5 times as long once reassociation lets LLVM vectorise them.
    "fastmath": {"contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}


class TabularMDP:
    """A finite MDP; implements `Model`.

    Attributes:
        n_states: S.
        n_actions: A.
        gamma: Discount factor in (0, 1).
        device: The device of the table and of `v`.
        reward_range: Smallest and largest expected reward of a pair, with 0 included if episodes can end.
        name: Name of the problem.
        entries: The table itself: transitions, expected rewards (S, A) and terminal states (S,).
        largest_row_sum: The largest sum of the probabilities of a pair. Rounding may make it a little more than 1.
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
            gamma: Discount factor in (0, 1).
            terminal: (S,), bool. These states pay nothing, have no next state, and have value 0, whatever `v` says.
                Their rows may be empty.
            done: (N,), bool, in the order of the N entries of CSR transitions. Such a transition pays its reward
                and ends the episode.
            device: The device of backups.
            name: Name of the problem, for `describe`.
            label: More entries for `describe`; JSON types only.

        Raises:
            ValueError: If shapes do not fit, or if a row is wrong. The message names its state and action.
        """
        check_device(device)
        self.gamma = check_discount("TabularMDP", gamma)
        csr, (self.n_states, self.n_actions) = _read_transitions(transitions)
        self.name = name
        self._label = dict(label or {})
        mask = _flags(terminal, self.n_states, "terminal", "state")
        reward, self._rising = _checked(csr, rewards, mask)
        ends = _flags(done, len(csr.data), "done", "stored transition")
        if bool(ends.any()):
            csr = csr.without(ends)
        least, self.largest_row_sum = _row_sums(csr, mask)
        # Bounds that rely on rows that sum to 1 would be wrong by the difference over 1 - gamma.
        self._exact_rows = max(1.0 - least, self.largest_row_sum - 1.0) <= 1e-12
        self._episodic = bool(mask.any()) or bool(ends.any())
        nothing = [0.0] if self._episodic else []  # an ended episode pays 0 from then on
        self.reward_range = (min([float(reward.min()), *nothing]), max([float(reward.max()), *nothing]))
        check_rewards("TabularMDP", self.reward_range, self.gamma)
        csr = Csr(*(part.to(device) for part in csr))
        self.entries = Entries(*csr, reward.to(device), mask.to(device))
        self.device = self.entries.reward.device
        self._actions = torch.arange(self.n_actions, device=self.device)
        self._firsts = torch.arange(self.n_states, device=self.device) * self.n_actions  # row of a state's action 0
        if bool(mask.any()):  # terminal states have no next state, and add nothing to the value of others
            over = self.entries.terminal
            csr = csr.without(over[csr.indices] | csr.spread(over.repeat_interleave(self.n_actions)))
        self._csr, engine = csr, Compiled if self.device.type == "cpu" else Products
        self._engine = engine(csr, self.entries.reward, self.gamma)

    def __repr__(self) -> str:
        return summary(self, self.name, f"{len(self.entries.data):,} transitions")

    @classmethod
    def deterministic(cls, *, following: Tensor, rewards: Table, gamma: float, **options: Any) -> TabularMDP:
        """Create an MDP with one next state per pair: following (S, A), integers. Options go to the constructor."""
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
        """Read P[s][a] = [(probability, next state, reward, done), ...], the table of Gymnasium's toy-text problems.

        A transition with `done` pays its reward and ends the episode. Options go to the constructor.
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
            "transitions": len(self.entries.data),
            "episodic": self._episodic,
            "rows_sum_to_one": self._exact_rows,
            "gamma": self.gamma,
            "device": str(self.device),
        }

    def backup(self, v: Tensor) -> Tensor:
        """Back up all pairs, (S, A)."""
        return self._engine.backup(checked_values(self, v))

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Run a full sweep: the maximum over actions (S,) and its first action (S,) int64; 0, 0 in terminal states."""
        return self._engine.improve(checked_values(self, v))

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Back up listed pairs: states (K,) and actions (K,) give (K,)."""
        check_pairs(states, actions)
        rows = self._listed("state", states) * self.n_actions + self._listed("action", actions)
        return self._engine.backup(checked_values(self, v), rows, self._actions[:1])[:, 0]

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """Back up all actions of some states, (K, A)."""
        rows = self._listed("state", states) * self.n_actions
        return self._engine.backup(checked_values(self, v), rows, self._actions)

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Back up some actions of all states, (S, K)."""
        return self._engine.backup(checked_values(self, v), self._firsts, self._listed("action", actions))

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,), without the transitions that end an episode."""
        check_policy(self, policy)
        rows = self._firsts + self._listed("action", policy)
        chain = self._csr.rows(rows)
        size = (self.n_states, self.n_states)
        if self._rising:
            transitions = sparse_rows(chain.indptr, chain.indices.to(chain.indptr.dtype), chain.data.double(), size)
        else:  # a CSR tensor needs every column once, in order
            states = torch.arange(self.n_states, device=self.device)
            places = torch.stack([chain.spread(states), chain.indices.to(torch.int64)])
            merged = torch.sparse_coo_tensor(places, chain.data.double(), size, check_invariants=False).coalesce()
            counts = torch.bincount(merged.indices()[0], minlength=self.n_states)
            bounds = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            transitions = sparse_rows(bounds, merged.indices()[1], merged.values(), size)
        reward = self.entries.reward.reshape(-1)[rows]
        return MarkovRewardProcess(reward=reward, transitions=transitions, gamma=self.gamma)

    def _listed(self, what: Literal["state", "action"], numbers: Tensor) -> Tensor:
        return checked_numbers(what, numbers, self.n_states if what == "state" else self.n_actions)


def toy_mdp(
    generator: torch.Generator | int,
    *,
    n_states: int = 1000,
    n_actions: int = 100,
    gamma: float = 0.95,
    reward: Literal["uniform", "normal"] = "uniform",
    device: str | torch.device = "cpu",
) -> TabularMDP:
    """Draw the paper's toy MDP: a random problem whose optimal Q is nevertheless close to low rank.

    Every pair leads to one next state, drawn uniformly, and pays one reward, drawn once. The defaults are those of
    Fig. 1 in Yang et al., "Harnessing Structures for Value-Based Planning and Reinforcement Learning", ICLR 2020.
    Rewards from N(0, 1) do not reproduce that figure. Equal seeds give equal problems on every device.

    Args:
        generator: A torch generator, which draws the next states and then the rewards; or a seed.
        n_states: S.
        n_actions: A.
        gamma: Discount factor in (0, 1).
        reward: "uniform" draws from U(0, 1), and "normal" from N(0, 1).
        device: Device of the model.
    """
    if reward not in DRAWS:
        raise ValueError(f"The toy MDP draws rewards from {' or '.join(DRAWS)}, got {reward!r}.")
    check_whole("The toy MDP", n_states=n_states, n_actions=n_actions)
    label: dict[str, object] = {"reward": reward}
    if not isinstance(generator, torch.Generator):
        label["seed"] = seed = operator.index(generator)
        generator = torch.Generator().manual_seed(seed)
    source = generator.device
    following = torch.randint(n_states, (n_states * n_actions,), generator=generator, device=source)
    return TabularMDP.deterministic(
        following=following.reshape(n_states, n_actions),
        rewards=DRAWS[reward](n_states, n_actions, generator=generator, dtype=torch.float64, device=source),
        gamma=gamma,
        device=device,
        name="toy",
        label=label,
    )


class Entries(NamedTuple):
    """A finite MDP as tensors on one device. Rows of `data` sum to less than 1 where an episode may end."""

    indptr: Tensor  # (S * A + 1,), int32 or int64
    indices: Tensor  # (N,), next states, int32 or int64
    data: Tensor  # (N,), probabilities, float32 or float64
    reward: Tensor  # (S, A), float64, expected; 0 in terminal states
    terminal: Tensor  # (S,), bool


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
        """Repeat the value of each row (n,) for each of its entries (N,)."""
        return torch.repeat_interleave(of_row, self.indptr.diff().to(torch.int64))

    def rows(self, rows: Tensor) -> Csr:
        """The matrix with only the rows (K,)."""
        starts, counts = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        bounds = torch.cat([self.indptr.new_zeros(1), counts.cumsum(0, dtype=self.indptr.dtype)])
        within = torch.arange(int(bounds[-1]), device=rows.device)
        entries = within + torch.repeat_interleave((starts - bounds[:-1]).to(torch.int64), counts)
        return Csr(bounds, self.indices[entries], self.data[entries])


class Compiled:
    """Backups by the CPU kernels, on as many threads as torch uses."""

    def __init__(self, csr: Csr, reward: Tensor, gamma: float) -> None:
        self._arguments = (*(part.numpy() for part in csr), reward.reshape(-1).numpy(), gamma)
        n_states, self._n_actions = reward.shape
        self._firsts, self._actions = np.arange(n_states) * self._n_actions, np.arange(self._n_actions)
        self._per_pair = 1 + len(csr.data) // reward.numel()

    def backup(self, v: Tensor, rows: Tensor | None = None, offsets: Tensor | None = None) -> Tensor:
        """Back up the pairs at each of `rows` (K,) plus each of `offsets` (L,): (K, L); without them (S, A)."""
        firsts = self._firsts if rows is None else rows.numpy()
        actions = self._actions if offsets is None else offsets.numpy()
        out = torch.empty(len(firsts), len(actions), dtype=v.dtype)
        given = (*self._arguments, v.numpy(), firsts, actions)
        self._share_out(lambda low, high: backup_rows(*given, low, high, out.numpy()), *out.shape)
        return out

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Maximum and first maximiser over actions, each (S,)."""
        best, action = torch.empty_like(v), torch.empty(len(v), dtype=torch.int64)
        given, found = (*self._arguments, v.numpy(), self._n_actions), (best.numpy(), action.numpy())
        self._share_out(lambda low, high: improve(*given, low, high, *found), len(v), self._n_actions)
        return best, action

    def _share_out(self, work: Any, size: int, pairs_each: int) -> None:
        share_out(work, size, torch.get_num_threads(), least=1 + LEAST // max(1, self._per_pair * pairs_each))


class Products:
    """The same backups by torch's sparse matrix products, for CUDA and as the reference of the kernels."""

    def __init__(self, csr: Csr, reward: Tensor, gamma: float) -> None:
        self._reward, self._gamma = reward, gamma
        # Sparse products need one dtype for both index arrays, and float64.
        self._csr = Csr(csr.indptr, csr.indices.to(csr.indptr.dtype), csr.data.double())
        self._matrix = sparse_rows(*self._csr, (reward.numel(), len(reward)))

    def backup(self, v: Tensor, rows: Tensor | None = None, offsets: Tensor | None = None) -> Tensor:
        """As in `Compiled`."""
        matrix, reward = self._matrix, self._reward
        if rows is not None and offsets is not None:
            places = rows[:, None] + offsets
            matrix = sparse_rows(*self._csr.rows(places.reshape(-1)), (places.numel(), len(v)))
            reward = reward.reshape(-1)[places]
        return (reward + self._gamma * (matrix @ v.double()).reshape(reward.shape)).to(v.dtype)

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Compiled`. Forms Q, which has the size of the stored rewards."""
        top = self.backup(v).max(1)
        return top.values, top.indices


@njit(inline="always", **COMPILE)
def _pair(indptr, indices, data, reward, gamma, v, row):  # type: ignore[no-untyped-def]
    """One backup, in the dtype of v."""
    total = 0.0
    # Unsigned, because numba tests signed indices for counting from the end.
    for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += np.float64(data[k]) * np.float64(v[np.uint64(indices[k])])
    return v.dtype.type(reward[row] + gamma * total)


@njit(**COMPILE)
def backup_rows(indptr, indices, data, reward, gamma, v, rows, offsets, low, high, out):  # type: ignore[no-untyped-def]
    """Back up the pairs at rows[low..high-1] plus each of the offsets: out (len(rows), len(offsets))."""
    for i in range(low, high):
        for k in range(len(offsets)):
            out[i, k] = _pair(indptr, indices, data, reward, gamma, v, rows[i] + offsets[k])


@njit(**COMPILE)
def improve(indptr, indices, data, reward, gamma, v, n_actions, low, high, best, action):  # type: ignore[no-untyped-def]
    """Maximum and first maximiser over the actions of states low..high-1; NaN counts as the largest."""
    for s in range(low, high):
        row = s * n_actions
        top, first = _pair(indptr, indices, data, reward, gamma, v, row), 0
        for a in range(1, n_actions):
            value = _pair(indptr, indices, data, reward, gamma, v, row + a)
            if value > top or (np.isnan(value) and not np.isnan(top)):
                top = value
                first = a
        best[s] = top
        action[s] = first


@njit(**COMPILE)
def _check(indptr, indices, data, rewards, per_row, per_entry, per_next, terminal, tolerance, expected):  # type: ignore[no-untyped-def]
    """Look for the first error in one pass over the stored entries, and fill `expected` (S, A) with expected rewards.

    The reward of entry k, in a row and with next state j, is rewards[per_row * row + per_entry * k + per_next * j].
    If per_entry and per_next are 0, it is the reward of the pair. Rows of terminal states (S,) may be empty, the others
    sum to 1 within the tolerance. Returns the code of the error, its row and number, and whether columns rise in rows.
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


def _checked(csr: Csr, rewards: Table, terminal: Tensor) -> tuple[Tensor, bool]:
    """Return expected rewards (S, A), and whether the columns of every row rise; raise for the first bad pair."""
    arrays = [part.cpu().numpy() for part in csr]
    n_states, n_actions = len(terminal), (len(csr.indptr) - 1) // len(terminal)
    flat, strides = _read_rewards(rewards, arrays, (n_states, n_actions))
    expected = np.empty((n_states, n_actions))
    code, row, number, rising = _check(*arrays, flat, *strides, terminal.numpy(), SUM_TOLERANCE, expected)
    if code != SOUND:
        pair = f"state {row // n_actions}, action {row % n_actions}"
        raise ValueError(PROBLEMS[code].format(pair=pair, number=number, last=n_states - 1, tolerance=SUM_TOLERANCE))
    return torch.from_numpy(expected), bool(rising)


def _read_transitions(transitions: Table) -> tuple[Csr, tuple[int, int]]:
    """The stored entries, in the caller's memory if they are CSR, and (S, A)."""
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
            f"probabilities, got {len(csr.indptr)} bounds, {len(csr.indices)} columns, {len(csr.data)} probabilities."
        )
    return csr, (shape[1], shape[0] // shape[1])


def _read_csr(table: Table) -> Csr | None:
    """The parts of a sparse matrix, or None for a dense array."""
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


def _read_rewards(
    rewards: Table, arrays: list[np.ndarray], size: tuple[int, int]
) -> tuple[np.ndarray, tuple[int, int, int]]:
    """Rewards as a flat array, and its strides for a row, an entry and a next state."""
    indptr, indices, data = arrays
    n_states, n_actions = size
    csr = _read_csr(rewards)
    if csr is not None:
        shape = (n_states * n_actions, n_states)
        if tuple(rewards.shape) != shape:
            raise ValueError(
                f"Sparse rewards must have the shape of the transitions, {shape}, got {tuple(rewards.shape)}."
            )
        bounds, columns, values = (part.cpu().numpy() for part in csr)
        if not (np.array_equal(bounds, indptr) and np.array_equal(columns, indices)):  # in the order of transitions
            stored = scipy.sparse.csr_matrix((values, columns, bounds), shape=shape, copy=True)
            stored.sum_duplicates()
            rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
            values = np.asarray(stored[rows, indices.copy()]).reshape(-1)  # SciPy must not write to torch's memory
        return values, (0, 1, 0)
    dense = _floats(rewards, "rewards")
    places = {size: (1, 0, 0), (*size, n_states): (n_states, 0, 1), data.shape: (0, 1, 0)}
    if dense.shape not in places:
        raise ValueError(
            f"Rewards of {n_states} states and {n_actions} actions have the shape {size}, {(*size, n_states)} or "
            f"{data.shape} (one for each stored transition), got {dense.shape}."
        )
    return dense.reshape(-1), places[dense.shape]


def _floats(array: Any, name: str) -> np.ndarray:
    """A contiguous array of float32 or float64, in the caller's memory if it already is one."""
    array = np.asarray(array.detach().cpu() if isinstance(array, Tensor) else array)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be real numbers, got {array.dtype}. Convert them to float64.")
    wanted = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(array, dtype=np.dtype(wanted).newbyteorder("="))


def _flags(given: Any, size: int, name: str, each: str) -> Tensor:
    """A mask (size,) on the CPU; all False by default."""
    flags = torch.zeros(size, dtype=torch.bool) if given is None else torch.as_tensor(given).cpu()
    if flags.dtype != torch.bool or flags.shape != (size,):
        raise ValueError(
            f"{name} needs one bool for each {each}, that is ({size},), got {flags.dtype} {tuple(flags.shape)}."
        )
    return flags


def _row_sums(csr: Csr, terminal: Tensor) -> tuple[float, float]:
    """Smallest and largest row sum over states that are not terminal; 1 and 1 if there are none."""
    indptr = csr.indptr.cpu().numpy().astype(np.int64)
    filled = indptr[1:] > indptr[:-1]
    sums = np.zeros(len(filled))
    if filled.any():
        sums[filled] = np.add.reduceat(csr.data.cpu().numpy().astype(np.float64), indptr[:-1][filled])
    sums = sums.reshape(len(terminal), -1)[~terminal.cpu().numpy()]
    return (float(sums.min()), float(sums.max())) if sums.size else (1.0, 1.0)
