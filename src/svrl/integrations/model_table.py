"""A known model as arrays for other libraries, from arrays of theirs, and as a file.

    closed(model)                            CSR transitions (S * A, S) whose rows sum to 1, and rewards (S, A)
    mdp_from_pairs(states=, actions=, ...)   a model from a list of pairs
    save_mdp(model, "mdp.npz")               load_mdp("mdp.npz")

Other libraries know neither terminal states nor transitions that end an episode: they want rows that sum to 1.
`closed` gives them such rows without changing the value of any state. A terminal state stays where it is and is
paid nothing. What ends an episode leads to one more state, number S, which is never left and pays nothing.

Some of them let a state have fewer actions than another. `mdp_from_pairs` gives the missing pairs a place in the
table: they stay where they are and are paid less than any pair that is there,

    r(s, a) = low - (high - low)        with low and high the smallest and largest reward that is there

As V*(s) >= low / (1 - discount), staying is worth V*(s) - (1 - discount) V*(s) + r(s, a) < V*(s): the optimal values
are those of the problem as it was given, and no optimal policy takes such a pair.

A file is one .npz whose entries are the arguments of `TabularMDP`, each an array that NumPy alone can read:

    format, version               "svrl-mdp", 1
    indptr, indices, data         CSR transitions (S * A, S), row s * A + a, N stored entries; rows sum to 1
    done                          (N,), bool: such a transition ends the episode
    rewards                       (S, A), expected
    terminal                      (S,), bool
    discount                      a number in (0, 1)
    name, label                   text, the label as JSON

It gives a model that answers bit for bit like the one that was saved. An MDP forgets where its last transitions went,
so those that are done are written as leading to some state. Nothing is pickled, and a file is the old one or the
whole new one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP
from svrl.runtime.files import writing

ROUNDING = 1e-12
"""What a row may miss by rounding alone."""
FORMAT, VERSION = "svrl-mdp", 1
ENTRIES = ("indptr", "indices", "data", "done", "rewards", "terminal", "discount", "name", "label")


class ModelTable(NamedTuple):
    """A finite MDP of S states and A actions as NumPy and SciPy arrays, in which no episode ends.

    Attributes:
        transitions: CSR (S * A, S), row s * A + a; rows sum to 1.
        rewards: (S, A), float64, expected.
        discount: In (0, 1).
    """

    transitions: scipy.sparse.csr_array
    rewards: np.ndarray
    discount: float


class _Stored(NamedTuple):
    """What a model keeps: rows (S * A, S), and rewards (S, A); terminal states (S,) have the value 0 whatever they say.

    `missing` (S * A,) is the probability that a pair ends the episode: 0 where a row misses 1 by rounding, or is of no
    account. `episodic` says whether episodes can end at all.
    """

    rows: scipy.sparse.csr_array
    rewards: np.ndarray
    terminal: np.ndarray
    missing: np.ndarray
    episodic: bool


def _stored(model: Model) -> _Stored:
    """The arrays of a model, on its own memory where it is a `TabularMDP` on the CPU."""
    if isinstance(model, TabularMDP):
        entries = model.entries
        parts = (entries.data, entries.indices, entries.indptr)
        size = (model.n_states * model.n_actions, model.n_states)
        rows = scipy.sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=size)
        rewards, terminal = entries.reward.cpu().numpy(), entries.terminal.cpu().numpy()
    elif isinstance(model, Model):
        rows, rewards = _by_chains(model)
        terminal = np.zeros(model.n_states, dtype=bool)
    else:
        raise ValueError(f"Only a model has a table of transitions, got {type(model).__name__}. Tabulate it first.")
    missing = 1.0 - np.asarray(rows.sum(axis=1, dtype=np.float64)).reshape(-1)
    episodic = bool(model.describe().get("episodic", missing.max() > 1e-6))
    unused = np.repeat(terminal, model.n_actions) & (np.diff(rows.indptr) == 0)
    missing = np.where((missing > ROUNDING) & ~unused & episodic, missing, 0.0)
    return _Stored(rows, rewards, terminal, missing, episodic)


def _by_chains(model: Model) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Rows and rewards of a model that is no table, which is asked for the chain of each action."""
    n_states, n_actions = model.n_states, model.n_actions
    rewards, of_actions = np.empty((n_states, n_actions)), []
    for action in range(n_actions):
        chain = model.under(torch.full((n_states,), action, dtype=torch.int64, device=model.device))
        rewards[:, action] = chain.reward.cpu().numpy()
        rows = chain.transitions
        parts = (rows.values(), rows.col_indices(), rows.crow_indices())
        found = scipy.sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=tuple(rows.shape))
        found.sum_duplicates()
        of_actions.append(found)
    stacked = scipy.sparse.vstack(of_actions, format="csr")
    return stacked[np.arange(n_actions * n_states).reshape(n_actions, n_states).T.reshape(-1)], rewards


def closed(model: Model) -> ModelTable:
    """The arrays of a model with rows that sum to 1: S states, or S + 1 where transitions end an episode.

    Args:
        model: A `TabularMDP`, a `GridMDP`, or another model; S states and A actions.

    Returns:
        A table without terminal states and without ends. The values of the first S states are the model's.
    """
    rows, rewards, terminal, missing, _ = _stored(model)
    n_states, n_actions = rewards.shape
    over = np.repeat(terminal, n_actions)
    dead, ending = np.flatnonzero(over), np.flatnonzero((missing > 0.0) & ~over)
    entries = scipy.sparse.coo_array(rows).astype(np.float64)
    keep = ~terminal[entries.row // n_actions]
    size = n_states + (len(ending) > 0)
    last = np.arange(n_states * n_actions, size * n_actions)
    places = (
        np.concatenate([entries.row[keep], dead, ending, last]),
        np.concatenate([entries.col[keep], dead // n_actions, np.full(len(ending) + len(last), n_states)]),
    )
    weights = np.concatenate([entries.data[keep], np.ones(len(dead)), missing[ending], np.ones(len(last))])
    return ModelTable(
        transitions=scipy.sparse.csr_array((weights, places), shape=(size * n_actions, size)),
        rewards=np.concatenate([rewards, np.zeros((size - n_states, n_actions))]),
        discount=model.discount,
    )


def mdp_from_pairs(
    *, states: np.ndarray, actions: np.ndarray, transitions: Any, rewards: np.ndarray, discount: float, name: str
) -> TabularMDP:
    """A finite MDP from a list of L pairs, in any order; pairs that are missing are filled in as above.

    Args:
        states: (L,), whole numbers.
        actions: (L,), whole numbers; A is the largest of them plus 1.
        transitions: (L, S), dense or SciPy sparse.
        rewards: (L,). A pair that pays -inf counts as missing.
        discount: In (0, 1).
        name: Of the problem.

    Returns:
        S states and A actions. `describe()` says under "infeasible_pairs" how many pairs were filled in, 0 included.

    Raises:
        ValueError: If a pair is listed twice, a state has no action, or a row is wrong.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    n_states, n_actions = int(transitions.shape[1]), int(np.max(actions, initial=0)) + 1
    states, actions = np.asarray(states, dtype=np.int64), np.asarray(actions, dtype=np.int64)
    if not (states.shape == actions.shape == rewards.shape == transitions.shape[:1]):
        raise ValueError(
            f"A list of pairs has as many states, actions, rewards and rows of transitions, got {states.shape}, "
            f"{actions.shape}, {rewards.shape} and {transitions.shape}."
        )
    if np.any(actions < 0) or np.any((states < 0) | (states >= n_states)):
        raise ValueError(f"Pairs have states 0 to {n_states - 1} and actions from 0, and some are outside of that.")
    listed = np.flatnonzero(rewards != -np.inf)
    pairs = (states * n_actions + actions)[listed]
    counts = np.bincount(pairs, minlength=n_states * n_actions)
    if counts.max(initial=0) > 1:
        raise ValueError(f"{_pair(int(counts.argmax()), n_actions)} is listed twice. List every pair once.")
    idle = np.flatnonzero(counts.reshape(n_states, n_actions).sum(axis=1) == 0)
    if len(idle):
        raise ValueError(f"State {idle[0]} has no action with a finite reward. Give every state at least one.")
    rows = scipy.sparse.csr_array(transitions)
    order = listed[np.argsort(pairs)]
    absent = np.flatnonzero(counts == 0)
    if len(order) < rows.shape[0] or np.any(np.diff(order) != 1):
        rows = rows[order]
    paid = rewards[order]
    if len(absent):
        rows, paid = _filled(rows, paid, absent, counts, n_actions)
    return TabularMDP(
        transitions=rows,
        rewards=paid.reshape(n_states, n_actions),
        discount=discount,
        name=name,
        label={"infeasible_pairs": len(absent)},
    )


def _filled(
    rows: scipy.sparse.csr_array, paid: np.ndarray, absent: np.ndarray, counts: np.ndarray, n_actions: int
) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Rows and rewards of all pairs, from those of the pairs that are there."""
    entries = rows.tocoo()
    there = np.flatnonzero(counts)
    weights = np.concatenate([entries.data, np.ones(len(absent))])
    places = np.concatenate([there[entries.row], absent]), np.concatenate([entries.col, absent // n_actions])
    low, high = float(paid.min()), float(paid.max())
    every = np.full(len(counts), low - ((high - low) or abs(low) or 1.0))
    every[there] = paid
    return scipy.sparse.csr_array((weights, places), shape=(len(counts), rows.shape[1])), every


def _pair(row: int, n_actions: int) -> str:
    return f"The pair of state {row // n_actions} and action {row % n_actions}"


def save_mdp(model: Model, file: str | Path) -> None:
    """Write a model of S states and A actions; a `GridMDP` is written out as a table.

    Raises:
        ValueError: If the file does not end in .npz, or there is no model.
    """
    if Path(file).suffix != ".npz":
        raise ValueError(f"A file of an MDP ends in .npz, got {Path(file).name!r}.")
    stored = _stored(model)
    transitions, done = _with_ends(stored)
    label = model.describe()
    if isinstance(model, TabularMDP):  # what it works out itself is no label
        worked_out = ("task", "states", "actions", "transitions", "episodic", "rows_sum_to_one", "discount", "device")
        label = {key: value for key, value in label.items() if key not in worked_out}
    with writing(Path(file)) as temporary, temporary.open("wb") as opened:
        np.savez(
            opened,
            format=np.array(FORMAT),
            version=np.array(VERSION),
            indptr=transitions.indptr,
            indices=transitions.indices,
            data=transitions.data,
            done=done,
            rewards=stored.rewards,
            terminal=stored.terminal,
            discount=np.array(model.discount),
            name=np.array(str(model.describe().get("task", "tabular"))),
            label=np.array(json.dumps(label)),
        )


def load_mdp(file: str | Path, *, device: str = "cpu") -> TabularMDP:
    """Read what `save_mdp` wrote.

    Args:
        file: Its path.
        device: Where backups are to be done.

    Raises:
        ValueError: If the file is damaged, is no file of `save_mdp`, or holds no MDP.
        OSError: If it cannot be opened.
    """
    path = Path(file)
    with path.open("rb") as opened:
        try:
            with np.load(opened, allow_pickle=False) as entries:
                kind = str(entries["format"]), int(entries["version"])
                found = {name: entries[name] for name in ENTRIES} if kind == (FORMAT, VERSION) else {}
        except Exception as error:  # a damaged archive fails in as many ways as it has parts
            raise ValueError(f"{path} is damaged, or was not written by save_mdp, and cannot be read.") from error
    if not found:
        raise ValueError(f"{path} is {kind[0]} of version {kind[1]}, and {FORMAT} {VERSION} can be read. Update svrl.")
    size = (len(found["indptr"]) - 1, len(found["terminal"]))
    try:
        rows = scipy.sparse.csr_array(tuple(found[name] for name in ("data", "indices", "indptr")), shape=size)
    except ValueError as error:
        raise ValueError(f"The transitions in {path} are no CSR matrix: {error}. Write the file again.") from error
    return TabularMDP(
        transitions=rows,
        rewards=found["rewards"],
        discount=float(found["discount"]),
        terminal=found["terminal"],
        done=found["done"],
        device=device,
        name=str(found["name"]),
        label=json.loads(str(found["label"])),
    )


def _with_ends(stored: _Stored) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Transitions (S * A, S) with what ends an episode as entries of their own, and which those are (N,)."""
    rows, missing = stored.rows, stored.missing
    ending = missing > 0.0
    if stored.episodic and not stored.terminal.any() and not ending.any():
        ending[0] = True  # an end of probability 0 is what makes this MDP one of episodes
    places = rows.indptr[1:][ending]
    last = np.where(np.diff(rows.indptr)[ending] > 0, rows.indices[places - 1], -1)
    columns = np.minimum(last + 1, rows.shape[1] - 1)  # behind the others, where there is room
    return (
        scipy.sparse.csr_array(
            (
                np.insert(rows.data, places, missing[ending]),
                np.insert(rows.indices, places, columns),
                rows.indptr + np.r_[0, np.cumsum(ending)],
            ),
            shape=rows.shape,
        ),
        np.insert(np.zeros(len(rows.data), dtype=bool), places, True),
    )
