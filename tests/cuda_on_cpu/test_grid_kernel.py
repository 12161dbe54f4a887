"""The kernels of a grid's table on the CPU: against a sum over corners in float64, plain torch, and the numba kernels.

The kernels and the code that launches them are those of a GPU; see cuda_shim.h for what that does not show.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.mdp import grid_cuda
from svrl.mdp.grid import GridMDP, PlainBackups, Table
from svrl.mdp.grid_cuda import GpuTable, TableArgument
from svrl.mdp.tasks import cart_pole, inverted_pendulum
from svrl.runtime import nvrtc
from svrl.runtime.nvrtc import NoCompilerError, compile_source

from .compile import pretend_a_gpu

SINGLE, DOUBLE = torch.float32, torch.float64
SHAPES = {1: (24,), 2: (4, 7), 3: (4, 3, 5), 4: (3, 4, 2, 3)}
ODD = (3, 5)
"""States that make 15 rows: with an odd number of actions, words of four do not divide the table."""
COUNTS = [1, 2, 3, 5, 31, 32, 33, 100, 129, 1_027]
"""Actions around the sizes of words, warps and blocks."""
ROOM = {SINGLE: 5e-6, DOUBLE: 1e-13}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def GPU(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    pretend_a_gpu(monkeypatch, grid_cuda, folder)


def made_up(shape: tuple[int, ...], actions: int, *, stored: torch.dtype = SINGLE) -> GpuTable:
    """Random cells, places in them and rewards; some places are corners."""
    rng = np.random.default_rng(len(shape) + 10 * actions)
    pairs = math.prod(shape) * actions
    cells = [rng.integers(points - 1, size=pairs) for points in shape]
    places = np.clip(1.2 * rng.random((len(shape), pairs)) - 0.1, 0, 1)
    table = Table(
        base=torch.from_numpy(np.ravel_multi_index(cells, shape).astype(np.int32)),
        fraction=torch.from_numpy(places).to(stored),
        reward=torch.from_numpy(rng.standard_normal(pairs)).to(stored),
    )
    return GpuTable(table=table, shape=shape, gamma=0.9)


def values(grid: GpuTable, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(math.prod(grid.shape))).to(dtype)


def by_hand(grid: GpuTable, v: Tensor) -> Tensor:
    """Q (S, A) in float64: every corner of a cell, times the product of its weights."""
    base, fraction = grid.table.base.long(), grid.table.fraction.double()
    strides = [math.prod(grid.shape[axis + 1 :]) for axis in range(len(grid.shape))]
    expected = torch.zeros(len(base), dtype=DOUBLE)
    for corner in itertools.product((0, 1), repeat=len(grid.shape)):
        weight = torch.ones(len(base), dtype=DOUBLE)
        for up, part in zip(corner, fraction, strict=True):
            weight = weight * (part if up else 1 - part)
        offset = sum(up * stride for up, stride in zip(corner, strides, strict=True))
        expected += weight * v.double()[base + offset]
    return (grid.table.reward.double() + grid.gamma * expected).reshape(math.prod(grid.shape), -1)


def plain_torch(grid: GpuTable, v: Tensor) -> Tensor:
    """Q (S, A) as `GridMDP` has it without kernels."""
    strides = [math.prod(grid.shape[axis + 1 :]) for axis in range(len(grid.shape))]
    offsets = [sum(corner) for corner in itertools.product(*((0, stride) for stride in strides))]
    return PlainBackups(torch.tensor(offsets), grid.gamma).expected(v, grid.table).reshape(math.prod(grid.shape), -1)


def far(one: Tensor | None, other: Tensor) -> float:
    assert one is not None
    assert one.shape == other.shape
    return float((one.double() - other.double()).abs().max())


def swept(grid: GpuTable, v: Tensor) -> tuple[Tensor, Tensor]:
    found = grid.improve(v)
    assert found is not None
    assert (found[0].dtype, found[1].dtype) == (v.dtype, torch.int64)
    return found


def assert_sweep(grid: GpuTable, v: Tensor) -> None:
    """Maxima are those of both oracles, and only another action of the same value stands in for the first."""
    best, action = swept(grid, v)
    q, room = by_hand(grid, v), ROOM[v.dtype]
    assert far(best, q.max(1).values) < room
    assert far(best, plain_torch(grid, v).max(1).values) < room
    assert far(q.gather(1, action[:, None]).squeeze(1), q.max(1).values) < room
    two = q.topk(min(2, q.shape[1])).values
    clear = two[:, 0] - two[:, -1] > 2 * room
    assert torch.equal(action[clear], q.argmax(1)[clear])
    assert bool(clear.any()) or q.shape[1] == 1


@pytest.mark.parametrize(
    ("dimensions", "dtype"),
    [
        # A kernel is compiled for each: half go with the slow tests.
        pytest.param(d, dtype, marks=[pytest.mark.slow] if (d + (dtype == DOUBLE)) % 2 else [])
        for d in (1, 2, 3, 4)
        for dtype in (SINGLE, DOUBLE)
    ],
    ids=str,
)
def test_a_sweep_follows_from_the_definition(dimensions: int, dtype: torch.dtype) -> None:
    grid = made_up(SHAPES[dimensions], 37, stored=dtype)
    assert grid._wide
    assert_sweep(grid, values(grid, dtype))


@pytest.mark.parametrize(("dtype", "stored"), [(DOUBLE, SINGLE), (SINGLE, DOUBLE)], ids=str)
def test_values_and_tables_may_be_of_two_kinds(dtype: torch.dtype, stored: torch.dtype) -> None:
    grid = made_up(SHAPES[2], 37, stored=stored)
    assert_sweep(grid, values(grid, dtype))


@pytest.mark.parametrize("shape", [SHAPES[2], ODD], ids=str)
@pytest.mark.parametrize("actions", COUNTS)
def test_any_number_of_actions(actions: int, shape: tuple[int, ...]) -> None:
    grid = made_up(shape, actions)
    assert grid._wide == (math.prod(shape) * actions % 4 == 0)
    assert_sweep(grid, values(grid, SINGLE))


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_backups_of_any_pairs_follow_from_the_definition(dimensions: int, dtype: torch.dtype) -> None:
    grid = made_up(SHAPES[dimensions], 37)
    v = values(grid, dtype)
    q, room = by_hand(grid, v), ROOM[dtype]
    generator = torch.Generator().manual_seed(1)
    states, actions = (torch.randint(size, (700,), generator=generator) for size in q.shape)
    assert far(grid.backup(v), q) < room
    assert far(grid.backup(v), plain_torch(grid, v)) < room
    assert far(grid.backup_at(v, states, actions), q[states, actions]) < room
    assert far(grid.backup(v, states=states[:9]), q[states[:9]]) < room
    assert far(grid.backup(v, actions=actions[:9]), q[:, actions[:9]]) < room
    assert far(grid.backup(v, states=states[:5], actions=actions[:9]), q[states[:5]][:, actions[:9]]) < room
    strided = torch.stack([states, actions], 1).to(torch.int32)
    assert far(grid.backup_at(v, strided[:, 0], strided[:, 1]), q[states, actions]) < room
    nothing = states[:0]
    assert [one.shape for one in (grid.backup_at(v, nothing, nothing), grid.backup(v, actions=nothing))] == [
        (0,),
        (len(q), 0),
    ]


@pytest.mark.parametrize("shape", [SHAPES[2], ODD], ids=str)
@pytest.mark.parametrize("actions", COUNTS)
def test_of_equal_actions_the_first_is_taken(actions: int, shape: tuple[int, ...]) -> None:
    grid = made_up(shape, actions)
    first = torch.arange(actions) // 3 * 3  # equal triples
    rows = torch.arange(math.prod(shape))[:, None] * actions
    pairs = (rows + first).reshape(-1)
    table = Table(base=grid.table.base[pairs], fraction=grid.table.fraction[:, pairs], reward=grid.table.reward[pairs])
    triples, v = dataclasses.replace(grid, table=table), values(grid, SINGLE)
    best, action = swept(triples, v)
    q = triples.backup(v)
    assert q is not None
    assert torch.equal(best, q.max(1).values)
    assert torch.equal(action, torch.from_numpy(q.numpy().argmax(1)))
    assert bool((action % 3 == 0).all())
    flat = dataclasses.replace(table, reward=torch.zeros_like(table.reward))
    assert not swept(dataclasses.replace(grid, table=flat), torch.zeros_like(v))[1].any()


@pytest.mark.parametrize("shape", [SHAPES[2], ODD], ids=str)
@pytest.mark.parametrize("actions", [3, 37, 300])
def test_what_is_not_finite_goes_where_torch_takes_it(actions: int, shape: tuple[int, ...]) -> None:
    grid = made_up(shape, actions)
    reward = grid.table.reward.reshape(-1, actions).clone()
    reward[1] = -torch.inf
    reward[2, 1:] = torch.nan
    reward[3, 2] = torch.inf
    reward[4, 0], reward[4, 2] = torch.inf, torch.nan
    spoilt = dataclasses.replace(grid, table=dataclasses.replace(grid.table, reward=reward.reshape(-1)))
    v = values(grid, SINGLE)
    best, action = swept(spoilt, v)
    top = plain_torch(spoilt, v).max(1)
    torch.testing.assert_close(best, top.values, rtol=0, atol=ROOM[SINGLE], equal_nan=True)
    assert action[1:5].tolist() == [0, 1, 2, 2]
    assert bool(best[[0, *range(5, len(best))]].isfinite().all())


def test_a_pair_that_is_not_there_gets_nan() -> None:
    grid = made_up(SHAPES[2], 37)
    v = values(grid, SINGLE)
    states, actions = torch.tensor([0, 28, 5, -1, 27, 3]), torch.tensor([0, 0, 37, 4, 36, -1])
    found = grid.backup_at(v, states, actions)
    assert found is not None
    assert found.isnan().tolist() == [False, True, True, True, False, True]
    assert far(found[[0, 4]], by_hand(grid, v)[[0, 27], [0, 36]]) < ROOM[SINGLE]


def test_an_array_between_two_words_is_read_one_by_one() -> None:
    grid = made_up(SHAPES[2], 36)
    shifted = torch.cat([grid.table.reward[:1], grid.table.reward])[1:]
    other = dataclasses.replace(grid, table=dataclasses.replace(grid.table, reward=shifted))
    assert (grid._wide, other._wide) == (True, False)
    v = values(grid, SINGLE)
    assert torch.equal(swept(grid, v)[0], swept(other, v)[0])


@pytest.mark.parametrize("shape", [SHAPES[2], ODD], ids=str)
def test_the_order_of_warps_and_blocks_does_not_matter(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    grid = made_up(shape, 301)
    v, found = values(grid, SINGLE), []
    for backwards in (False, True):
        pretend_a_gpu(monkeypatch, grid_cuda, folder, backwards=backwards)
        found.append((*swept(grid, v), grid.backup(v)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def refuse(*_: Any) -> NoReturn:
    raise NoCompilerError("No compiler here.")


def test_what_is_not_served_is_answered_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = made_up(SHAPES[2], 37)
    v, one = values(grid, SINGLE), torch.zeros(1, dtype=torch.int64)
    gaps = dataclasses.replace(grid.table, fraction=torch.rand(2, 2 * 28 * 37)[:, ::2])
    for grid_, v_ in (
        (grid, v.clone().requires_grad_()),
        (grid, v.half()),
        (grid, v.to("meta")),
        (made_up((3, 2, 2, 2, 2), 3), torch.zeros(48)),
        (dataclasses.replace(grid, table=gaps), v),
    ):
        assert grid_.improve(v_) is None
        assert grid_.backup(v_) is None
        assert grid_.backup_at(v_, one, one) is None
    assert grid.backup_at(v, one.to("meta"), one) is None
    monkeypatch.setattr(grid_cuda, "MOST_PAIRS", 28 * 37 - 1)
    assert grid.backup(v) is None
    monkeypatch.setattr(grid_cuda, "compiled", refuse)
    assert grid.improve(v) is None
    assert grid.backup(v) is None


def answers(model: GridMDP, v: Tensor) -> list[Tensor]:
    """To every question that a grid is asked."""
    generator = torch.Generator().manual_seed(2)
    states = torch.randint(model.n_states, (300,), generator=generator)
    actions = torch.randint(model.n_actions, (300,), generator=generator)
    some = model.backup_rows(v, states[:7]), model.backup_columns(v, actions[:7])
    return [model.backup(v), model.improve(v)[0], model.backup_at(v, states, actions), *some]


@pytest.mark.parametrize("name", ["two", "four"])
def test_a_grid_with_kernels_is_one_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = inverted_pendulum(states=(8, 7), actions=30) if name == "two" else cart_pole(states=(3, 3, 2, 3), actions=11)
    plain, model = (GridMDP(task, mode="table", threads=1) for _ in range(2))
    v = torch.randn(task.n_states, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    expected = answers(plain, v)
    assert model._table is not None
    model._gpu = GpuTable(table=model._table, shape=task.shape, gamma=task.gamma)
    with monkeypatch.context() as patch:
        patch.setattr(model, "_backups", None)
        found = answers(model, v)
    assert max(far(one, other) for one, other in zip(found, expected, strict=True)) < 1e-12
    by_torch = PlainBackups(model._offsets, model.gamma)
    assert far(model.improve(v)[0], by_torch.expected(v, model._table).reshape(task.n_states, -1).max(1).values) < 1e-12
    monkeypatch.setattr(grid_cuda, "compiled", refuse)
    assert all(torch.equal(one, other) for one, other in zip(answers(model, v), expected, strict=True))


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_the_kernels_compile_for_a_gpu(dimensions: int, real: str, wide: int) -> None:
    try:
        nvrtc._nvrtc()
    except NoCompilerError as error:
        pytest.skip(str(error))
    given = {"REAL": real, "STORED": "float", "DIMENSIONS": dimensions, "WIDE": wide, "THREADS": 256}
    given["BYTES"] = ctypes.sizeof(TableArgument)
    options = (*(f"-D{key}={value}" for key, value in given.items()), "--gpu-architecture=sm_80")
    image = compile_source(grid_cuda._source(), options)
    assert all(name in image for name in (b"improve", b"backup"))
