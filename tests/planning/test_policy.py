"""Greedy policies: interpolation against closed forms, the kernel against plain torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

from svrl.matrix import FactorALS
from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.grid import corners
from svrl.planning.baselines import AsyncValueIteration
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.plan import plan
from svrl.planning.policy import GreedyPolicy, greedy_by_torch, low_rank_policy
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.rollout import draw_starts
from svrl.planning.svp import StructuredValueIteration

from .oracles import Dense, low_rank_model, small_grid

SHAPES = [(7,), (5, 6), (4, 5, 3), (3, 4, 2, 5)]
DTYPES = [torch.float32, torch.float64]
SLACK = {torch.float32: 1e-5, torch.float64: 1e-13}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def task_of(shape: tuple[int, ...], actions: int, periodic: bool = False) -> ControlTask:
    axes = tuple(
        Axis(name=f"x{k}", low=-1.0 - 0.3 * k, high=2.0 + k, points=points, periodic=periodic and k == 0)
        for k, points in enumerate(shape)
    )
    return ControlTask(
        name="made-up",
        axes=axes,
        actions=torch.arange(actions).double(),
        step=lambda states, actions, noise: states,
        reward=lambda states, actions: states[..., 0],
        gamma=0.9,
    )


def factors(task: ControlTask, rank: int, dtype: torch.dtype, seed: int = 3) -> tuple[torch.Tensor, ...]:
    source = seeded(seed)
    shapes = ((task.n_states, rank), (task.n_actions, rank))
    return tuple(torch.randn(shape, generator=source, dtype=torch.float64).to(dtype) for shape in shapes)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", SHAPES)
def test_any_q_is_interpolated_as_scipy_does(shape: tuple[int, ...]):
    task = task_of(shape, 11)
    q = torch.randn(task.n_states, 11, generator=seeded(1), dtype=torch.float64)
    states = draw_starts(task, 300, seeded(2))
    grid = [axis.values.numpy() for axis in task.axes]
    peer = torch.from_numpy(RegularGridInterpolator(grid, q.numpy().reshape(*shape, 11))(states.numpy()))
    actions, values = GreedyPolicy(task=task, q=q).greedy(states)
    torch.testing.assert_close(values, peer.max(1).values)
    assert torch.equal(actions, peer.argmax(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_at_grid_states_it_is_the_greedy_action_of_their_rows(shape: tuple[int, ...]):
    task = task_of(shape, 13, periodic=True)
    q = torch.randn(task.n_states, 13, generator=seeded(1), dtype=torch.float64)
    assert torch.equal(GreedyPolicy(task=task, q=q).actions(task.states()), q.argmax(1))


@pytest.mark.parametrize("count", [1, 3, 8, 700])
@pytest.mark.parametrize("kind", ["dense", "factors"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_kernel_and_torch_agree(shape: tuple[int, ...], kind: str, dtype: torch.dtype, count: int):
    task = task_of(shape, 101)
    left, right = factors(task, 5, dtype)
    policy = {
        "dense": GreedyPolicy(task=task, q=left @ right.mT),
        "factors": GreedyPolicy(task=task, left=left, right=right),
    }[kind]
    states = draw_starts(task, count, seeded(4))
    actions, values = policy.greedy(states)
    plain_actions, plain_values = greedy_by_torch(task, states, policy.table, policy.right)
    assert actions.dtype == torch.int64
    assert values.dtype == dtype
    torch.testing.assert_close(values, plain_values, rtol=SLACK[dtype], atol=10 * SLACK[dtype])
    # The two may differ where actions tie up to rounding, and those are rare in random factors.
    assert float((actions == plain_actions).double().mean()) > 0.99


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factors_and_the_matrix_they_make_are_one_policy(dtype: torch.dtype):
    task = task_of((6, 7), 50)
    left, right = factors(task, 3, dtype)
    states = draw_starts(task, 500, seeded())
    dense = GreedyPolicy(task=task, q=left @ right.mT).greedy(states)
    short = GreedyPolicy(task=task, left=left, right=right).greedy(states)
    torch.testing.assert_close(dense[1], short[1], rtol=SLACK[dtype], atol=10 * SLACK[dtype])
    assert float((dense[0] == short[0]).double().mean()) > 0.99


@pytest.mark.usefixtures("two_threads")
def test_threads_make_no_difference():
    task = task_of((20, 20), 1000)
    left, right = factors(task, 4, torch.float64)
    states = draw_starts(task, 997, seeded())
    policy = GreedyPolicy(task=task, q=left @ right.mT)
    both = policy.greedy(states)
    torch.set_num_threads(1)
    one = policy.greedy(states)
    assert torch.equal(both[0], one[0])
    assert torch.equal(both[1], one[1])


@pytest.mark.parametrize("actions", [1, 2, 7, 64, 1003])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factored", [False, True])
def test_of_equal_actions_the_first_is_taken(actions: int, dtype: torch.dtype, factored: bool):
    # Vector code and its remainder must round alike, or a copy of the best action may win.
    task = task_of((5, 6, 4), actions)
    left, right = factors(task, 4, dtype)
    if factored:
        policy = GreedyPolicy(task=task, left=left, right=right[:1].expand(actions, -1))
    else:
        policy = GreedyPolicy(task=task, q=(left @ right[:1].mT).expand(-1, actions))
    states = draw_starts(task, 200, seeded())
    chosen, values = policy.greedy(states)
    assert not bool(chosen.any())
    plain_chosen, plain_values = greedy_by_torch(task, states, policy.table, policy.right)
    if not factored:
        assert not bool(plain_chosen.any())
        return
    # With factors torch multiplies by BLAS, and MKL on an AMD CPU sums the last columns in another order than the
    # others, so that a copy may come out one rounding larger. It may win, but by no more than a sum can be rounded.
    rank, eps = right.shape[1], torch.finfo(dtype).eps
    size = GreedyPolicy(task=task, left=left.abs(), right=policy.right.abs()).greedy(states)[1]
    assert bool(((plain_values - values).abs() <= (rank + 2 ** len(task.shape)) * eps * size).all())


def test_outside_the_box_a_periodic_axis_wraps_and_another_stops():
    task = task_of((9, 6), 30, periodic=True)
    policy = GreedyPolicy(task=task, q=torch.randn(54, 30, generator=seeded(), dtype=torch.float64))
    states = draw_starts(task, 100, seeded(1))
    turns = states + torch.tensor([3.0 * 2, 0.0], dtype=torch.float64)
    assert torch.equal(policy.actions(turns), policy.actions(states))
    outside, edge = states.clone(), states.clone()
    outside[:, 1], edge[:, 1] = 99.0, task.axes[1].high
    assert torch.equal(policy.actions(outside), policy.actions(edge))


def test_weights_are_a_distribution_whose_mean_is_the_state():
    task = task_of((3, 4, 2, 5), 2)
    states = draw_starts(task, 200, seeded())
    index, weight = corners(task, states)
    assert bool((weight >= 0).all())
    torch.testing.assert_close((weight[..., None] * task.states()[index]).sum(1), states)


def test_a_plan_gives_its_greedy_policy():
    model = small_grid()
    states = draw_starts(model.task, 200, seeded())
    values = plan(model, ModifiedPolicyIteration())
    by_backup = GreedyPolicy(task=model.task, q=model.backup(values.v))
    assert torch.equal(values.greedy_policy(model.task, model).actions(states), by_backup.actions(states))
    dense = plan(model, StructuredValueIteration(p=0.5, max_iterations=5))
    assert torch.equal(dense.greedy_policy(model.task).table, dense.q)
    assert torch.equal(dense.greedy_policy(model.task, model).table, model.backup(dense.v))
    factors = plan(model, CrossValueIteration(rank=5, max_iterations=5))
    policy = factors.greedy_policy(model.task)
    assert all(torch.equal(*pair) for pair in zip((policy.left, policy.right), factors.factors, strict=True))
    rough = plan(model, AsyncValueIteration(p=0.1, max_iterations=2))
    for found, kept in ((values, "only values"), (rough, "a Q that is not finite")):
        with pytest.raises(ValueError, match=rf"kept {kept}\. Call greedy_policy\(task, model\)"):
            found.greedy_policy(model.task)


def optimal(dense: Dense) -> torch.Tensor:
    return torch.from_numpy(dense.backup(dense.optimum()))


def test_a_matrix_of_low_rank_gives_back_its_policy():
    dense = Dense.of(low_rank_model())
    q = optimal(dense)
    found = low_rank_policy(q, seeded(), p=0.4, estimator=FactorALS(rank=3, ridge=1e-4, tolerance=1e-9))
    assert float((found.q - q).abs().max()) < 1e-2
    assert torch.equal(found.policy, found.q.argmax(1))
    # Peaks between two actions are near ties: the policy is the same up to what those are worth.
    assert float((found.policy == q.argmax(1)).double().mean()) > 0.95
    assert dense.loss(found.policy) < 1e-3
    assert found.p == 0.4
    assert int(found.estimate.rank) == 3


def test_all_entries_are_the_greedy_policy():
    q = optimal(Dense.of(small_grid())).float()
    found = low_rank_policy(q, seeded(), p=1.0)
    assert torch.equal(found.q, q)
    assert torch.equal(found.policy, q.argmax(1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cpu_and_cuda_agree(dtype: torch.dtype):
    task = task_of((9, 8, 7), 300, periodic=True)
    left, right = factors(task, 4, dtype)
    states = draw_starts(task, 2000, seeded()) * 1.2
    here = GreedyPolicy(task=task, left=left, right=right).greedy(states)
    there = GreedyPolicy(task=task, left=left.cuda(), right=right.cuda()).greedy(states.cuda())
    dense = GreedyPolicy(task=task, q=(left @ right.mT).cuda()).greedy(states.cuda())
    for actions, values in (there, dense):
        assert values.is_cuda
        torch.testing.assert_close(values.cpu(), here[1], rtol=1e-4 if dtype == torch.float32 else 1e-11, atol=1e-5)
        assert float((actions.cpu() == here[0]).double().mean()) > 0.99
