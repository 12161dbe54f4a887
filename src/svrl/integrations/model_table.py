"""A known model as arrays for other libraries, from their arrays, and as a file.

    closed(model)                            CSR transitions (S * A, S) whose rows sum to 1, and rewards (S, A)
    mdp_from_pairs(states=, actions=, ...)   a model from a list of pairs
    save_mdp(model, "mdp.npz")               load_mdp("mdp.npz")

Other libraries know neither terminal states nor transitions that end an episode: they want rows that sum to 1.
`closed` gives them such rows without changing the value of any state. A terminal state stays where it is and is
paid nothing. What ends an episode leads to one more state, number S, which is never left and pays nothing.

Some of them let a state have fewer actions than another. `mdp_from_pairs` gives the missing pairs a place in the
table: they stay where they are and are paid less than any pair that is there,

    r(s, a) = low - (high - low)        with low and high the smallest and largest reward that is there

As V*(s) >= low / (1 - gamma), staying is worth V*(s) - (1 - gamma) V*(s) + r(s, a) < V*(s): the optimal values
are those of the problem as it was given, and no optimal policy takes such a pair.

A file is one .npz whose entries are the arguments of `TabularMDP`, each an array that NumPy alone can read:

    format, version               "svrl-mdp", 2
    indptr, indices, data         CSR transitions (S * A, S), row s * A + a, N stored entries; rows sum to 1
    done                          (N,), bool: such a transition ends the episode
    rewards                       (S, A), expected
    terminal                      (S,), bool
    gamma                         a number in (0, 1)
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
from torch import Tensor

from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP
from svrl.runtime.files import writing

ROUNDING = 1e-12
"""What a row may miss by rounding alone."""
FORMAT, VERSION = "svrl-mdp", 2


class ModelTable(NamedTuple):
    """A finite MDP of S states and A actions as NumPy and SciPy arrays, in which no episode ends.

    Attributes:
        transitions: CSR (S * A, S), row s * A + a; rows sum to 1.
        rewards: (S, A), float64, expected.
        gamma: In (0, 1).
    """

    transitions: scipy.sparse.csr_array
    rewards: np.ndarray
    gamma: float


def tabulated(model: Model) -> TabularMDP:
    """The model itself if it is a table; the table of a `GridMDP` or another model, made action by action."""
    if isinstance(model, TabularMDP):
        return model
    if not isinstance(model, Model):
        raise ValueError(f"Only a model has a table of transitions, got {type(model).__name__}. Tabulate it first.")
    n_states, n_actions = model.n_states, model.n_actions
    rewards, of_actions = np.empty((n_states, n_actions)), []
    for action in range(n_actions):
        chain = model.policy_chain(torch.full((n_states,), action, dtype=torch.int64, device=model.device))
        rewards[:, action] = chain.reward.cpu().numpy()
        rows = chain.transitions
        of_actions.append(_csr(rows.values(), rows.col_indices(), rows.crow_indices(), (n_states, n_states)))
        of_actions[-1].sum_duplicates()
    stacked = scipy.sparse.vstack(of_actions, format="csr")
    about = model.describe()
    return TabularMDP(
        transitions=stacked[np.arange(n_actions * n_states).reshape(n_actions, n_states).T.reshape(-1)],
        rewards=rewards,
        gamma=model.gamma,
        name=str(about.get("task", "tabular")),
        label=about,
    )


def _csr(data: Tensor, indices: Tensor, indptr: Tensor, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((data.cpu().numpy(), indices.cpu().numpy(), indptr.cpu().numpy()), shape=shape)


def _rows(table: TabularMDP) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Transitions (S * A, S) that go on, and the probability (S * A,) that a pair ends the episode."""
    entries, n_actions = table.entries, table.n_actions
    rows = _csr(entries.data, entries.indices, entries.indptr, (table.n_states * n_actions, table.n_states))
    missing = 1.0 - np.asarray(rows.sum(axis=1, dtype=np.float64)).reshape(-1)
    unused = np.repeat(entries.terminal.cpu().numpy(), n_actions) & (np.diff(rows.indptr) == 0)
    ends = (missing > ROUNDING) & ~unused & table.describe()["episodic"]
    return rows, np.where(ends, missing, 0.0)


def closed(model: Model) -> ModelTable:
    """The arrays of a model with rows that sum to 1: S states, or S + 1 where transitions end an episode.

    Args:
        model: A `TabularMDP`, a `GridMDP`, or another model; S states and A actions.

    Returns:
        A table without terminal states and without ends. The values of the first S states are the model's.
    """
    table = tabulated(model)
    rows, missing = _rows(table)
    rewards = table.entries.reward.cpu().numpy()
    n_states, n_actions = rewards.shape
    over = np.repeat(table.entries.terminal.cpu().numpy(), n_actions)
    dead, ending = np.flatnonzero(over), np.flatnonzero((missing > 0.0) & ~over)
    entries = scipy.sparse.coo_array(rows).astype(np.float64)
    keep = ~over[entries.row]
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
        gamma=model.gamma,
    )


def mdp_from_pairs(
    *, states: np.ndarray, actions: np.ndarray, transitions: Any, rewards: np.ndarray, gamma: float, name: str
) -> TabularMDP:
    """A finite MDP from a list of L pairs, in any order; pairs that are missing are filled in as above.

    Args:
        states: (L,), whole numbers.
        actions: (L,), whole numbers; A is the largest of them plus 1.
        transitions: (L, S), dense or SciPy sparse.
        rewards: (L,). A pair that pays -inf counts as missing.
        gamma: In (0, 1).
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
        state, action = divmod(int(counts.argmax()), n_actions)
        raise ValueError(f"The pair of state {state} and action {action} is listed twice. List every pair once.")
    idle = np.flatnonzero(counts.reshape(n_states, n_actions).sum(axis=1) == 0)
    if len(idle):
        raise ValueError(f"State {idle[0]} has no action with a finite reward. Give every state at least one.")
    absent = np.flatnonzero(counts == 0)
    entries = scipy.sparse.csr_array(transitions)[listed].tocoo()
    weights = np.concatenate([entries.data, np.ones(len(absent))])
    places = np.concatenate([pairs[entries.row], absent]), np.concatenate([entries.col, absent // n_actions])
    low, high = float(rewards[listed].min()), float(rewards[listed].max())
    paid = np.full(len(counts), low - ((high - low) or abs(low) or 1.0))
    paid[pairs] = rewards[listed]
    return TabularMDP(
        transitions=scipy.sparse.csr_array((weights, places), shape=(len(counts), n_states)),
        rewards=paid.reshape(n_states, n_actions),
        gamma=gamma,
        name=name,
        label={"infeasible_pairs": len(absent)},
    )


def save_mdp(model: Model, file: str | Path) -> None:
    """Write a model of S states and A actions; a `GridMDP` is written out as a table.

    Raises:
        ValueError: If the file does not end in .npz, or there is no model.
    """
    table = tabulated(model)
    rows, missing = _rows(table)
    ending = missing > 0.0
    places = rows.indptr[1:][ending]  # behind the other entries of a row
    write_npz(
        file,
        format=FORMAT,
        version=VERSION,
        indptr=rows.indptr + np.r_[0, np.cumsum(ending)],
        indices=np.insert(rows.indices, places, table.n_states - 1),
        data=np.insert(rows.data, places, missing[ending]),
        done=np.insert(np.zeros(len(rows.data), dtype=bool), places, True),
        rewards=table.entries.reward.cpu().numpy(),
        terminal=table.entries.terminal.cpu().numpy(),
        gamma=table.gamma,
        name=table.name,
        label=json.dumps(table.describe()),
    )


def load_mdp(file: str | Path, *, device: str = "cpu") -> TabularMDP:
    """Read what `save_mdp` wrote.

    Args:
        file: Its path.
        device: Where backups are to be done.

    Raises:
        ValueError: If the file is damaged, is none of `save_mdp`, or holds no MDP.
        OSError: If it cannot be opened.
    """
    with Path(file).open("rb") as opened:
        try:
            with np.load(opened, allow_pickle=False) as entries:
                found = dict(entries)
        except Exception as error:  # a damaged archive fails in as many ways as it has parts
            raise ValueError(f"{file} is damaged, or was not written by save_mdp, and cannot be read.") from error
    kind = str(found.get("format")), str(found.get("version"))
    if kind != (FORMAT, str(VERSION)):
        raise ValueError(f"{file} has the format {' '.join(kind)}, and {FORMAT} {VERSION} can be read. Update svrl.")
    size = (len(found["indptr"]) - 1, len(found["terminal"]))
    return TabularMDP(
        transitions=scipy.sparse.csr_array((found["data"], found["indices"], found["indptr"]), shape=size),
        rewards=found["rewards"],
        gamma=float(found["gamma"]),
        terminal=found["terminal"],
        done=found["done"],
        device=device,
        name=str(found["name"]),
        label=json.loads(str(found["label"])),
    )


def write_npz(file: str | Path, **entries: Any) -> None:
    """Write arrays, numbers and texts; the file is the old one or the whole new one.

    Raises:
        ValueError: If its name does not end in .npz.
    """
    path = Path(file)
    if path.suffix != ".npz":
        raise ValueError(f"A file of arrays ends in .npz, got {path.name!r}.")
    with writing(path) as temporary, temporary.open("wb") as opened:
        np.savez(opened, **entries)
