"""Rollouts: closed forms, a loop over single states as the oracle, and determinism."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import svrl
from svrl.mdp.control_task import ControlTask
from svrl.mdp.tasks import TASKS, make_task
from svrl.planning.policy import GreedyPolicy
from svrl.planning.rollout import Rollout, draw_starts, rollout

CPU = torch.device("cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class Always:
    """One action everywhere."""

    action: int
    device: torch.device = CPU

    def actions(self, states: torch.Tensor) -> torch.Tensor:
        return torch.full((len(states),), self.action, device=states.device)


def some_policy(task: ControlTask, device: str = "cpu") -> GreedyPolicy:
    left = torch.randn(task.n_states, 3, generator=seeded(5), dtype=torch.float64)
    right = torch.randn(task.n_actions, 3, generator=seeded(6), dtype=torch.float64)
    return GreedyPolicy(task=task, left=left.to(device), right=right.to(device))


def small(name: str) -> ControlTask:
    own = make_task(name)
    sizes = {"states": (4, 4, 4, 4)} if own.dimensions == 4 else {"states": (9, 8)}
    return make_task(name, **sizes, **({"levels": 3} if own.action_axes else {"actions": 21}))


def equal(one: Rollout, two: Rollout) -> bool:
    return all(torch.equal(getattr(one, x), getattr(two, x)) for x in ("states", "actions", "inputs", "rewards"))


@pytest.mark.parametrize("name", TASKS)
def test_shapes_and_boxes(name: str):
    task = small(name)
    run = rollout(task, some_policy(task), starts=40, steps=60, generator=seeded())
    assert run.states.shape == (61, 40, task.dimensions)
    assert run.actions.shape == run.rewards.shape == (60, 40)
    assert run.actions.dtype == torch.int64
    assert torch.equal(run.inputs, task.actions[run.actions])
    for k, axis in enumerate(task.axes):
        assert float(run.states[..., k].min()) >= axis.low
        assert float(run.states[..., k].max()) <= axis.high
    assert task.metric.name in run.metric


@pytest.mark.parametrize("name", TASKS)
def test_the_batch_equals_a_loop_over_single_starts(name: str):
    task = small(name)
    policy = some_policy(task)
    starts = draw_starts(task, 5, seeded(2))
    run = rollout(task, policy, starts=starts, steps=10, generator=seeded(), noise=False)
    none = torch.zeros(task.dimensions, dtype=torch.float64)
    for n in range(5):
        state = starts[n]
        for t in range(10):
            action = int(policy.actions(state[None]))
            assert action == int(run.actions[t, n])
            assert float(run.rewards[t, n]) == pytest.approx(float(task.reward(state, task.actions[action])), abs=1e-12)
            state = task.move(state, task.actions[action], none)
            torch.testing.assert_close(run.states[t + 1, n], state)


def test_the_return_of_a_constant_reward_is_a_geometric_sum():
    task = small("double-integrator")
    constant = dataclasses.replace(task, reward=lambda states, actions: torch.full_like(states[..., 0], 3.0))
    run = rollout(constant, Always(0), starts=7, steps=90, generator=seeded())
    assert run.discounted_return == pytest.approx(3.0 * (1 - 0.95**90) / (1 - 0.95))


def test_rewards_are_of_the_state_in_which_the_action_is_taken():
    # Pushed from rest at x = 1 with u = -1: x = 1, 1, 0.99 and v = 0, -0.1, -0.2.
    task = small("double-integrator")
    run = rollout(task, Always(0), starts=torch.tensor([[1.0, 0.0]]), steps=3, generator=seeded())
    wanted = [-0.5, -0.5 * (1 + 0.01), -0.5 * (0.99**2 + 0.04)]
    assert run.rewards[:, 0].tolist() == pytest.approx(wanted)
    assert run.discounted_return == pytest.approx(wanted[0] + 0.95 * wanted[1] + 0.95**2 * wanted[2])


def test_the_time_of_a_brick_that_glides_home():
    # u = 0, v = -0.1: x falls from 0.205 by 0.01 a step, to 0.105 after ten and below 0.1 after eleven.
    task = small("double-integrator")
    starts = torch.tensor([[0.205, -0.1], [2.0, 0.0]], dtype=torch.float64)
    run = rollout(task, Always(10), starts=starts, steps=50, generator=seeded())
    assert run.metric == {"time_to_goal": (11 + 50) / 2, "share_reached": 0.5}


@pytest.mark.parametrize("name", ["inverted-pendulum", "cart-pole"])
def test_equal_seeds_give_equal_rollouts(name: str):
    task = small(name)
    policy = some_policy(task)
    one, again, other = (rollout(task, policy, starts=30, steps=55, generator=seeded(s)) for s in (1, 1, 2))
    assert equal(one, again)
    assert not torch.equal(one.states, other.states)
    first, second = (rollout(task, policy, starts=4, steps=2, generator=np.random.default_rng(3)) for _ in range(2))
    assert equal(first, second)


def test_policies_are_compared_under_the_same_starts_and_noise():
    task = small("inverted-pendulum")
    runs = [rollout(task, Always(a), starts=20, steps=5, generator=seeded(4)) for a in (0, 20)]
    assert torch.equal(runs[0].states[0], runs[1].states[0])
    # One step differs by the torque alone: 2 tau, or a turn of it at the edge of the box.
    gap = (runs[1].states[1] - runs[0].states[1])[:, 1]
    assert float((gap - 0.6).abs().median()) < 1e-12


def test_noise_is_on_the_speed_and_of_the_right_size():
    task = small("inverted-pendulum")
    starts = torch.zeros(20000, 2, dtype=torch.float64)
    run = rollout(task, Always(10), starts=starts, steps=1, generator=seeded())
    assert not bool(run.states[1, :, 0].any())
    speeds = run.states[1, :, 1]
    level = np.pi / 360
    assert abs(float(speeds.mean())) < 6 * level / 20000**0.5
    assert abs(float(speeds.std()) / level - 1) < 6 / 40000**0.5
    calm = rollout(task, Always(10), starts=starts[:3], steps=60, generator=seeded(), noise=False)
    # The middle one of the evenly spaced torques is zero up to rounding.
    assert float(calm.states.abs().max()) < 1e-12


def test_the_global_random_state_stays_where_it_is():
    before = torch.get_rng_state()
    task = small("inverted-pendulum")
    rollout(task, Always(0), starts=3, steps=2, generator=seeded())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", TASKS)
def test_starts_are_uniform_in_the_box(name: str):
    task = small(name)
    starts = draw_starts(task, 20000, seeded())
    for k, axis in enumerate(task.axes):
        share = (starts[:, k] - axis.low) / (axis.high - axis.low)
        counts = torch.histc(share, 10, 0.0, 1.0)
        assert int(counts.sum()) == 20000
        assert float((counts / 2000 - 1).abs().max()) < 6 / 2000**0.5


def test_a_task_without_a_metric_has_none():
    task = dataclasses.replace(small("double-integrator"), metric=None)
    run = rollout(task, Always(0), starts=2, steps=2, generator=seeded())
    assert run.metric == {}
    assert "2 starts, 2 steps" in repr(run)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", TASKS)
def test_cuda_sees_the_same_starts_and_noise(name: str):
    task = small(name)
    here = rollout(task, some_policy(task), starts=50, steps=60, generator=seeded(1))
    there = rollout(task, some_policy(task, "cuda"), starts=50, steps=60, generator=seeded(1))
    assert there.states.is_cuda
    # Rounding may tip a tie between actions, after which two trajectories part: compare the first steps.
    torch.testing.assert_close(there.states[:4].cpu(), here.states[:4], rtol=1e-9, atol=1e-9)
    assert there.metric.keys() == here.metric.keys()


def test_numpy_arrays_are_welcome():
    task = svrl.make_task("double-integrator", states=(np.int64(9), np.int64(9)), actions=7)
    model = svrl.GridMDP(task)
    v, policy = svrl.solve_exactly(model)
    q = model.backup(v.numpy())
    assert svrl.policy_loss(v.numpy(), v.numpy()).mean == 0.0
    svrl.certify_plan(model, v.numpy(), policy.numpy())
    svrl.planning.certify_on_sample(model, v.numpy(), policy.numpy(), np.arange(5))
    greedy = svrl.GreedyPolicy(task=task, q=q)
    assert torch.equal(greedy.actions(np.zeros((3, 2))), greedy.actions(torch.zeros(3, 2)))
    assert greedy.actions(np.zeros((0, 2))).shape == (0,)
    assert "dense Q" in repr(greedy)
    svrl.rollout(task, greedy, starts=np.zeros((3, 2)), generator=torch.Generator().manual_seed(0), steps=5)
    svrl.planning.low_rank_policy(q.numpy(), torch.Generator().manual_seed(0), p=0.9)
