"""Planning on the CPU and on CUDA: the same backups, and plans that agree within the tolerances stated here."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from svrl.matrix import FactorALS
from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.simulator import NoisyBackups, Simulator
from svrl.mdp.tasks import cart_pole, inverted_pendulum
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.plan import plan
from svrl.planning.policy import GreedyPolicy, low_rank_policy
from svrl.planning.rollout import rollout
from svrl.planning.svp import StructuredValueIteration, paper_svp
from svrl.runtime import nvrtc
from svrl.runtime.nvrtc import NoCompilerError

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

# Sines and cosines of the two devices differ in their last bit, which a table in single precision rounds once more.
BACKUPS = {torch.float64: 1e-11, torch.float32: 1e-5}
# With kernels and without, both on one GPU and from one table: only the order of rounding differs.
KERNELS = {torch.float64: 1e-12, torch.float32: 1e-5}
QUICK = FactorALS(rank=4, ridge=1e-3, max_steps=1)


def pendulum(actions: int = 30) -> ControlTask:
    """Small, and with a discount that lets value iteration settle in tens of sweeps."""
    return dataclasses.replace(inverted_pendulum(states=(14, 12), actions=actions), gamma=0.8)


def both(task: ControlTask, **options: Any) -> tuple[GridMDP, GridMDP]:
    return GridMDP(task, device="cpu", **options), GridMDP(task, device="cuda", **options)


def values(task: ControlTask, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(task.n_states, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def far(here: Tensor, there: Tensor) -> float:
    assert there.is_cuda
    assert here.dtype == there.dtype
    return float((here - there.cpu()).abs().max())


def optimum(model: GridMDP) -> tuple[Tensor, Tensor]:
    """V* and its greedy policy, by so many sweeps that nothing is left to move."""
    v = torch.zeros(model.n_states, dtype=torch.float64)
    for _ in range(150):
        v, policy = model.improve(v)
    return v, policy


def worth(model: GridMDP, policy: Tensor) -> Tensor:
    chain = model.policy_chain(policy.cpu())
    identity = torch.eye(model.n_states, dtype=torch.float64)
    return torch.linalg.solve(identity - model.gamma * chain.transitions.to_dense(), chain.reward)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mode", ["table", "on-the-fly"])
@pytest.mark.parametrize("name", ["two", "four"])
def test_backups_agree(name: str, mode: str, dtype: torch.dtype):
    task = pendulum() if name == "two" else cart_pole(states=(5, 4, 6, 4), actions=11)
    here, there = both(task, mode=mode, dtype=dtype)
    v = values(task, dtype)
    w, room = v.cuda(), BACKUPS[dtype]
    generator = torch.Generator().manual_seed(1)
    states = torch.randint(task.n_states, (500,), generator=generator)
    actions = torch.randint(task.n_actions, (500,), generator=generator)
    assert far(here.backup(v), there.backup(w)) < room
    assert far(here.backup_at(v, states, actions), there.backup_at(w, states.cuda(), actions.cuda())) < room
    assert far(here.backup_rows(v, states[:9]), there.backup_rows(w, states[:9].cuda())) < room
    assert far(here.backup_columns(v, actions[:9]), there.backup_columns(w, actions[:9].cuda())) < room
    (best, _), (most, first) = here.improve(v), there.improve(w)
    assert far(best, most) < room
    assert float((here.backup(v).gather(1, first.cpu()[:, None]).squeeze(1) - best).abs().max()) < room
    policy = actions[torch.arange(task.n_states) % 500]
    chain, other = here.policy_chain(policy), there.policy_chain(policy.cuda())
    assert far(chain.backup(v.double()), other.backup(w.double())) < room
    assert here.reward_range == pytest.approx(there.reward_range, abs=1e-6)


def compiler() -> None:
    """Only a missing compiler excuses missing kernels: one that is refused would go unseen."""
    try:
        nvrtc._nvrtc()
    except NoCompilerError as error:
        pytest.skip(str(error))


def kernels_and_plain(task: ControlTask, device: str = "cuda", **options: Any) -> tuple[GridMDP, GridMDP]:
    """A stored table on a GPU, and the same without kernels."""
    compiler()
    model = GridMDP(task, mode="table", device=device, **options)
    plain = copy.copy(model)
    plain._gpu = None
    return model, plain


def assert_same_sweep(model: GridMDP, plain: GridMDP, v: Tensor, room: float) -> None:
    assert model._gpu is not None
    found = model._gpu.improve(v)
    assert found is not None
    best, first = found
    q = plain.backup(v)
    assert far(plain.improve(v)[0].cpu(), best) < room
    assert float((q.gather(1, first[:, None]).squeeze(1) - best).abs().max()) < room
    two = q.topk(2).values
    clear = two[:, 0] - two[:, 1] > 2 * room
    assert torch.equal(first[clear], q.argmax(1)[clear])
    assert bool(clear.any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("stored", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["two", "odd", "four"])
def test_kernels_give_what_plain_torch_gives(name: str, stored: torch.dtype, dtype: torch.dtype):
    task = {
        "two": pendulum(),
        "odd": inverted_pendulum(states=(7, 9), actions=33),  # words of four do not divide its table
        "four": cart_pole(states=(5, 4, 6, 4), actions=11),
    }[name]
    model, plain = kernels_and_plain(task, dtype=stored)
    v, room = values(task, dtype).cuda(), KERNELS[dtype]
    assert_same_sweep(model, plain, v, room)
    generator = torch.Generator("cuda").manual_seed(1)
    states = torch.randint(task.n_states, (5000,), generator=generator, device="cuda")
    actions = torch.randint(task.n_actions, (5000,), generator=generator, device="cuda")
    assert far(plain.backup(v).cpu(), model.backup(v)) < room
    assert far(plain.backup_at(v, states, actions).cpu(), model.backup_at(v, states, actions)) < room
    assert far(plain.backup_rows(v, states[:9]).cpu(), model.backup_rows(v, states[:9])) < room
    assert far(plain.backup_columns(v, actions[:9]).cpu(), model.backup_columns(v, actions[:9])) < room
    assert model.backup_at(v, states[:0], actions[:0]).shape == (0,)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_kernels_serve_one_to_four_dimensions(dimensions: int):
    axes = tuple(Axis(name=f"axis {k}", low=-1.0, high=1.0 + k, points=4 + k) for k in range(dimensions))

    def step(states: Tensor, inputs: Tensor, noise: Tensor) -> Tensor:
        return 0.9 * states + torch.sin(2.0 * states.flip(-1)) + 0.4 * inputs[..., :1] + noise

    task = ControlTask(
        name="made-up",
        axes=axes,
        actions=torch.linspace(-1.0, 1.0, 37, dtype=torch.float64),
        step=step,
        reward=lambda states, inputs: torch.cos(3.0 * states).sum(-1) * inputs[..., 0],
        gamma=0.9,
        noise=(0.1,) * dimensions,
    )
    model, plain = kernels_and_plain(task)
    assert_same_sweep(model, plain, values(task).cuda(), KERNELS[torch.float64])


@pytest.mark.parametrize("actions", [2, 9, 100, 1027, 4000])
def test_any_number_of_actions_and_the_first_of_equals(actions: int):
    task = inverted_pendulum(states=(10, 10), actions=actions)
    model, plain = kernels_and_plain(task)
    assert_same_sweep(model, plain, values(task, torch.float32).cuda(), KERNELS[torch.float32])
    pairs = task.actions[torch.arange(actions) // 2 * 2]
    model, _ = kernels_and_plain(dataclasses.replace(task, actions=pairs))
    assert not bool((model.improve(values(task).cuda())[1] % 2).any())
    flat = dataclasses.replace(task, reward=lambda states, inputs: 0.0 * (states[..., 0] + inputs[..., 0]))
    model, _ = kernels_and_plain(dataclasses.replace(flat, reward_range=None))
    assert not bool(model.improve(torch.zeros(task.n_states, device="cuda"))[1].any())


def test_a_pair_that_is_not_there_gets_nan_from_the_kernel():
    model, _ = kernels_and_plain(pendulum())
    states = torch.tensor([0, model.n_states, 3, -1], device="cuda")
    actions = torch.tensor([0, 0, model.n_actions, 0], device="cuda")
    found = model.backup_at(values(model.task).cuda(), states, actions)
    assert found.isnan().tolist() == [False, True, True, True]


def test_kernels_run_on_the_current_stream():
    model, plain = kernels_and_plain(pendulum())
    v = values(model.task).cuda()
    expected = plain.improve(plain.improve(v)[0])[0]
    model.improve(v)  # compiles
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = model.improve(model.improve(v)[0])[0]
    stream.synchronize()
    assert far(expected.cpu(), found) < KERNELS[torch.float64]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_kernels_run_on_the_gpu_of_their_table():
    model, plain = kernels_and_plain(pendulum(), device="cuda:1")
    assert torch.cuda.current_device() == 0
    assert_same_sweep(model, plain, values(model.task).to("cuda:1"), KERNELS[torch.float64])


def test_the_pair_that_is_not_finite_is_named_on_cuda():
    task = pendulum()

    def spoilt(states: Tensor, inputs: Tensor) -> Tensor:
        reward = task.reward(states, inputs)
        return torch.where((states[..., 1] == 10.0) & (inputs[..., 0] == 1.0), torch.nan, reward)

    with pytest.raises(
        ValueError, match=r"reward of inverted-pendulum is not finite at state .*10.0\] and action \[1.0\]"
    ):
        GridMDP(dataclasses.replace(task, reward=spoilt), mode="table", device="cuda")


@pytest.mark.parametrize(
    "method",
    [
        StructuredValueIteration(p=1.0, estimator=QUICK, max_iterations=40),
        CrossValueIteration(rank=30, max_iterations=40),
        AsyncValueIteration(p=1.0, max_iterations=40),
        SampledMax(p=1.0, max_iterations=40),
        RowMeanUpdate(p=1.0, max_iterations=40),
        CoarseActions(actions=7, max_iterations=40),
    ],
    ids=lambda method: method.name,
)
def test_where_nothing_is_left_to_chance_plans_agree(method: Method):
    here, there = (plan(model, method) for model in both(pendulum()))
    assert far(here.v, there.v) < 5e-5
    assert there.policy.is_cuda
    assert there.iterations == here.iterations == 40
    assert there.ledger.backups == here.ledger.backups


@pytest.mark.parametrize(
    "method",
    [
        StructuredValueIteration(p=0.5, estimator=QUICK, max_iterations=60),
        paper_svp(p=0.6, max_iterations=60),
        CrossValueIteration(rank=12, max_iterations=60),
        AsyncValueIteration(p=0.4, max_iterations=150),
        IncumbentIteration(p=0.4, max_iterations=150),
    ],
    ids=lambda method: method.name,
)
def test_draws_differ_and_policies_are_as_good(method: Method):
    # A seed draws other pairs on another device; what is found from them is worth about the same.
    model, there = both(pendulum())
    best, _ = optimum(model)
    one, two = (float((best - worth(model, plan(grid, method).policy)).mean()) for grid in (model, there))
    span = float(best.max() - best.min())
    assert abs(one - two) < 0.01 * span
    assert two < 0.01 * span


@pytest.mark.parametrize(
    "method",
    [AveragedValueIteration(max_iterations=30), AveragedStructuredIteration(max_iterations=30, rank=30, choose=False)],
    ids=lambda method: method.name,
)
def test_averages_without_noise_agree(method: Method):
    here, there = (plan(NoisyBackups(model, 0.0), method) for model in both(pendulum()))
    assert far(here.v, there.v) < 2e-3


def test_averages_with_noise_are_as_good():
    model, there = both(pendulum(actions=60))
    best, _ = optimum(model)
    span = float(best.max() - best.min())
    method = AveragedStructuredIteration(max_iterations=40)
    one, two = (plan(NoisyBackups(grid, 0.05), method) for grid in (model, there))
    losses = [float((best - worth(model, found.policy)).mean()) for found in (one, two)]
    assert max(losses) < 0.02 * span
    assert two.ledger.backups == one.ledger.backups


@pytest.mark.parametrize(
    "method", [SampledMax(), AsyncValueIteration(), CrossValueIteration(rank=6)], ids=lambda m: m.name
)
def test_a_seed_is_a_plan_on_cuda(method: Method):
    method = dataclasses.replace(method, max_iterations=10)  # type: ignore[type-var]
    _, there = both(pendulum())
    one, same, other = (plan(there, method, seed=seed).v for seed in (4, 4, 5))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_simulator_on_cuda_is_the_grid_on_cuda():
    task = pendulum()
    _, there = both(task, dtype=torch.float64)

    def sample(states: Tensor, actions: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return task.step(states, actions, torch.zeros(2, dtype=torch.float64, device="cuda")), task.reward(
            states, actions
        )

    simulator = Simulator(sample, axes=task.axes, actions=task.actions, gamma=task.gamma, device="cuda")
    v = values(task).cuda()
    drawn = simulator.sample(v, torch.Generator("cuda").manual_seed(0), 2)
    assert drawn.is_cuda
    assert float((drawn - there.backup(v)).abs().max()) < 1e-11
    assert simulator.calls == 2 * task.n_states * task.n_actions


def test_policies_from_a_part_of_q_agree():
    model, _ = both(pendulum())
    best, _ = optimum(model)
    q = model.backup(best)
    estimator = FactorALS(rank=6, ridge=1e-4, tolerance=1e-8)
    here = low_rank_policy(q, torch.Generator().manual_seed(0), p=0.6, estimator=estimator)
    there = low_rank_policy(q.cuda(), torch.Generator("cuda").manual_seed(0), p=0.6, estimator=estimator)
    assert there.policy.is_cuda
    losses = [float((best - worth(model, found.policy)).mean()) for found in (here, there)]
    assert max(losses) < 0.01 * float(best.max() - best.min())


def test_rollouts_agree():
    # Starts and noise are drawn on the generator's own device, so both see the same; a tie may be broken otherwise.
    task = pendulum(actions=200)
    model, _ = both(task)
    q = model.backup(optimum(model)[0])
    here, there = (
        rollout(
            task,
            GreedyPolicy(task=task, q=q.to(device)),
            starts=300,
            steps=100,
            generator=torch.Generator().manual_seed(3),
        )
        for device in ("cpu", "cuda")
    )
    assert there.states.is_cuda
    assert torch.equal(here.states[0], there.states[0].cpu())
    assert float((here.actions == there.actions.cpu()).double().mean()) > 0.99
    assert float((here.returns - there.returns.cpu()).abs().max()) < 1e-2
    assert here.discounted_return == pytest.approx(there.discounted_return, abs=1e-4)
