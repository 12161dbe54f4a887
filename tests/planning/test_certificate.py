"""Bounds must hold for any values and any policy, and be tight where the theory says so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import svrl
from svrl.mdp.tabular import TabularMDP
from svrl.planning.certificate import certify_on_sample, certify_plan, never_ends
from svrl.planning.evaluation import evaluate_policy
from svrl.planning.policy_iteration import solve_exactly

from .oracles import Dense, Watched, small_grid

SLACK = 1e-8


def drawn_mdp(rng: np.random.Generator, ending: bool) -> TabularMDP:
    n_states, n_actions = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    p = rng.random((n_states, n_actions, n_states)) ** 6
    p /= p.sum(2, keepdims=True)
    csr = p.reshape(-1, n_states)
    terminal = (rng.random(n_states) < 0.3) if ending else None
    offset = 3.0 * rng.normal()
    reward = rng.normal(size=(n_states, n_actions)) + offset
    if not ending:
        return TabularMDP(transitions=p, rewards=reward, gamma=rng.uniform(0.2, 0.98))
    import scipy.sparse

    matrix = scipy.sparse.csr_array(csr)
    done = rng.random(matrix.nnz) < 0.3
    return TabularMDP(transitions=matrix, rewards=reward, gamma=rng.uniform(0.2, 0.98), terminal=terminal, done=done)


def drawn_values(rng: np.random.Generator, truth: np.ndarray) -> torch.Tensor:
    """Near V*, or a constant away from it, or anything."""
    n = len(truth)
    kinds = [truth + 0.1 * rng.normal(size=n), truth + 5.0 * rng.normal(), 10.0 * rng.normal(size=n), np.zeros(n)]
    return torch.from_numpy(kinds[rng.integers(len(kinds))])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ending=st.booleans())
def test_the_bounds_contain_the_optimum_and_the_losses(seed: int, ending: bool):
    rng = np.random.default_rng(seed)
    model = drawn_mdp(rng, ending)
    dense = Dense.of(model)
    truth = dense.optimum(1e-11)
    v = drawn_values(rng, truth)
    found = certify_plan(model, v)
    assert (found.lower.numpy() <= truth + SLACK).all()
    assert (found.upper.numpy() >= truth - SLACK).all()
    assert np.abs(found.midpoint.numpy() - truth).max() <= found.certified_error + SLACK
    assert np.abs(v.numpy() - truth).max() <= found.value_error + SLACK
    assert torch.equal(found.policy, model.improve(v)[1])
    loss = truth - dense.worth(found.policy)
    assert loss.max() <= found.loss_bound + SLACK
    assert loss.mean() <= found.mean_loss_bound + SLACK
    policy = torch.from_numpy(rng.integers(model.n_actions, size=model.n_states))
    other = certify_plan(model, v, policy)
    loss = truth - dense.worth(policy)
    assert loss.max() <= other.loss_bound + SLACK
    assert loss.mean() <= other.mean_loss_bound + SLACK
    assert bool((other.lower >= found.lower).all())
    assert bool((other.upper <= found.upper).all())
    assert (other.lower.numpy() <= truth + SLACK).all()
    assert (other.upper.numpy() >= truth - SLACK).all()
    evaluated = certify_plan(model, evaluate_policy(model, policy), policy)
    assert other.loss_bound <= evaluated.loss_bound + SLACK, "to evaluate the policy first does not help"
    assert other.certified_error <= min(found.certified_error, evaluated.certified_error) + SLACK


def test_a_constant_error_costs_nothing_where_no_episode_ends():
    model = small_grid()
    v, _ = solve_exactly(model, 1e-11)
    found = certify_plan(model, v + 7.0)
    assert found.certified_error <= 1e-9
    assert float((found.midpoint - v).abs().max()) <= 1e-9
    assert found.value_error == pytest.approx(7.0)


def test_the_bounds_are_attained():
    # One state, one action: the span is 0 and both bounds are the value itself.
    model = TabularMDP(transitions=np.ones((1, 1, 1)), rewards=np.array([[3.0]]), gamma=0.5)
    found = certify_plan(model, torch.tensor([100.0], dtype=torch.float64))
    assert found.lower.tolist() == found.upper.tolist() == [6.0]
    # Two that never meet, one of them right: the wrong one's bound is its value.
    model = TabularMDP(transitions=np.eye(2)[:, None], rewards=np.array([[0.0], [1.0]]), gamma=0.5)
    found = certify_plan(model, torch.zeros(2, dtype=torch.float64))
    assert found.upper.tolist() == [1.0, 2.0]
    assert found.lower.tolist() == [0.0, 1.0]


def test_a_certificate_takes_a_sweep_and_two_with_a_policy():
    model = Watched(small_grid())
    v = torch.zeros(model.n_states, dtype=torch.float32)
    sweep = model.n_states * model.n_actions
    assert certify_plan(model, v).backups == model.backups == sweep
    found = certify_plan(model, v, torch.zeros(model.n_states, dtype=torch.int64))
    assert model.backups == 3 * sweep + model.n_states
    assert found.backups > 2 * sweep + model.n_states, "the chain of the policy is counted too"


def test_only_a_model_that_says_so_never_ends():
    toy = {0: {0: [(0.5, 0, 1.0, False), (0.5, 0, 1.0, True)]}}
    assert never_ends(small_grid())
    assert never_ends(TabularMDP(transitions=np.ones((1, 1, 1)), rewards=np.ones((1, 1)), gamma=0.5))
    assert not never_ends(TabularMDP.from_toy_text(toy, 0.9))
    # A grid in disguise does not say, so its bounds are the careful ones.
    assert not never_ends(Watched(small_grid()))


def test_a_sample_of_all_states_is_the_sweep():
    model = small_grid()
    v = torch.linspace(-1.0, 2.0, model.n_states, dtype=torch.float64)
    policy = torch.full((model.n_states,), 3)
    q = model.backup(v)
    found = certify_on_sample(watched := Watched(model), v, policy, torch.arange(model.n_states))
    assert watched.backups == model.n_states * model.n_actions
    residual = (q.max(1).values - v).abs()
    gap = q.max(1).values - q[:, 3]
    assert found.states == model.n_states
    assert found.max_residual == pytest.approx(float(residual.max()))
    assert found.mean_residual == pytest.approx(float(residual.mean()))
    assert found.max_gap == pytest.approx(float(gap.max()))
    assert found.mean_gap == pytest.approx(float(gap.mean()))


def test_the_share_is_right_in_19_samples_of_20():
    # Residuals of a known distribution: how often does the stated share of states lie above the sample's maximum?
    rng = np.random.default_rng(0)
    sizes, wrong = 40, 0
    model = small_grid(states=(20, 20), actions=2)
    v = torch.from_numpy(rng.normal(size=model.n_states))
    policy = torch.zeros(model.n_states, dtype=torch.int64)
    residual = (model.improve(v)[0] - v).abs()
    for _ in range(400):
        found = certify_on_sample(model, v, policy, torch.from_numpy(rng.integers(model.n_states, size=sizes)))
        wrong += float((residual > found.max_residual + 1e-12).double().mean()) > found.share
    assert found.share == pytest.approx(1 - 0.05 ** (1 / sizes))
    assert 4 <= wrong <= 40  # 20 expected of 400
    assert all(words in found.statement for words in ("95% confidence", f"{found.share:.2%}", "not a bound"))


def test_the_loss_bound_of_a_poor_policy_is_above_its_loss_but_not_by_much():
    model = small_grid()
    v, _ = solve_exactly(model)
    policy = torch.zeros(model.n_states, dtype=torch.int64)
    loss = float((v - evaluate_policy(model, policy)).max())
    assert loss - 2e-9 <= certify_plan(model, v, policy).loss_bound <= loss + 1e-7


def test_rows_rounded_to_more_or_less_than_one_stay_inside_the_certificate():
    thirds = np.full((3, 1, 3), np.float32(1 / 3), np.float32)
    less = np.zeros((2, 1, 2))
    less[:, :, 0] = 1 - 9e-7
    for transitions, gamma in ((thirds, 0.9999), (less, 0.999)):
        states = len(transitions)
        model = svrl.TabularMDP(transitions=transitions, rewards=np.ones((states, 1)), gamma=gamma)
        truth = 1.0 / (1.0 - gamma * float(transitions[0, 0].astype(np.float64).sum()))
        found = svrl.certify_plan(model, torch.full((states,), 1.0 / (1.0 - gamma), dtype=torch.float64))
        assert float(found.lower[0]) <= truth + 1e-6
        assert float(found.upper[0]) >= truth - 1e-6
