"""QuantEcon's problems are ours, its policy iteration finds our values, and our plans are results of its kind."""

from __future__ import annotations

import importlib.util

import gymnasium
import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.integrations.gymnasium import mdp_from_env
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import make_task
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import evaluate_policy
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import PolicyIteration
from svrl.planning.svp import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration

if importlib.util.find_spec("quantecon") is None:
    pytest.skip("QuantEcon is not installed", allow_module_level=True)
THREADS = [torch.get_num_threads()]

from svrl.integrations.quantecon import ddp_from_mdp, mdp_from_ddp, result_from_plan  # noqa: E402

THREADS.append(torch.get_num_threads())

from quantecon.markov import DiscreteDP  # noqa: E402
from quantecon.markov.ddp import DPSolveResult  # noqa: E402

FORMS = ("sparse", "pairs", "product")


def random_parts(seed: int, n_states: int = 30, n_actions: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rewards (S, A), and transitions (S, A, S), three of four of them 0."""
    rng = np.random.default_rng(seed)
    size = (n_states, n_actions, n_states)
    q = rng.random(size) * (rng.random(size) < 0.25) + 1e-3 * np.eye(n_states)[:, None]
    return rng.normal(size=size[:2]), q / q.sum(axis=2, keepdims=True)


def forms_of(r: np.ndarray, q: np.ndarray, beta: float) -> dict[str, DiscreteDP]:
    states, actions = np.nonzero(r > -np.inf)
    mixed = np.random.default_rng(0).permutation(len(states))
    states, actions = states[mixed], actions[mixed]
    listed = r[states, actions], q[states, actions]
    return {
        "product": DiscreteDP(r, q, beta),
        "pairs": DiscreteDP(*listed, beta, states, actions),
        "sparse": DiscreteDP(listed[0], scipy.sparse.csr_matrix(listed[1]), beta, states, actions),
    }


@pytest.mark.parametrize("form", FORMS)
def test_policy_iteration_finds_the_same_values(form: str) -> None:
    ddp = forms_of(*random_parts(0), 0.95)[form]
    theirs = ddp.policy_iteration()
    ours = plan(mdp_from_ddp(ddp), PolicyIteration())
    np.testing.assert_allclose(ours.v, theirs.v, atol=1e-10, rtol=0.0)
    np.testing.assert_array_equal(ours.policy, theirs.sigma)


def test_a_round_trip_is_exact() -> None:
    r, q = random_parts(2)
    model = TabularMDP(transitions=q, rewards=r, gamma=0.9)
    pairs = ddp_from_mdp(model)
    product = pairs.to_product_form()
    np.testing.assert_array_equal(product.Q, q)
    np.testing.assert_array_equal(product.R, r)
    v = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for ddp in (pairs, product):
        assert ddp.beta == 0.9
        assert torch.equal(mdp_from_ddp(ddp).backup(v), model.backup(v))


@pytest.mark.parametrize("form", FORMS)
def test_actions_that_a_state_does_not_have(form: str) -> None:
    r, q = random_parts(3)
    r[np.random.default_rng(4).random(r.shape) < 0.4] = -np.inf
    r[np.arange(30), np.arange(30) % 5] = 0.1
    ddp = forms_of(r, q, 0.9)[form]
    model = mdp_from_ddp(ddp)
    assert model.describe()["infeasible_pairs"] == np.isneginf(r).sum()
    theirs, ours = ddp.policy_iteration(), plan(model, PolicyIteration())
    np.testing.assert_allclose(ours.v, theirs.v, atol=1e-10, rtol=0.0)
    np.testing.assert_array_equal(ours.policy, theirs.sigma)
    assert result_from_plan(ours, ddp).epsilon < 1e-9
    state, action = np.argwhere(np.isneginf(r))[0]
    ours.policy[state] = action
    with pytest.raises(ValueError, match=f"takes action {action} in state {state}, which does not have it"):
        result_from_plan(ours, ddp)


def test_episodes_end_in_a_state_of_their_own() -> None:
    lake = mdp_from_env(gymnasium.make("FrozenLake-v1"), 0.99)
    ddp = ddp_from_mdp(lake)
    assert ddp.num_states == 17
    ours, theirs = plan(lake, PolicyIteration()), ddp.policy_iteration()
    np.testing.assert_allclose(theirs.v, np.append(ours.v, 0.0), atol=1e-10)
    result = result_from_plan(ours, ddp)
    np.testing.assert_allclose(result.v, theirs.v, atol=1e-10)
    np.testing.assert_allclose(ddp.evaluate_policy(result.sigma), theirs.v, atol=1e-10)


def test_a_result_has_what_theirs_has_and_a_certain_epsilon() -> None:
    r, q = random_parts(5)
    model = TabularMDP(transitions=q, rewards=r, gamma=0.9)
    ddp = ddp_from_mdp(model)
    found = plan(model, ValueIteration(tolerance=1e-2))
    for problem in (ddp, model):
        result = result_from_plan(found, problem)
        assert isinstance(result, DPSolveResult)
        theirs = ddp.value_iteration()
        assert set(theirs) - {"max_iter"} <= set(result)
        assert (result.num_iter, result.method, result.outcome) == (found.iterations, found.name, "")
        np.testing.assert_array_equal(result.v, found.v)
        np.testing.assert_array_equal(result.sigma, found.policy)
        assert result.sigma.dtype == theirs.sigma.dtype
        lost = ddp.policy_iteration().v - ddp.evaluate_policy(result.sigma)
        assert 0.0 <= lost.max() <= result.epsilon + 1e-12
        np.testing.assert_allclose(result.mc.P.toarray(), ddp.controlled_mc(result.sigma).P.toarray())
    wrong = found.policy.clone()
    wrong[0] = int(model.backup(found.v)[0].argmin())
    lost = ddp.policy_iteration().v - ddp.evaluate_policy(wrong.numpy())
    object.__setattr__(found, "policy", wrong)
    assert 0.0 < lost.max() <= result_from_plan(found, model).epsilon


def test_q_comes_along() -> None:
    grid = GridMDP(make_task("double-integrator", states=(9, 9), actions=7))
    dense = plan(grid, StructuredValueIteration(p=0.8, max_iterations=5))
    np.testing.assert_array_equal(result_from_plan(dense, grid).q, dense.q)
    factors = plan(grid, CrossValueIteration(rank=3, max_iterations=3))
    assert factors.factors is not None
    np.testing.assert_allclose(result_from_plan(factors, grid).q, factors.factors[0] @ factors.factors[1].mT)
    values = plan(grid, PolicyIteration())
    assert result_from_plan(values, grid).q is None
    np.testing.assert_allclose(evaluate_policy(grid, values.policy), result_from_plan(values, grid).v, atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    r, q = random_parts(6)
    ddp = DiscreteDP(r, q, 0.9)
    found = plan(mdp_from_ddp(DiscreteDP(*random_parts(7, n_states=29), 0.9)), PolicyIteration())
    with pytest.raises(ValueError, match="The plan has 29 states and the DiscreteDP 30"):
        result_from_plan(found, ddp)
    with pytest.raises(ValueError, match=r"needs a quantecon\.markov\.DiscreteDP, got str"):
        mdp_from_ddp("ddp")
    with pytest.raises(ValueError, match="discount between 0 and 1"):
        mdp_from_ddp(DiscreteDP(r, q, 0.0))


def test_importing_it_leaves_the_threads_of_torch_alone() -> None:
    assert THREADS[0] == THREADS[1]
