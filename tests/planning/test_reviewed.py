"""Faults that a review found, kept out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import svrl
from svrl.planning.averaged import Fresh
from svrl.planning.meter import Meter

from .oracles import Dense, small_grid


def sparse_reward(states: int = 30, actions: int = 10) -> svrl.TabularMDP:
    """One pair pays, and the rest lead there by chance."""
    rng = np.random.default_rng(0)
    following = rng.integers(0, states, (states, actions))
    rewards = np.zeros((states, actions))
    rewards[3, 4] = 1.0
    return svrl.TabularMDP.deterministic(following=following, rewards=rewards, discount=0.9)


@pytest.mark.parametrize("name", ["svp", "async", "sampled-max", "row-mean-update", "incumbent"])
def test_a_draw_that_misses_the_reward_is_no_convergence(name: str):
    model = sparse_reward()
    best, _ = svrl.solve_exactly(model)
    for seed in range(6):
        found = svrl.plan(model, svrl.make_method(name, observe=0.3), seed=seed)
        assert not found.converged or float((best - found.v).abs().max()) < 1.0, (name, seed, found.iterations)


def test_rows_rounded_to_more_or_less_than_one_stay_inside_the_certificate():
    thirds = np.full((3, 1, 3), np.float32(1 / 3), np.float32)
    less = np.zeros((2, 1, 2))
    less[:, :, 0] = 1 - 9e-7
    for transitions, discount in ((thirds, 0.9999), (less, 0.999)):
        states = len(transitions)
        model = svrl.TabularMDP(transitions=transitions, rewards=np.ones((states, 1)), discount=discount)
        truth = 1.0 / (1.0 - discount * float(transitions[0, 0].astype(np.float64).sum()))
        found = svrl.certify_plan(model, torch.full((states,), 1.0 / (1.0 - discount), dtype=torch.float64))
        assert float(found.lower[0]) <= truth + 1e-6
        assert float(found.upper[0]) >= truth - 1e-6


def test_with_few_samples_the_policy_is_the_one_of_the_last_step():
    model = small_grid(actions=60)
    method = svrl.AveragedStructuredIteration(observe=0.1, max_iterations=20)
    found = svrl.plan(svrl.NoisyBackups(model, 1.0), method)
    assert len(found.policy.unique()) > 1, "action 0 everywhere is what ties give"
    assert found.q is not None
    assert torch.equal(found.q.argmax(1), found.policy)


def test_the_worth_of_two_policies_is_compared_without_the_worth_of_the_states():
    # No noise in the backups: a tenth of the pairs must tell the best policy from the worst in every draw.
    model = small_grid(actions=40)
    dense = Dense.of(model)
    q = torch.from_numpy(dense.backup(dense.optimum()))
    meter = Meter(svrl.NoisyBackups(model, 0.0))
    best, worst = q.argmax(1), q.argmin(1)
    for seed in range(20):
        draw = torch.rand(q.numel(), generator=torch.Generator().manual_seed(seed)) < 0.1
        index = draw.nonzero().squeeze(1)
        fresh = Fresh(values=q.reshape(-1)[index], index=index)
        centred = fresh.centred(meter)
        good, bad = (float(fresh.advantage_at(meter, policy, centred)) for policy in (best, worst))
        assert good > bad


def test_a_pair_never_sampled_is_not_in_q():
    model = small_grid(actions=60)
    found = svrl.plan(svrl.NoisyBackups(model, 0.1), svrl.AveragedValueIteration(observe=0.02, max_iterations=10))
    assert found.q is not None
    assert bool((found.q == -torch.inf).any())
    assert not bool((found.q == 0.0).any())


def test_a_large_constant_costs_no_more_than_another_draw():
    # The best action is taken before the row's mean is added: in single precision a large one would hide it.
    losses = []
    for offset in (0.0, 1e5):
        task = svrl.make_task("inverted-pendulum", states=(12, 12), actions=40, reward_offset=offset)
        model = svrl.GridMDP(task, dtype=torch.float64)
        best, _ = svrl.solve_exactly(model, tolerance=1e-6)
        method = svrl.StructuredValueIteration(final_sweep=False, max_iterations=60)
        for seed in range(3):
            policy = svrl.plan(model, method, seed=seed).policy
            losses.append(svrl.policy_loss(best, svrl.evaluate_policy(model, policy, tolerance=1e-6)).relative)
    assert max(losses[3:]) < 1.5 * max(losses[:3])


def test_numpy_arrays_are_welcome():
    task = svrl.make_task("double-integrator", states=(np.int64(9), np.int64(9)), actions=7)
    model = svrl.GridMDP(task)
    v, policy = svrl.solve_exactly(model)
    q = model.backup(v.numpy())
    assert svrl.policy_loss(v.numpy(), v.numpy()).mean == 0.0
    svrl.certify_plan(model, v.numpy(), policy.numpy())
    svrl.certify_on_sample(model, v.numpy(), policy.numpy(), np.arange(5))
    greedy = svrl.GreedyPolicy(task=task, q=q)
    greedy.actions(np.zeros((3, 2)))
    svrl.rollout(task, greedy, starts=np.zeros((3, 2)), generator=torch.Generator().manual_seed(0), steps=5)
    svrl.low_rank_policy(q.numpy(), torch.Generator().manual_seed(0), observe=0.9)
