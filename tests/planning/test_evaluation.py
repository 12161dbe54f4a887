"""Exact values of policies and optima, against linear algebra and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.mdp.tabular import TabularMDP
from svrl.planning.evaluation import PolicyLoss, evaluate_policy, policy_loss
from svrl.planning.policy_iteration import solve_exactly

from .oracles import Dense, flat_grid, low_rank_model, small_grid


def cycle(n_states: int, gamma: float) -> TabularMDP:
    """One action, round and round; only state 0 pays."""
    reward = torch.zeros(n_states, 1, dtype=torch.float64)
    reward[0] = 1.0
    following = torch.roll(torch.arange(n_states), -1)[:, None]
    return TabularMDP.deterministic(following=following, rewards=reward, gamma=gamma)


@pytest.mark.parametrize("gamma", [0.1, 0.95, 0.9995])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_the_cycle_has_a_closed_form(gamma: float, tolerance: float):
    model = cycle(20, gamma)
    steps_to_go = (20 - torch.arange(20, dtype=torch.float64)) % 20
    truth = gamma**steps_to_go / (1 - gamma**20)
    v = evaluate_policy(model, torch.zeros(20, dtype=torch.int64), tolerance)
    assert v.dtype == torch.float64
    assert float((v - truth).abs().max()) <= tolerance
    best, policy = solve_exactly(model, tolerance)
    assert float((best - truth).abs().max()) <= tolerance
    assert policy.tolist() == [0] * 20


@pytest.mark.parametrize("seed", range(3))
def test_any_policy_on_a_grid_by_linear_algebra(seed: int):
    model = small_grid(gamma=0.97)
    policy = torch.randint(model.n_actions, (model.n_states,), generator=torch.Generator().manual_seed(seed))
    v = evaluate_policy(model, policy)
    assert np.abs(v.numpy() - Dense.of(model).worth(policy)).max() <= 2e-9
    assert float((model.backup_at(v, torch.arange(model.n_states), policy) - v).abs().max()) <= 1e-9 * 0.03


def test_the_optimum_is_certain_and_its_policy_attains_it():
    for model in (small_grid(), low_rank_model()):
        v, policy = solve_exactly(model)
        residual = float((model.improve(v)[0] - v).abs().max())
        assert residual * model.gamma / (1 - model.gamma) <= 1e-9
        assert np.abs(v.numpy() - Dense.of(model).optimum(1e-11)).max() <= 1e-9
        assert float((v - evaluate_policy(model, policy)).abs().max()) <= 3e-9


def test_where_nothing_matters_every_value_is_the_same():
    v, policy = solve_exactly(flat_grid(reward=-0.25))
    assert torch.allclose(v, torch.tensor(-0.25 / 0.2, dtype=torch.float64), rtol=0, atol=1e-9)
    assert torch.allclose(evaluate_policy(flat_grid(reward=-0.25), policy), v, rtol=0, atol=2e-9)


def test_states_where_the_episode_is_over_are_worth_nothing():
    p = np.zeros((3, 1, 3))
    p[0, 0, 1] = p[1, 0, 2] = p[2, 0, 0] = 1.0
    model = TabularMDP(
        transitions=p, rewards=np.array([[1.0], [2.0], [50.0]]), gamma=0.5, terminal=np.array([False, False, True])
    )
    assert evaluate_policy(model, torch.zeros(3, dtype=torch.int64)).tolist() == pytest.approx([2.0, 2.0, 0.0])


def test_a_tolerance_below_rounding_is_refused():
    model = small_grid(gamma=0.95)
    with pytest.raises(ValueError, match="Rounding keeps the values"):
        evaluate_policy(model, torch.zeros(model.n_states, dtype=torch.int64), tolerance=1e-20)
    with pytest.raises(ValueError, match="Rounding keeps the values"):
        solve_exactly(model, tolerance=1e-20)


@pytest.mark.parametrize("policy", [torch.zeros(3, dtype=torch.int64), torch.zeros(120), torch.zeros(120, 25)])
def test_what_is_no_policy_is_refused(policy: torch.Tensor):
    with pytest.raises(ValueError, match="one action for each of 120 states"):
        evaluate_policy(small_grid(), policy)


def test_losses_are_the_differences():
    best, mine = torch.tensor([4.0, 2.0, 0.0]), torch.tensor([3.0, 2.0, -2.0])
    assert policy_loss(best, mine) == PolicyLoss(mean=1.0, relative=0.25, worst=2.0)
    level = torch.ones(3)
    assert policy_loss(level, level) == PolicyLoss(mean=0.0, relative=0.0, worst=0.0)
    assert policy_loss(level, level - 1).relative == float("inf")
    with pytest.raises(ValueError, match="same states"):
        policy_loss(best, mine[:2])
