"""mdpsolver's lists in every form, and its own solution of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("mdpsolver")

import mdpsolver

from svrl.integrations.gymnasium_models import mdp_from_env
from svrl.integrations.mdpsolver import lists_from_mdp, mdp_from_lists, solver_from_mdp
from svrl.mdp.tabular import TabularMDP
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import PolicyIteration

# The example of its documentation: three states, two actions.
REWARDS = [[5, -1], [1, -2], [50, 0]]
WITH_ZEROS = [
    [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]],
    [[0.4, 0.5, 0.1], [0.3, 0.5, 0.2]],
    [[0.2, 0.2, 0.6], [0.5, 0.5, 0.0]],
]
PROBS = [[[0.9, 0.1], [0.1, 0.9]], [[0.4, 0.5, 0.1], [0.3, 0.5, 0.2]], [[0.2, 0.2, 0.6], [0.5, 0.5]]]
COLUMNS = [[[0, 1], [0, 1]], [[0, 1, 2], [0, 1, 2]], [[0, 1, 2], [0, 1]]]
ELEMENTS = [
    [s, a, j, WITH_ZEROS[s][a][j]] for s in range(3) for a in range(2) for j in range(3) if WITH_ZEROS[s][a][j] > 0
]
TRANSITIONS: dict[str, dict[str, Any]] = {
    "zeros": {"tranMatWithZeros": WITH_ZEROS},
    "columns": {"tranMatProbs": PROBS, "tranMatColumns": COLUMNS},
    "elementwise": {"tranMatElementwise": ELEMENTS[::-1]},
}
PAID: dict[str, dict[str, Any]] = {
    "nested": {"rewards": REWARDS},
    "elementwise": {"rewardsElementwise": [[s, a, REWARDS[s][a]] for a in (1, 0) for s in (2, 0, 1)]},
}


def solved(**lists: Any) -> tuple[np.ndarray, list[int]]:
    solver = mdpsolver.model()
    solver.mdp(**lists)
    return _answer(solver)


def _answer(solver: Any) -> tuple[np.ndarray, list[int]]:
    solver.solve(algorithm="pi", tolerance=1e-12, parallel=False)
    return np.array(solver.getValueVector()), solver.getPolicy()


def random_model(seed: int) -> TabularMDP:
    rng = np.random.default_rng(seed)
    p = rng.random((20, 4, 20)) * (rng.random((20, 4, 20)) < 0.3) + 1e-3 * np.eye(20)[:, None]
    return TabularMDP(transitions=p / p.sum(axis=2, keepdims=True), rewards=rng.normal(size=(20, 4)), discount=0.9)


@pytest.mark.parametrize("paid", PAID)
@pytest.mark.parametrize("form", TRANSITIONS)
def test_their_example(form: str, paid: str) -> None:
    lists = {"discount": 0.8, **PAID[paid], **TRANSITIONS[form]}
    ours = plan(mdp_from_lists(**lists), PolicyIteration())
    v, policy = solved(**lists)
    np.testing.assert_allclose(ours.v, v, atol=1e-9)
    assert ours.policy.tolist() == policy == [1, 1, 0]


@pytest.mark.parametrize("form", TRANSITIONS)
def test_a_round_trip_is_exact_and_their_solution_is_ours(form: str) -> None:
    model = random_model(0)
    lists = lists_from_mdp(model, form=form)  # type: ignore[arg-type]
    back = mdp_from_lists(**lists)
    v = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(back.backup(v), model.backup(v))
    assert lists_from_mdp(back, form=form) == lists  # type: ignore[arg-type]
    np.testing.assert_allclose(plan(model, PolicyIteration()).v, solved(**lists)[0], atol=1e-9)


def test_their_object_is_ready_to_solve() -> None:
    lake = mdp_from_env(gymnasium.make("FrozenLake-v1"), 0.95)
    v, policy = _answer(solver_from_mdp(lake))
    ours = plan(lake, PolicyIteration())
    np.testing.assert_allclose(v, np.append(ours.v, 0.0), atol=1e-9)
    assert len(policy) == 17


def test_states_may_have_fewer_actions() -> None:
    lists = {"discount": 0.8, "rewards": [[5, -1], [1], [50, 0]]}
    lists["tranMatWithZeros"] = [WITH_ZEROS[0], WITH_ZEROS[1][:1], WITH_ZEROS[2]]
    model = mdp_from_lists(**lists)
    assert model.describe()["infeasible_pairs"] == 1
    ours, (v, policy) = plan(model, PolicyIteration()), solved(**lists)
    np.testing.assert_allclose(ours.v, v, atol=1e-9)
    assert ours.policy.tolist() == policy


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        ({"rewards": REWARDS}, "got none of them"),
        ({"rewards": REWARDS, **TRANSITIONS["zeros"], **TRANSITIONS["columns"]}, "tranMatWithZeros and tranMatProbs"),
        ({"rewards": REWARDS[:2], **TRANSITIONS["zeros"]}, "State 2, action 0 has transitions and no reward"),
        ({"rewards": [*REWARDS, [1, 1]], **TRANSITIONS["zeros"]}, "State 3, action 0 has a reward and no transitions"),
        ({"rewards": REWARDS, "tranMatProbs": PROBS, "tranMatColumns": COLUMNS[:2]}, "of the same lengths"),
        ({"rewards": REWARDS, "tranMatElementwise": [[0, 0, 1]]}, "rows of 4 numbers"),
        ({"rewards": REWARDS, "tranMatElementwise": [[1.7, *ELEMENTS[0][1:]], *ELEMENTS[1:]]}, "from 0, got 1.7"),
        ({"rewards": REWARDS, "tranMatElementwise": [[0, 0, -1, 0.5], *ELEMENTS]}, "from 0, got -1"),
        ({"rewards": REWARDS, "tranMatElementwise": [[0, 0, 1, 1.0], [0, 1]]}, "rows of several lengths"),
        ({"rewardsElementwise": [[0, 0.5, 1.0]], **TRANSITIONS["zeros"]}, "rewardsElementwise are whole .* got 0.5"),
        ({"rewards": REWARDS, "tranMatProbs": [[[1.0]]], "tranMatColumns": [[[-1]]]}, "tranMatColumns .* got -1"),
        ({"rewards": REWARDS, "tranMatProbs": [[[1.0]]], "tranMatColumns": [[[0.5]]]}, "tranMatColumns .* got 0.5"),
        ({"rewards": REWARDS, **TRANSITIONS["zeros"], "tranMatColumns": COLUMNS}, "belong together, got one"),
        ({"rewards": REWARDS, "tranMatProbs": PROBS}, "belong together, got one"),
        ({"rewards": [5, 1, 50], **TRANSITIONS["zeros"]}, r"rewards is nested as \[s\]\[a\] = number"),
        ({"rewards": WITH_ZEROS, **TRANSITIONS["zeros"]}, r"rewards is nested as \[s\]\[a\] = number"),
        ({"rewards": REWARDS, "tranMatWithZeros": REWARDS}, r"tranMatWithZeros is nested as \[s\]\[a\]\[number\]"),
        ({"rewards": REWARDS, "tranMatWithZeros": [[], []]}, "tranMatWithZeros holds no number"),
        ({"rewards": REWARDS, "tranMatWithZeros": [[[0.0]]]}, "holds zeros only"),
        ({"rewards": REWARDS, "tranMatElementwise": ELEMENTS[1:]}, "state 0, action 0 sum to 0.1"),
    ],
)
def test_lists_that_do_not_fit_are_refused(lists: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        mdp_from_lists(discount=0.8, **lists)


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="columns, zeros or elementwise, got 'csr'"):
        lists_from_mdp(random_model(0), form="csr")  # type: ignore[arg-type]
