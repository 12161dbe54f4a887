from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from svrl.matrix import approximate_rank
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import toy_mdp
from svrl.mdp.tasks import double_integrator
from svrl.planning.baselines import AsyncValueIteration, CoarseActions, SampledMax
from svrl.planning.method import Method
from svrl.planning.plan import Plan, advance, begin, conclude, plan
from svrl.planning.policy import GreedyPolicy
from svrl.planning.rollout import rollout
from svrl.planning.score import INTERPOLATED, NEAREST, Judge, NearestPolicy, Recorder, ranks
from svrl.planning.svp import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration


@pytest.fixture(scope="module")
def model() -> GridMDP:
    return GridMDP(double_integrator(states=(9, 11), actions=21))


@pytest.fixture(scope="module")
def judge(model: GridMDP) -> Judge:
    return Judge(model, model.task, starts=30, seed=4)


def recorded(judge: Judge, method: Method) -> tuple[Plan, Recorder]:
    recorder = Recorder(judge.optimum.v)
    run = begin(judge.model, method, seed=1)
    for _ in advance(judge.model, method, run):
        recorder(run)
    return conclude(judge.model, method, run), recorder


def test_the_nearest_policy_looks_up_the_nearest_grid_point():
    task = double_integrator(states=(5, 4), actions=7)
    table = torch.arange(20) % 7
    states = torch.rand(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 6 - 3
    spacing = torch.tensor([1.5, 2.0])
    place = ((states + 3) / spacing).round().long()
    assert torch.equal(NearestPolicy(task=task, table=table).actions(states), table[place[:, 0] * 4 + place[:, 1]])


def test_the_optimum_loses_nothing_and_its_return_is_that_of_its_q(judge: Judge, model: GridMDP):
    score = judge.optimal
    assert abs(score.policy_loss_relative) < 1e-8
    assert score.followed == INTERPOLATED
    policy = GreedyPolicy(task=model.task, q=model.backup(judge.optimum.v))
    done = rollout(model.task, policy, starts=30, generator=torch.Generator().manual_seed(4))
    assert score.discounted_return == pytest.approx(done.discounted_return)
    assert score.metric == {"name": "time_to_goal", **done.metric}


@pytest.mark.parametrize(
    "method",
    [
        StructuredValueIteration(p=0.5, max_iterations=6),
        ValueIteration(max_iterations=6),
        CoarseActions(actions=4, max_iterations=6),
    ],
    ids=lambda method: method.name,
)
def test_a_policy_of_a_full_sweep_is_followed_by_the_q_of_that_sweep(judge: Judge, model: GridMDP, method: Method):
    found, recorder = recorded(judge, method)
    policy, how = judge._carried(found, recorder.values)
    assert how == INTERPOLATED
    assert isinstance(policy, GreedyPolicy)
    chosen = policy.table.gather(1, found.policy[:, None])[:, 0]
    assert float((policy.table.max(1).values - chosen).max()) <= 1e-6


def test_entries_that_were_never_backed_up_are_never_followed(judge: Judge, model: GridMDP):
    found, recorder = recorded(judge, AsyncValueIteration(p=0.3, max_iterations=2))
    assert found.q is not None
    assert bool((found.q == -math.inf).any())
    policy, how = judge._carried(found, recorder.values)
    assert how == INTERPOLATED
    states = model.task.states()
    assert torch.equal(policy.actions(states), found.policy)


def test_a_policy_without_q_is_looked_up(judge: Judge):
    found, recorder = recorded(judge, SampledMax(p=0.3, max_iterations=4))
    score = judge.score(found, recorder.values)
    assert score.followed == NEAREST
    assert score.policy_loss > 0
    assert score.rollout is not None
    assert torch.equal(score.rollout.states[0], judge.optimal.rollout.states[0])


def test_the_recorder_keeps_errors_and_the_last_two_values(judge: Judge, model: GridMDP):
    method = ValueIteration(max_iterations=5)
    _, recorder = recorded(judge, method)
    v = torch.zeros(99, dtype=torch.float64)
    errors, values = [], []
    for _ in range(5):
        v = model.backup(v).max(1).values
        values.append(v)
        errors.append(float((v - judge.optimum.v).abs().max()))
    assert recorder.notes["errors"] == pytest.approx(errors)
    assert torch.allclose(recorder.values[0], values[-1])
    assert torch.allclose(recorder.values[1], values[-2])


def test_ranks_are_those_of_the_matrix(judge: Judge, model: GridMDP):
    found, _ = recorded(judge, StructuredValueIteration(p=0.5, max_iterations=6))
    q = found.q.double().numpy()
    assert ranks(found, model) == {
        "rank_99": approximate_rank(q),
        "rank_tight": approximate_rank(q, energy=1 - 1e-6),
        "rank_99_centred": approximate_rank(q, centre_rows=True),
        "rank_tight_centred": approximate_rank(q, energy=1 - 1e-6, centre_rows=True),
    }


def test_ranks_that_are_not_known_have_a_reason(judge: Judge, model: GridMDP):
    found, _ = recorded(judge, AsyncValueIteration(p=0.3, max_iterations=2))
    row = ranks(found, model)
    assert row["rank_99"] is None
    assert "unknown" in row["rank_reason"]


def test_without_a_task_returns_are_exact_values():
    model = toy_mdp(0, n_states=40, n_actions=6)
    judge = Judge(model, None, starts=10, seed=0)
    found = plan(model, SampledMax(p=0.5, max_iterations=3))
    score = judge.score(found)
    chain = model.policy_chain(found.policy)
    own = np.linalg.solve(np.eye(40) - 0.95 * chain.transitions.to_dense().numpy(), chain.reward.numpy())
    assert score.discounted_return == pytest.approx(own.mean(), rel=1e-7)
    assert score.policy_loss == pytest.approx(judge.optimal.discounted_return - own.mean(), rel=1e-5)
    assert score.rollout is None
