"""pymdptoolbox's arrays as a model, and a model as its arrays.

The toolbox takes P, one matrix (S, S) for each of A actions, and R in any of these forms:

    P    array (A, S, S), or a list, tuple or object array of A matrices (S, S), dense or sparse
    R    (S,), of the state; (S, A); (A, S, S), or A matrices (S, S), dense or sparse, of the transition

Nested lists of numbers are as good as arrays.

Rewards of transitions are averaged, r(s, a) = sum_s' P[a][s, s'] R[a][s, s'], as the toolbox does. These are plain
arrays: nothing of the toolbox is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse

from svrl.integrations.model_table import by_pairs, closed
from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP

STOCHASTIC = 10 * np.finfo(np.float64).eps
"""How far the toolbox lets a row sum from 1."""


def mdp_from_arrays(P: Any, R: Any, discount: float) -> TabularMDP:
    """The model of P and R, in any of the forms above.

    Args:
        P: Transitions.
        R: Rewards.
        discount: In (0, 1); the toolbox's 1 has no values.

    Raises:
        ValueError: If the shapes do not fit, or a row is wrong.
    """
    try:
        shapes = [np.shape(matrix) for matrix in P]
    except (TypeError, ValueError):
        raise ValueError(f"P holds one square matrix (S, S) for each action, got {type(P).__name__}.") from None
    if not shapes or shapes != [(shapes[0][0],) * 2] * len(shapes):
        raise ValueError(
            f"P holds one square matrix (S, S) for each action, all of one size, got {shapes[:3] or 'none'}."
        )
    of_actions = [scipy.sparse.csr_array(matrix, dtype=np.float64) for matrix in P]
    rewards = _expected(R, of_actions)
    return TabularMDP(transitions=by_pairs(of_actions), rewards=rewards, discount=discount, name="mdptoolbox")


def arrays_from_mdp(model: Model, *, sparse: bool = True) -> tuple[Any, np.ndarray]:
    """A model as P and R.

    Args:
        model: S states and A actions.
        sparse: Whether P is a tuple of A CSR matrices (S, S), or an array (A, S, S).

    Returns:
        P, and R (S, A), float64. The discount is the model's. Where transitions end an episode there are S + 1
        states, the last of them the end; the values of the others are the model's. Rows that miss 1 by more than
        the toolbox accepts, 2e-15, are divided by their sum.
    """
    table = closed(model)
    transitions = table.transitions
    sums = np.asarray(transitions.sum(axis=1)).reshape(-1)
    if np.abs(sums - 1.0).max() > STOCHASTIC:
        transitions = scipy.sparse.diags_array(1.0 / sums).tocsr() @ transitions
    # The toolbox asks sums of sparse matrices for .A1, which only matrices have and arrays do not.
    of_actions = tuple(scipy.sparse.csr_matrix(transitions[a :: table.n_actions]) for a in range(table.n_actions))
    return of_actions if sparse else np.stack([matrix.toarray() for matrix in of_actions]), table.rewards


def _expected(R: Any, of_actions: list[scipy.sparse.csr_array]) -> np.ndarray:
    """r(s, a), (S, A)."""
    n_states, n_actions = of_actions[0].shape[0], len(of_actions)
    if scipy.sparse.issparse(R):
        R = R.toarray()
    rewards = R if _is_list_of_matrices(R) else _numbers(R, n_states, n_actions)
    if _is_list_of_matrices(rewards):
        shapes = [tuple(matrix.shape) for matrix in rewards]
        if shapes == [(n_states, n_states)] * n_actions:
            both = zip(of_actions, rewards, strict=True)
            sums = [transitions.multiply(paid).sum(axis=1) for transitions, paid in both]
            return np.stack([np.asarray(total).reshape(-1) for total in sums], axis=1)
        raise _misfit(n_states, n_actions, f"{len(shapes)} matrices of shape {shapes[0] if shapes else ()}")
    if rewards.shape == (n_states,):
        return np.repeat(rewards[:, None], n_actions, axis=1)
    if rewards.shape != (n_states, n_actions):
        raise _misfit(n_states, n_actions, f"shape {rewards.shape}")
    return rewards


def _is_list_of_matrices(R: Any) -> bool:
    if isinstance(R, np.ndarray) and R.dtype != object:
        return R.ndim == 3
    return isinstance(R, Iterable) and all(getattr(matrix, "ndim", 0) == 2 for matrix in R)


def _numbers(R: Any, n_states: int, n_actions: int) -> np.ndarray:
    try:
        if R is not None:  # of which NumPy makes NaN
            return np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise _misfit(n_states, n_actions, "None" if R is None else f"a {type(R).__name__} that is no table of numbers")


def _misfit(n_states: int, n_actions: int, got: str) -> ValueError:
    return ValueError(
        f"R of {n_states} states and {n_actions} actions has the shape {(n_states,)}, {(n_states, n_actions)} or "
        f"{(n_actions, n_states, n_states)}, got {got}."
    )
