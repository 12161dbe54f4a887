"""Exact methods and values of policies: closed forms, each other, linear algebra, and what stop rules promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.mdp.grid import GridMDP
from svrl.mdp.simulator import NoisyBackups
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import inverted_pendulum
from svrl.planning.evaluation import (
    PolicyLoss,
    chain_values,
    evaluate_policy,
    linear_solution,
    policy_loss,
    residual_of,
    sweeps,
)
from svrl.planning.method import Method
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration, solve_exactly
from svrl.planning.value_iteration import ValueIteration

from .oracles import Dense, low_rank_model, small_grid

TIGHT: list[Method] = [
    ValueIteration(tolerance=1e-10),
    ValueIteration(tolerance=1e-11, stop="sup"),
    ModifiedPolicyIteration(tolerance=1e-11),
    ModifiedPolicyIteration(tolerance=1e-11, sweeps=0),
    PolicyIteration(),
    PolicyIteration(solver="krylov"),
]


def random_mdp(seed: int, gamma: float = 0.9, ending: bool = False) -> TabularMDP:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(2, 25)), int(rng.integers(1, 6))
    size = (n_states, n_actions, n_states)
    p = rng.random(size) * (rng.random(size) < 0.3)
    np.put_along_axis(p, rng.integers(n_states, size=(n_states, n_actions, 1)), 0.7, axis=2)
    p /= p.sum(2, keepdims=True)
    terminal = (rng.random(n_states) < 0.3) if ending else None
    return TabularMDP(transitions=p, rewards=rng.normal(size=(n_states, n_actions)), gamma=gamma, terminal=terminal)


def corridor(length: int = 9, gamma: float = 0.8) -> TabularMDP:
    """Action 1 goes one state to the right, action 0 stays; staying in the last state pays 1."""
    following = torch.stack([torch.arange(length), (torch.arange(length) + 1).clamp(max=length - 1)], 1)
    reward = torch.zeros(length, 2, dtype=torch.float64)
    reward[-1] = 1.0
    return TabularMDP.deterministic(following=following, rewards=reward, gamma=gamma)


@pytest.mark.parametrize("method", TIGHT, ids=repr)
def test_the_corridor_has_a_closed_form(method: Method):
    found = plan(corridor(), method)
    distance = torch.arange(8, -1, -1, dtype=torch.float64)
    assert torch.allclose(found.v, 0.8**distance / 0.2, rtol=0, atol=1e-8)
    assert found.converged
    assert found.v.dtype == torch.float64
    assert found.policy.dtype == torch.int64
    assert bool((found.policy[:-1] == 1).all())


@pytest.mark.parametrize("ending", [False, True], ids=["endless", "ending"])
@pytest.mark.parametrize("seed", range(6))
def test_all_methods_agree_with_each_other_and_with_linear_algebra(seed: int, ending: bool):
    model = random_mdp(seed, ending=ending)
    dense = Dense.of(model)
    truth = dense.optimum(1e-11)
    for method in TIGHT:
        found = plan(model, method)
        assert found.converged, found.outcome
        assert np.abs(found.v.numpy() - truth).max() <= 1e-8, method
        assert dense.loss(found.policy) <= 1e-8, method


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), ending=st.booleans(), tolerance=st.sampled_from([1.0, 1e-2, 1e-5]))
def test_the_span_rule_keeps_its_word(seed: int, ending: bool, tolerance: float):
    model = random_mdp(seed, ending=ending)
    found = plan(model, ValueIteration(tolerance=tolerance))
    dense = Dense.of(model)
    assert np.abs(found.v.numpy() - dense.optimum(1e-11)).max() <= tolerance / 2 + 1e-9
    assert dense.loss(found.policy) <= tolerance + 1e-9


def test_the_span_rule_does_not_trust_equal_changes_where_episodes_end():
    # The only value rises by 1 in the first sweep: a span of 0, which would be read as 1 for ever, that is 10.
    ends = TabularMDP.from_toy_text({0: {0: [(0.5, 0, 1.0, False), (0.5, 0, 1.0, True)]}}, 0.9)
    found = plan(ends, ValueIteration())
    assert found.v.tolist() == pytest.approx([1.0 / (1.0 - 0.45)], abs=1e-6)


def test_the_span_rule_stops_long_before_the_other():
    # All values keep rising together, so that the midpoint is right as soon as the differences are.
    model = random_mdp(3, gamma=0.99)
    span, sup = (plan(model, ValueIteration(stop=stop)) for stop in ("span", "sup"))
    assert span.iterations < sup.iterations / 3
    assert torch.allclose(span.v, sup.v, atol=1e-6 * 0.99 / 0.01 + 1e-6)


def test_the_sup_rule_means_what_it_says():
    model = random_mdp(4)
    found = plan(model, ValueIteration(stop="sup", tolerance=1e-3))
    assert found.trace[-1].residual <= 1e-3 < found.trace[-2].residual
    assert float((model.improve(found.v)[0] - found.v).abs().max()) <= 0.9e-3


def test_a_start_is_not_written_to():
    model, start = small_grid(), torch.linspace(-1, 1, 120, dtype=torch.float64)
    for method in [*TIGHT, ValueIteration(stop="authors")]:
        kept = start.clone()
        plan(model, method, start=start)
        assert torch.equal(start, kept), method


def authors_iterations(dense: Dense) -> int:
    """The authors' loop, as they wrote it."""
    q = np.zeros_like(dense.reward)
    for iteration in range(1, 201):
        new = dense.backup(q.max(1))
        if ((new - q) ** 2).mean() < 1e-6:
            return iteration
        q = new
    return 200


@pytest.mark.parametrize("seed", range(4))
def test_the_authors_rule_counts_as_they_do(seed: int):
    model = random_mdp(seed)
    found = plan(model, ValueIteration(stop="authors"))
    assert found.iterations == authors_iterations(Dense.of(model))
    assert found.converged
    assert found.q is not None
    assert torch.equal(found.q.max(1).values, found.v)


def test_the_authors_stop_after_200_iterations():
    model = random_mdp(0, gamma=0.999)
    assert plan(model, ValueIteration(stop="authors")).iterations == 200 == authors_iterations(Dense.of(model))


def test_a_small_pendulum_takes_as_many_iterations_as_in_the_authors_program():
    model = GridMDP(inverted_pendulum(variant="authors", states=(20, 20), actions=100))
    assert plan(model, ValueIteration(stop="authors")).iterations == 116


def test_backups_are_counted():
    model = small_grid()
    pairs = model.n_states * model.n_actions
    found = plan(model, ValueIteration())
    assert found.ledger.backups == found.iterations * pairs
    found = plan(model, ModifiedPolicyIteration(sweeps=7))
    assert found.ledger.backups == found.iterations * pairs + 7 * (found.iterations - 1) * model.n_states
    found = plan(model, PolicyIteration())
    assert found.ledger.backups > found.iterations * pairs


def test_modified_policy_iteration_without_sweeps_is_value_iteration():
    model = random_mdp(8)
    plain = plan(model, ValueIteration(tolerance=2e-8))
    modified = plan(model, ModifiedPolicyIteration(sweeps=0, tolerance=1e-8))
    assert modified.iterations == plain.iterations
    assert torch.equal(modified.v, plain.v)


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
def test_modified_policy_iteration_is_as_exact_as_it_says(gamma: float, ending: bool):
    for seed in range(5):
        model = random_mdp(seed, gamma=gamma, ending=ending)
        found = plan(model, ModifiedPolicyIteration())
        assert found.converged
        assert np.abs(found.v.numpy() - Dense.of(model).optimum()).max() <= 1e-8


def test_actions_that_tie_do_not_keep_policy_iteration_busy():
    # Every action is every other, but for the order in which equal numbers are added up.
    rng = np.random.default_rng(0)
    p = rng.random((30, 1, 30))
    p = np.repeat(p / p.sum(2, keepdims=True), 6, axis=1)
    reward = np.repeat(rng.random((30, 1)), 6, axis=1)
    reward = reward + rng.choice([0.0, 1e-16, -1e-16], size=reward.shape)
    for solver in ("direct", "krylov"):
        found = plan(TabularMDP(transitions=p, rewards=reward, gamma=0.999), PolicyIteration(solver=solver))
        assert found.converged
        assert found.iterations <= 3


def test_noisy_value_iteration_samples_all_pairs_once_an_iteration():
    model = small_grid()
    problem = NoisyBackups(model, 0.05)
    found = plan(problem, ValueIteration(max_iterations=40), seed=1)
    assert found.iterations == 40
    assert found.ledger.backups == 40 * model.n_states * model.n_actions
    again = plan(problem, ValueIteration(max_iterations=40), seed=1)
    assert torch.equal(found.v, again.v)
    assert not torch.equal(found.v, plan(problem, ValueIteration(max_iterations=40), seed=2).v)
    # The maximum of noisy numbers is too high on average: that is what the averaging methods are for.
    truth = torch.from_numpy(Dense.of(model).optimum())
    assert 0.05 < float((found.v - truth).mean()) < 1.0


def test_equal_noise_in_all_states_is_no_convergence():
    # With one state all changes are equal, and their span is 0 from the first sample on.
    one = TabularMDP(transitions=np.ones((1, 1, 1)), rewards=np.ones((1, 1)), gamma=0.9)
    found = plan(NoisyBackups(one, 0.1), ValueIteration(max_iterations=200))
    assert not found.converged
    assert float(found.v[0]) == pytest.approx(10.0, abs=1.5)


@pytest.mark.parametrize("ending", [False, True])
def test_sweeps_of_a_chain_are_its_backups(ending: bool):
    model = random_mdp(11, ending=ending)
    chain = model.policy_chain(torch.zeros(model.n_states, dtype=torch.int64))
    v = torch.linspace(-3, 5, model.n_states, dtype=torch.float64)
    kept, expected = v.clone(), v
    for _ in range(5):
        expected = chain.backup(expected)
    assert torch.allclose(sweeps(chain, v, 5), expected, rtol=0, atol=1e-13)
    assert torch.equal(sweeps(chain, v, 0), v)
    assert torch.equal(v, kept)


@pytest.mark.parametrize("solver", [None, "direct", "krylov"])
@pytest.mark.parametrize("gamma", [0.3, 0.95, 0.9999])
def test_a_chain_is_solved_by_every_solver(solver: Any, gamma: float):
    model = random_mdp(12, gamma=gamma)
    policy = torch.zeros(model.n_states, dtype=torch.int64)
    chain = model.policy_chain(policy)
    start = torch.zeros(model.n_states, dtype=torch.float64)
    v, left, reads = chain_values(chain, start, 1e-10, solver)
    assert left == residual_of(chain, v) <= 1e-10
    assert reads >= 1
    error = np.abs(v.numpy() - Dense.of(model).worth(policy)).max()
    assert error <= 1e-10 / (1 - gamma) + 1e-9 / (1 - gamma) ** 0.5


def test_a_residual_that_rounding_forbids_ends_the_sweeps():
    model = random_mdp(13)
    chain = model.policy_chain(torch.zeros(model.n_states, dtype=torch.int64))
    _, left, _ = chain_values(chain, torch.zeros(model.n_states, dtype=torch.float64), 1e-300)
    assert left <= 1e-13


def test_a_linear_solver_that_fails_leaves_the_start(monkeypatch: pytest.MonkeyPatch):
    model = random_mdp(14)
    chain = model.policy_chain(torch.zeros(model.n_states, dtype=torch.int64))
    start = torch.ones(model.n_states, dtype=torch.float64)
    monkeypatch.setattr(scipy.sparse.linalg, "bicgstab", lambda a, b, **_: (np.full(len(b), np.nan), 1))
    assert linear_solution(chain, "krylov", start)[0] is start
    solved, left, _ = chain_values(chain, start, 1e-10, "krylov")
    assert left <= 1e-10
    assert np.abs(solved.numpy() - Dense.of(model).worth(np.zeros(model.n_states, int))).max() <= 1e-8


# Values of a policy.


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


def test_losses_are_the_differences():
    best, mine = torch.tensor([4.0, 2.0, 0.0]), torch.tensor([3.0, 2.0, -2.0])
    assert policy_loss(best, mine) == PolicyLoss(mean=1.0, relative=0.25, worst=2.0)
    level = torch.ones(3)
    assert policy_loss(level, level) == PolicyLoss(mean=0.0, relative=0.0, worst=0.0)
    assert policy_loss(level, level - 1).relative == float("inf")
