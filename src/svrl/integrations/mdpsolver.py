"""mdpsolver's lists as a model, and a model as its lists.

mdpsolver takes rewards as nested lists, or as one row for each pair, and transitions in three ways:

    tranMatWithZeros                  [s][a][s'] = probability
    tranMatProbs, tranMatColumns      [s][a] = the probabilities that are not 0, and their next states
    tranMatElementwise                rows (s, a, s', probability)

All are read and written. It keeps them where nobody can read them again, so a model is made from the lists and not
from its object. A state may have fewer actions than another: `svrl.integrations.model_table` says how they are
filled in, and what becomes of transitions that end an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse

from svrl.integrations.model_table import ModelTable, closed, mdp_from_pairs
from svrl.integrations.versions import require
from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP

require("mdpsolver")
import mdpsolver  # noqa: E402

Form = Literal["columns", "zeros", "elementwise"]


def mdp_from_lists(
    *,
    discount: float,
    rewards: Sequence[Any] = (),
    rewardsElementwise: Sequence[Any] = (),
    tranMatWithZeros: Sequence[Any] = (),
    tranMatElementwise: Sequence[Any] = (),
    tranMatProbs: Sequence[Any] = (),
    tranMatColumns: Sequence[Any] = (),
) -> TabularMDP:
    """The model of mdpsolver's arguments; the keywords are those of its `model().mdp(...)`.

    Args:
        discount: In (0, 1).
        rewards: [s][a], S lists of up to A numbers.
        rewardsElementwise: Rows (s, a, reward), instead of rewards.
        tranMatWithZeros: [s][a][s'].
        tranMatElementwise: Rows (s, a, s', probability), instead of that.
        tranMatProbs: [s][a], probabilities, instead of both.
        tranMatColumns: [s][a], next states, with tranMatProbs.

    Raises:
        ValueError: If rewards or transitions are missing or given twice, they are not of the same pairs, a list is
            not nested as above, or an index is no whole number from 0.
    """
    _check_one(rewards=rewards, rewardsElementwise=rewardsElementwise)
    _check_one(tranMatWithZeros=tranMatWithZeros, tranMatElementwise=tranMatElementwise, tranMatProbs=tranMatProbs)
    if bool(len(tranMatColumns)) != bool(len(tranMatProbs)):
        raise ValueError("tranMatProbs and tranMatColumns belong together, got one of them. Give both or neither.")
    paid = _rows("rewardsElementwise", rewardsElementwise, 3) if len(rewardsElementwise) else _flat("rewards", rewards)
    if len(tranMatElementwise):
        moved = _rows("tranMatElementwise", tranMatElementwise, 4)
    elif len(tranMatProbs):
        columns = _flat("tranMatColumns", tranMatColumns, deep=True)
        _check_whole("tranMatColumns", columns[:, 2])
        moved = _beside(columns, _flat("tranMatProbs", tranMatProbs, deep=True))
    else:
        dense = _flat("tranMatWithZeros", tranMatWithZeros, deep=True)
        moved = _beside(_places(dense), dense)
        moved = moved[moved[:, 3] != 0.0]
        if not len(moved):
            raise ValueError("tranMatWithZeros holds zeros only, so no state has a next one.")
    n_states = int(max(paid[:, 0].max(), moved[:, 0].max(), moved[:, 2].max())) + 1
    n_actions = int(max(paid[:, 1].max(), moved[:, 1].max())) + 1
    pairs, where = (part[:, 0].astype(np.int64) * n_actions + part[:, 1].astype(np.int64) for part in (paid, moved))
    lone = np.setxor1d(pairs, where)
    if len(lone):
        state, action = divmod(int(lone[0]), n_actions)
        has, lacks = ("a reward", "transitions") if lone[0] in pairs else ("transitions", "reward")
        raise ValueError(f"State {state}, action {action} has {has} and no {lacks}. Give both of every pair.")
    order = np.argsort(pairs, kind="stable")
    rows = np.searchsorted(pairs[order], where)
    size = (len(pairs), n_states)
    return mdp_from_pairs(
        states=pairs[order] // n_actions,
        actions=pairs[order] % n_actions,
        transitions=scipy.sparse.csr_array((moved[:, 3], (rows, moved[:, 2].astype(np.int64))), shape=size),
        rewards=paid[order, 2],
        discount=discount,
        name="mdpsolver",
    )


def lists_from_mdp(model: Model, *, form: Form = "columns") -> dict[str, Any]:
    """A model as keyword arguments of mdpsolver's `model().mdp(...)`: plain lists of Python numbers.

    Args:
        model: S states and A actions.
        form: "columns" gives tranMatProbs and tranMatColumns, "zeros" tranMatWithZeros (S, A, S), "elementwise"
            tranMatElementwise.

    Returns:
        discount, rewards [s][a] and transitions. Where transitions end an episode there are S + 1 states, the last
        of them the end; the values of the others are the model's.
    """
    writers = {"columns": _columns, "zeros": _zeros, "elementwise": _elementwise}
    if form not in writers:
        raise ValueError(f"mdpsolver's transitions have the form columns, zeros or elementwise, got {form!r}.")
    table = closed(model)
    return {"discount": table.discount, "rewards": table.rewards.tolist(), **writers[form](table)}


def solver_from_mdp(model: Model) -> mdpsolver.model:
    """mdpsolver's own object with a model in it, ready for `solve`; S states, or S + 1 as above."""
    solver = mdpsolver.model()
    solver.mdp(**lists_from_mdp(model))
    return solver


def _columns(table: ModelTable) -> dict[str, Any]:
    rows = table.transitions
    cuts, n_actions = rows.indptr[1:-1], table.n_actions
    parts = []
    for flat in (rows.data, rows.indices):
        lists = [part.tolist() for part in np.split(flat, cuts)]
        parts.append([lists[low : low + n_actions] for low in range(0, len(lists), n_actions)])
    return {"tranMatProbs": parts[0], "tranMatColumns": parts[1]}


def _zeros(table: ModelTable) -> dict[str, Any]:
    dense = table.transitions.toarray().reshape(table.n_states, table.n_actions, table.n_states)
    return {"tranMatWithZeros": dense.tolist()}


def _elementwise(table: ModelTable) -> dict[str, Any]:
    entries = table.transitions.tocoo()
    states, actions = np.divmod(entries.row, table.n_actions)
    columns = (states.tolist(), actions.tolist(), entries.col.tolist(), entries.data.tolist())
    return {"tranMatElementwise": [list(row) for row in zip(*columns, strict=True)]}


def _check_one(**ways: Sequence[Any]) -> None:
    given = [name for name, lists in ways.items() if len(lists)]
    if len(given) != 1:
        raise ValueError(f"Give one of {', '.join(ways)}, got {' and '.join(given) or 'none of them'}.")


def _check_whole(name: str, indices: np.ndarray) -> None:
    wrong = indices[~((indices >= 0) & (indices < 2**53) & (indices == np.floor(indices)))]
    if len(wrong):
        raise ValueError(f"States and actions in {name} are whole numbers from 0, got {wrong[0]:g}.")


def _rows(name: str, lists: Sequence[Any], width: int) -> np.ndarray:
    try:
        rows = np.array(lists, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} has rows of {width} numbers, got rows of several lengths, or no numbers.") from None
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{name} has rows of {width} numbers, got shape {rows.shape}.")
    _check_whole(name, rows[:, :-1])
    return rows


def _flat(name: str, lists: Sequence[Any], *, deep: bool = False) -> np.ndarray:
    """Nested lists as rows (s, a, number), those of the innermost list one after the other."""
    try:
        cells = [
            (s, a, number)
            for s, row in enumerate(lists)
            for a, cell in enumerate(row)
            for number in (cell if deep else [cell])
        ]
        rows = np.array(cells, dtype=np.float64).reshape(-1, 3)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is nested as {'[s][a][number]' if deep else '[s][a] = number'}, and this list is not."
        ) from None
    if not len(rows):
        raise ValueError(f"{name} holds no number.")
    return rows


def _places(rows: np.ndarray) -> np.ndarray:
    """Rows (s, a, k), with k the place of a number in its innermost list."""
    first = np.r_[True, np.any(rows[1:, :2] != rows[:-1, :2], axis=1)]
    began = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    return np.column_stack([rows[:, :2], np.arange(len(rows)) - began])


def _beside(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows (s, a, s', probability)."""
    if columns.shape != weights.shape or np.any(columns[:, :2] != weights[:, :2]):
        raise ValueError("tranMatProbs and tranMatColumns must be lists of the same lengths, and are not.")
    return np.column_stack([columns, weights[:, 2]])
