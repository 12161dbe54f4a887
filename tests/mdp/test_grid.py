"""Grids: backups against the definition written out in NumPy, and the ways of asking against each other."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.mdp import grid
from svrl.mdp.control_task import Axis, ControlTask
from svrl.mdp.grid import GridMDP, PlainBackups, locate, tabulate
from svrl.mdp.model import Model
from svrl.mdp.tasks import inverted_pendulum

POINTS = {1: (23,), 2: (9, 7), 3: (5, 4, 6), 4: (3, 5, 4, 3)}


def made_up(dimensions: int, *, actions: int = 37, periodic: tuple[int, ...] = (0,), noise: float = 0.0) -> ControlTask:
    """A task without meaning, whose steps bend, mix the axes and leave the box on all sides."""
    axes = tuple(
        Axis(name=f"axis {k}", low=-1.0 - k, high=2.0 + 0.5 * k, points=points, periodic=k in periodic)
        for k, points in enumerate(POINTS[dimensions])
    )

    def step(states: Tensor, inputs: Tensor, disturbance: Tensor) -> Tensor:
        return 0.9 * states + torch.sin(2.0 * states.flip(-1)) + inputs[..., :1] * 0.4 * (1 + states**2) + disturbance

    def reward(states: Tensor, inputs: Tensor) -> Tensor:
        return torch.cos(3.0 * states).sum(-1) * (1.0 + 0.3 * inputs[..., 0]) - inputs[..., 0] ** 2

    return ControlTask(
        name="made-up",
        axes=axes,
        actions=torch.linspace(-1.0, 1.0, actions, dtype=torch.float64),
        step=step,
        reward=reward,
        gamma=0.9,
        noise=(noise,) * dimensions,
    )


def values(task: ControlTask, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(task.n_states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def brute(task: ControlTask, v: Tensor) -> np.ndarray:
    """Q (S, A) in float64: every corner of the cell of every next state, times the product of its weights."""
    states = task.states()[:, None]
    following = task.step(states, task.actions, torch.zeros(task.dimensions, dtype=torch.float64)).numpy()
    values = interpolated(task, v.double().numpy(), following)
    return task.reward(states, task.actions).numpy() + task.gamma * values


def interpolated(task: ControlTask, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Multilinear interpolation of v (S,) at x (..., d)."""
    cells, parts = [], []
    for k, axis in enumerate(task.axes):
        at = x[..., k]
        at = axis.low + np.mod(at - axis.low, axis.high - axis.low) if axis.periodic else at
        place = (np.clip(at, axis.low, axis.high) - axis.low) / (axis.high - axis.low) * (axis.points - 1)
        cells.append(np.minimum(np.floor(place).astype(int), axis.points - 2))
        parts.append(place - cells[-1])
    total = np.zeros(x.shape[:-1])
    for corner in itertools.product((0, 1), repeat=task.dimensions):
        weight = np.prod([part if up else 1.0 - part for up, part in zip(corner, parts, strict=True)], axis=0)
        at = np.ravel_multi_index([cell + up for up, cell in zip(corner, cells, strict=True)], task.shape)
        total += weight * v[at]
    return total


def far(one: Tensor, two: Tensor | np.ndarray) -> float:
    return float((one.double() - torch.as_tensor(two)).abs().max())


# The kernel for any number of dimensions takes seconds to compile, for each pair of precisions.
rarely = pytest.mark.slow
SOMETIMES = [pytest.param(1, marks=rarely), 2, *(pytest.param(d, marks=rarely) for d in (3, 4))]


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_backups_follow_from_the_definition(dimensions: int):
    task = made_up(dimensions, noise=0.2)  # which acts in rollouts only
    v = values(task)
    assert far(GridMDP(task).backup(v), brute(task, v)) < 1e-5


@pytest.mark.parametrize("dimensions", SOMETIMES)
def test_both_precisions_of_the_table_and_of_the_values(dimensions: int):
    task = made_up(dimensions)
    v = values(task)
    assert far(GridMDP(task, dtype=torch.float64).backup(v), brute(task, v)) < 1e-12
    q = GridMDP(task).backup(v.float())
    assert q.dtype == torch.float32
    assert far(q, brute(task, v.float())) < 1e-5


@pytest.mark.parametrize("periodic", [(), (1,), (0, 1)])
def test_any_axis_may_be_periodic(periodic: tuple[int, ...]):
    task = made_up(2, periodic=periodic)
    v = values(task)
    assert far(GridMDP(task, dtype=torch.float64).backup(v), brute(task, v)) < 1e-12


@pytest.mark.parametrize("actions", [1, 16, 32, 33, 150])
@pytest.mark.parametrize("dimensions", [2, pytest.param(4, marks=rarely)])
def test_whole_chunks_and_what_is_left_of_them(actions: int, dimensions: int):
    # 150 actions of small effect put whole chunks into one cell; 1 and 33 leave a rest.
    task = made_up(dimensions, actions=actions)
    task = dataclasses.replace(task, actions=0.2 * task.actions)
    v = values(task)
    model = GridMDP(task)
    q = model.backup(v)
    best, first = model.improve(v)
    assert far(q, brute(task, v)) < 1e-5
    assert torch.equal(best, q.max(1).values)
    assert torch.equal(first, torch.from_numpy(q.numpy().argmax(1)))


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=rarely), torch.float64], ids=str)
def test_the_kernels_and_their_reference_agree(dimensions: int, dtype: torch.dtype):
    model = GridMDP(made_up(dimensions), mode="table")
    v = values(model.task, dtype)
    plain = PlainBackups(model._offsets, model.gamma).expected(v, model._table).reshape(model.n_states, -1)
    assert far(model.backup(v), plain) < (1e-12 if dtype == torch.float64 else 2e-6)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_table_and_no_table_are_the_same_to_the_bit(dimensions: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grid, "BLOCK", 1000)  # several blocks
    task = made_up(dimensions)
    table, anew = (GridMDP(task, mode=mode) for mode in ("table", "on-the-fly"))
    assert (table.storage, anew.storage) == ("table", "on-the-fly")
    v = values(task)
    states, actions = some_pairs(task)
    assert torch.equal(table.backup(v), anew.backup(v))
    assert torch.equal(table.improve(v)[0], anew.improve(v)[0])
    assert torch.equal(table.improve(v)[1], anew.improve(v)[1])
    assert torch.equal(table.backup_at(v, states, actions), anew.backup_at(v, states, actions))
    assert torch.equal(table.backup_rows(v, states[:5]), anew.backup_rows(v, states[:5]))
    assert table.reward_range == pytest.approx(anew.reward_range, abs=1e-6)


def some_pairs(task: ControlTask, count: int = 1500) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(9)
    return (
        torch.randint(task.n_states, (count,), generator=generator),
        torch.randint(task.n_actions, (count,), generator=generator),
    )


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_every_way_of_asking_gives_the_same_numbers(dimensions: int):
    task = made_up(dimensions)
    model = GridMDP(task)
    v = values(task)
    q = model.backup(v)
    states, actions = some_pairs(task)
    best, first = model.improve(v)
    assert q.shape == (task.n_states, task.n_actions)
    assert torch.equal(model.backup_at(v, states, actions), q[states, actions])
    assert torch.equal(model.backup_rows(v, states[:20]), q[states[:20]])
    assert torch.equal(model.backup_columns(v, actions[:20]), q[:, actions[:20]])
    assert torch.equal(best, q.max(1).values)
    assert torch.equal(first, torch.from_numpy(q.numpy().argmax(1)))
    assert model.backup_at(v, states[:0], actions[:0]).shape == (0,)


@pytest.mark.parametrize("actions", [3, 40, 100])
@pytest.mark.parametrize("storage", ["table", "on-the-fly"])
def test_of_equal_actions_the_first_is_taken(actions: int, storage: grid.Mode):
    task = made_up(2, actions=actions)
    # Actions come in equal triples, and in each state they differ otherwise.
    triples = torch.linspace(-1, 1, actions, dtype=torch.float64)[torch.arange(actions) // 3 * 3]
    model = GridMDP(dataclasses.replace(task, actions=triples), mode=storage)
    v = values(task)
    first = model.improve(v)[1]
    assert torch.equal(first, torch.from_numpy(model.backup(v).numpy().argmax(1)))
    assert bool((first % 3 == 0).all())
    flat = GridMDP(dataclasses.replace(task, reward=lambda s, a: 0.0 * (s[..., 0] + a[..., 0])), mode=storage)
    assert not bool(flat.improve(torch.zeros(task.n_states, dtype=torch.float64))[1].any())


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_policy_has_its_chain(dimensions: int):
    task = made_up(dimensions)
    model = GridMDP(task)
    v = values(task)
    policy = torch.randint(task.n_actions, (task.n_states,), generator=torch.Generator().manual_seed(1))
    chain = model.policy_chain(policy)
    ones = torch.ones(task.n_states, dtype=torch.float64)
    assert far(chain.transitions @ ones, ones) < 1e-12
    assert float(chain.transitions.values().min()) >= 0.0
    assert far(chain.backup(v), model.backup_at(v, torch.arange(task.n_states), policy)) < 1e-12


def test_a_table_must_fit_into_the_memory(monkeypatch: pytest.MonkeyPatch):
    task = made_up(2)
    table = GridMDP(task, mode="table")._table
    assert table is not None
    needed = sum(part.numel() * part.itemsize for part in (table.base, table.fraction, table.reward))
    assert GridMDP(task).table_bytes == needed
    monkeypatch.setattr(grid, "free_bytes", lambda device: needed - 1)
    with pytest.raises(ValueError, match="GB are free"):
        GridMDP(task, mode="table")
    monkeypatch.setattr(grid, "free_bytes", lambda device: 2 * needed - 1)
    assert GridMDP(task, mode="table").storage == "table"
    assert GridMDP(task).storage == "on-the-fly"
    monkeypatch.setattr(grid, "free_bytes", lambda device: 2 * needed)
    assert GridMDP(task).storage == "table"


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_threads_change_nothing(dimensions: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grid, "LEAST", 64)
    task = made_up(dimensions)
    one, two, three = (GridMDP(task, threads=threads) for threads in (1, 2, 3))
    v = values(task)
    pairs = some_pairs(task)
    for other in (two, three):
        assert torch.equal(one.backup(v), other.backup(v))
        assert torch.equal(one.backup_at(v, *pairs), other.backup_at(v, *pairs))
        assert all(torch.equal(x, y) for x, y in zip(one.improve(v), other.improve(v), strict=True))


def test_the_range_of_rewards():
    task = made_up(2)
    reward = task.reward(task.states()[:, None], task.actions)
    for storage in ("table", "on-the-fly"):
        found = GridMDP(task, mode=storage, dtype=torch.float64).reward_range
        assert found == (float(reward.min()), float(reward.max()))
    known = dataclasses.replace(task, reward_range=(-9.0, 9.0))
    low, high = GridMDP(known).reward_range
    assert (low, high) == pytest.approx((-9.0, 9.0)), "a task that knows its bounds is believed"
    assert low <= -9.0 < 9.0 <= high


@pytest.mark.parametrize("storage", ["table", "on-the-fly"])
def test_no_policy_is_worth_less_than_the_pessimistic_start(storage: grid.Mode):
    # In the rewards that backups use: rounded to single precision, some are below the exact smallest.
    for task in (made_up(2), inverted_pendulum(states=(6, 5), actions=7)):
        model = GridMDP(task, mode=storage)
        low, high = model.reward_range
        q = model.backup(torch.zeros(task.n_states, dtype=torch.float64))
        assert low <= float(q.min())
        assert float(q.max()) <= high


def test_a_grid_says_what_it_is():
    task = inverted_pendulum(states=(6, 5), actions=7, reward_offset=-2.0, time_step=0.2)
    model = GridMDP(task, mode="table")
    said = json.loads(json.dumps(model.describe()))
    switches = {"variant": "paper", "reward_offset": -2.0, "update_order": "together", "time_step": 0.2}
    assert switches.items() <= said.items()
    assert {"states": "6x5", "actions": 7, "storage": "table", "device": "cpu"}.items() <= said.items()
    assert isinstance(model, Model)


def test_progress_is_told_to_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grid, "BLOCK", 500)
    told: list[tuple[int, int]] = []
    task = made_up(2)
    GridMDP(task, mode="table", progress=lambda done, of: told.append((done, of)))
    pairs = task.n_states * task.n_actions
    assert told[-1] == (pairs, pairs)
    assert len(told) > 3
    assert sorted(told) == told


# The cells of next states.


SPECIAL = [-3e6, -1e5, -7.5, -2.0, -1.0, -0.0, 0.3, 1.0, 2.0, 2.0 + 1e-15, 9.99, 1e5, 2.9e6]


def anywhere(dimensions: int, periodic: bool) -> ControlTask:
    """One step leads to the action itself: what is located is given freely."""
    axes = tuple(
        Axis(name=f"x{k}", low=-1, high=2.0 + k, points=4 + k, periodic=periodic and k == 0) for k in range(dimensions)
    )
    return ControlTask(
        name="anywhere",
        axes=axes,
        actions=torch.zeros(1, dimensions),
        step=lambda states, actions, noise: actions + 0.0 * states,
        reward=lambda states, actions: actions[..., 0] * 0.0,
        gamma=0.9,
    )


def located(task: ControlTask, places: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    table = tabulate(task, torch.zeros_like(places), places, dtype)
    return table.base, table.fraction


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_the_reference_agrees_to_the_last_bit(dimensions: int, periodic: bool, dtype: torch.dtype, spread: float):
    task = anywhere(dimensions, periodic)
    generator = torch.Generator().manual_seed(0)
    places = spread * torch.randn(5000, dimensions, generator=generator, dtype=torch.float64)
    ends = torch.tensor([[a.low, a.high, math.nextafter(a.low, -9.0), 1e6] for a in task.axes], dtype=torch.float64)
    places = torch.cat([places, torch.cartesian_prod(*ends).reshape(-1, dimensions), task.states()])
    base, fraction = located(task, places, dtype)
    plain_base, plain_fraction = locate(task, task.inside(places), dtype)
    assert torch.equal(base, plain_base)
    assert torch.equal(fraction, plain_fraction)


def test_edges_and_beyond():
    task = dataclasses.replace(anywhere(1, False), reward=lambda states, actions: torch.zeros(len(actions)))
    places = torch.tensor(SPECIAL, dtype=torch.float64)[:, None]
    base, fraction = located(task, places, torch.float64)
    assert base.tolist() == [0] * 5 + [1, 1, 2, 2, 2, 2, 2, 2]
    assert fraction[0].tolist() == pytest.approx([0.0] * 5 + [0.0, 0.3, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])


def test_a_periodic_axis_wraps():
    base, fraction = located(
        anywhere(1, True), torch.tensor([[-1.5], [2.5], [8.0]], dtype=torch.float64), torch.float64
    )
    assert base.tolist() == [2, 0, 0]
    assert fraction[0].tolist() == pytest.approx([0.5, 0.5, 0.0])
