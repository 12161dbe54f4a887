"""A finite MDP in a file: compressed sparse (CSR) transitions, rewards, and what else belongs to it.

`save_mdp` writes one .npz whose entries are the arguments of `TabularMDP`, each an array that NumPy alone can read:

    format, version               "svrl-mdp", 1
    indptr, indices, data         CSR transitions (S * A, S), row s * A + a, N stored entries; rows sum to 1
    done                          (N,), bool: such a transition ends the episode
    rewards                       (S, A), expected
    terminal                      (S,), bool
    discount                      a number in (0, 1)
    name, label                   text, the label as JSON

`load_mdp` gives a model that answers bit for bit like the one that was saved. An MDP forgets where its last
transitions went, so those that are done are written as leading to some state.

`save_csr` and `load_csr` keep the transitions as `scipy.sparse.save_npz` does, and the rewards as .npy: files for
programs that know nothing of svrl. Nothing is pickled, and a file is the old one or the whole new one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from svrl.integrations.model_table import ModelTable, closed, table_of
from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP
from svrl.runs.atomic import writing

FORMAT, VERSION = "svrl-mdp", 1
ENTRIES = ("indptr", "indices", "data", "done", "rewards", "terminal", "discount", "name", "label")


def save_mdp(model: Model, file: str | Path) -> None:
    """Write a model of S states and A actions; a `GridMDP` is written out as a table.

    Raises:
        ValueError: If the file does not end in .npz, or there is no model.
    """
    if Path(file).suffix != ".npz":
        raise ValueError(f"A file of an MDP ends in .npz, got {Path(file).name!r}.")
    table = table_of(model)
    transitions, done = _with_ends(table)
    label = _label(model) if isinstance(model, TabularMDP) else model.describe()
    with writing(Path(file)) as temporary, temporary.open("wb") as opened:
        np.savez(
            opened,
            format=np.array(FORMAT),
            version=np.array(VERSION),
            indptr=transitions.indptr,
            indices=transitions.indices,
            data=transitions.data,
            done=done,
            rewards=table.rewards,
            terminal=table.terminal,
            discount=np.array(table.discount),
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
    return TabularMDP(
        transitions=_csr(path, tuple(found[name] for name in ("data", "indices", "indptr")), size),
        rewards=found["rewards"],
        discount=float(found["discount"]),
        terminal=found["terminal"],
        done=found["done"],
        device=device,
        name=str(found["name"]),
        label=json.loads(str(found["label"])),
    )


def save_csr(model: Model, transitions: str | Path, rewards: str | Path) -> None:
    """Write a model for other programs; the discount is not in the files.

    Args:
        model: S states and A actions.
        transitions: An .npz of SciPy: CSR (S * A, S), row s * A + a, rows sum to 1. Where transitions end an
            episode there are S + 1 states, the last of them the end; the values of the others are the model's.
        rewards: An .npy (S, A), float64.
    """
    table = closed(model)
    with writing(Path(transitions)) as temporary, temporary.open("wb") as opened:
        scipy.sparse.save_npz(opened, table.transitions)
    with writing(Path(rewards)) as temporary, temporary.open("wb") as opened:
        np.save(opened, table.rewards, allow_pickle=False)


def load_csr(transitions: str | Path, rewards: str | Path, discount: float) -> TabularMDP:
    """Read transitions of `scipy.sparse.save_npz` and rewards of `numpy.save`.

    Args:
        transitions: CSR, or any other sparse format, (S * A, S), row s * A + a.
        rewards: (S, A), (S, A, S), or (N,) in the order of the N entries of CSR transitions.
        discount: In (0, 1).

    Raises:
        ValueError: If a file is damaged or of another kind, or the arrays are no MDP.
        OSError: If one cannot be opened.
    """
    with Path(transitions).open("rb") as opened:
        try:
            table = scipy.sparse.load_npz(opened)
        except Exception as error:
            raise ValueError(
                f"{transitions} is damaged, or was not written by scipy.sparse.save_npz, and cannot be read."
            ) from error
    with Path(rewards).open("rb") as opened:
        try:
            paid = np.load(opened, allow_pickle=False)
        except Exception as error:
            raise ValueError(f"{rewards} is damaged, or was not written by numpy.save, and cannot be read.") from error
    if not isinstance(paid, np.ndarray):
        raise ValueError(f"{rewards} holds several arrays, and rewards are one. Save them with numpy.save.")
    return TabularMDP(transitions=table, rewards=paid, discount=discount, name=Path(transitions).stem)


def _with_ends(table: ModelTable) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Transitions (S * A, S) with what ends an episode as entries of their own, and which those are (N,)."""
    rows, missing = table.transitions, table.missing
    ending = missing > 0.0
    if table.ends and not table.terminal.any() and not ending.any():
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


def _label(model: TabularMDP) -> dict[str, Any]:
    """What the model was labelled with: what it says of itself, less what it works out."""
    worked_out = ("task", "states", "actions", "transitions", "episodic", "rows_sum_to_one", "discount", "device")
    return {key: value for key, value in model.describe().items() if key not in worked_out}


def _csr(path: Path, parts: tuple[Any, ...], size: tuple[int, int]) -> scipy.sparse.csr_array:
    try:
        return scipy.sparse.csr_array(parts, shape=size)
    except ValueError as error:
        raise ValueError(f"The transitions in {path} are no CSR matrix: {error}. Write the file again.") from error
