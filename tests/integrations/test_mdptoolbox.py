"""pymdptoolbox's arrays in every form, and its own policy iteration on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.integrations.gymnasium_models import mdp_from_env
from svrl.integrations.mdptoolbox import arrays_from_mdp, mdp_from_arrays
from svrl.integrations.versions import require
from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.planning.evaluation import solve_exactly
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import PolicyIteration

toolbox = pytest.importorskip("mdptoolbox.mdp")

S, A, DISCOUNT = 12, 3, 0.9


def random_arrays(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """P (A, S, S), half of it 0, and R (A, S, S)."""
    rng = np.random.default_rng(seed)
    p = rng.random((A, S, S)) * (rng.random((A, S, S)) < 0.5) + 1e-3 * np.eye(S)
    return p / p.sum(axis=2, keepdims=True), rng.normal(size=(A, S, S))


def object_array(matrices: Any) -> np.ndarray:
    array = np.empty(len(matrices), dtype=object)
    array[:] = list(matrices)
    return array


TRANSITIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda p: p,
    "tuple": tuple,
    "sparse": lambda p: tuple(scipy.sparse.csr_matrix(matrix) for matrix in p),
    "objects": lambda p: object_array([scipy.sparse.csr_matrix(matrix) for matrix in p]),
}
REWARDS: dict[str, Callable[[np.ndarray], Any]] = {
    "(S,)": lambda r: r[0, 0],
    "(S, A)": lambda r: r[:, 0].T,
    "(A, S, S)": lambda r: r,
    "tuple": tuple,
    "sparse": lambda r: tuple(scipy.sparse.csr_matrix(matrix) for matrix in r),
}


def solved(p: Any, r: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    found = toolbox.PolicyIteration(p, r, DISCOUNT)
    found.run()
    return np.array(found.V), found.policy


@pytest.mark.filterwarnings("ignore:Comparing a sparse matrix")  # of the toolbox itself
@pytest.mark.parametrize("paid", REWARDS)
@pytest.mark.parametrize("form", TRANSITIONS)
def test_their_policy_iteration_finds_our_values(form: str, paid: str) -> None:
    p, r = random_arrays(0)
    arrays = TRANSITIONS[form](p), REWARDS[paid](r)
    ours = plan(mdp_from_arrays(*arrays, DISCOUNT), PolicyIteration())
    v, policy = solved(*arrays)
    np.testing.assert_allclose(ours.v, v, atol=1e-10)
    assert tuple(ours.policy.tolist()) == tuple(policy)


def test_nested_lists_are_as_good_as_arrays() -> None:
    p, r = random_arrays(0)
    v = torch.randn(S, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for paid in (r, r[:, 0].T, r[0, 0]):
        wanted = mdp_from_arrays(p, paid, DISCOUNT).backup(v)
        assert torch.equal(mdp_from_arrays(p.tolist(), paid.tolist(), DISCOUNT).backup(v), wanted)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_round_trip_is_exact(sparse: bool) -> None:
    p, r = random_arrays(1)
    model = TabularMDP(transitions=p.transpose(1, 0, 2), rewards=r[:, 0].T, discount=DISCOUNT)
    transitions, rewards = arrays_from_mdp(model, sparse=sparse)
    assert isinstance(transitions, tuple) == sparse
    for found, given in zip(transitions, p, strict=True):
        np.testing.assert_array_equal(found.toarray() if sparse else found, given)
    np.testing.assert_array_equal(rewards, r[:, 0].T)
    v = torch.randn(S, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(mdp_from_arrays(transitions, rewards, DISCOUNT).backup(v), model.backup(v))


@pytest.mark.filterwarnings("ignore:Comparing a sparse matrix")
@pytest.mark.parametrize("sparse", [False, True])
def test_episodes_end_in_a_state_of_their_own(sparse: bool) -> None:
    lake = mdp_from_env(gymnasium.make("FrozenLake-v1"), DISCOUNT)
    v, _ = solved(*arrays_from_mdp(lake, sparse=sparse))
    np.testing.assert_allclose(v, np.append(plan(lake, PolicyIteration()).v, 0.0), atol=1e-10)


@pytest.mark.filterwarnings("ignore:Comparing a sparse matrix")
def test_rounded_rows_are_accepted_by_the_toolbox() -> None:
    p, r = random_arrays(2)
    rounded = p.astype(np.float32).transpose(1, 0, 2)
    assert np.abs(rounded.sum(axis=2, dtype=np.float64) - 1.0).max() > 1e-9
    model = TabularMDP(transitions=rounded, rewards=r[:, 0].T, discount=DISCOUNT)
    v, _ = solved(*arrays_from_mdp(model))
    np.testing.assert_allclose(v, plan(model, PolicyIteration()).v, atol=1e-5)
    grid = GridMDP(make_task("double-integrator", states=(7, 7), actions=3))
    theirs = toolbox.ValueIteration(*arrays_from_mdp(grid), grid.discount, epsilon=1e-6)
    theirs.run()
    _, policy = solve_exactly(grid)
    np.testing.assert_allclose(grid.under(torch.tensor(theirs.policy)).reward, grid.under(policy).reward)


@pytest.mark.parametrize(
    ("p", "r", "sentence"),
    [
        (np.ones((S, S)), np.ones(S), "one square matrix"),
        ([np.eye(S), np.eye(S - 1)], np.ones(S), "all of one size"),
        ([], np.ones(S), "got none"),
        (np.stack([np.eye(S)] * A), np.ones((A, S)), r"\(12,\), \(12, 3\) or \(3, 12, 12\), got shape \(3, 12\)"),
        (np.stack([np.eye(S)] * A), np.ones((A - 1, S, S)), r"got 2 matrices of shape \(12, 12\)"),
        (np.stack([np.eye(S)] * A), np.ones((A - 1, S, S)).tolist(), r"got 2 matrices of shape \(12, 12\)"),
        (np.stack([np.eye(S)] * A), None, r"has the shape \(12,\), .* got None"),
        (np.stack([np.eye(S)] * A), 1.0, r"has the shape \(12,\), .* got shape \(\)"),
        (np.stack([np.eye(S)] * A), [[1.0], [1.0, 2.0]], "got a list that is no table of numbers"),
        (None, np.ones(S), "one square matrix .* got NoneType"),
        (2 * np.stack([np.eye(S)] * A), np.ones(S), "state 0, action 0 sum to 2"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(p: Any, r: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        mdp_from_arrays(p, r, DISCOUNT)


def test_the_version_is_one_of_those_stated() -> None:
    assert require("pymdptoolbox") == "4.0b3"
