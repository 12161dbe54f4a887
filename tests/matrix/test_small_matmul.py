"""SI-RF from matrix products: its pieces against closed forms, the whole against the twin in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.matrix import FAMILIES, draw_matrix
from svrl.matrix import Observed, Outcome, objective
from svrl.matrix.certificate import shrink_singular_values
from svrl.matrix.soft_impute import small_matmul
from svrl.matrix.soft_impute.small_matmul import (
    FINEST,
    SIGN_REACH,
    hat_matrix,
    invert_root,
    largest_eigenvalue,
    nearest_to_one,
    schedule,
    sign,
    solve_small_matmul,
)
from svrl.matrix.soft_impute.small_twin import solve_small_twin
from svrl.matrix.soft_impute.solution import Solution

from .problems import any_observed, assert_optimal, low_rank, noisy, relative_error, seeded, top_of

CLOSE = {torch.float64: 1e-7, torch.float32: 2e-4}
TIGHT = {torch.float64: 1e-10, torch.float32: 1e-6}
DONE, OUT = Outcome.CONVERGED.code, Outcome.OUT_OF_STEPS.code
precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def orthonormal(m: int, n: int, seed: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(m, n, generator=seeded(seed), dtype=torch.float64))[0]


def with_singular_values(*numbers: float, rows: int = 30, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """F (1, rows, n) and its right singular vectors (n, n)."""
    right = orthonormal(len(numbers), len(numbers), seed + 1)
    left = orthonormal(rows, len(numbers), seed)
    return ((left * torch.tensor(numbers, dtype=torch.float64)) @ right.mT).unsqueeze(0), right


def family(name: str, p: float, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrices of the benchmark, (count, 32, 18) in float32 with zeros at the holes, and their mask."""
    rng = np.random.default_rng(seed)
    values = torch.from_numpy(np.stack([draw_matrix(name, rng) for _ in range(count)]))
    mask = torch.from_numpy(rng.random(values.shape) < p)
    return values * mask, mask


def both(observed: Observed, **options: Any) -> tuple[Solution, Solution]:
    """The solution and the twin's in float64, both for a matrix that stands upright."""
    values, mask = (tensor.reshape(-1, *observed.shape[-2:]) for tensor in observed.tensors)
    level, start = options.get("shrinkage"), options.get("start")
    if level is not None:
        level = torch.full((len(values),), level, dtype=torch.float64)
    if start is not None:
        start = start.reshape(values.shape)
    ratio, fill = options.get("ratio", 0.05), options.get("fill", False)
    tolerance = options.get("tolerance", TIGHT[values.dtype])
    steps, cap = options.get("max_steps", 1000), options.get("cap", 80)
    wide = None if start is None else start.double()
    return (
        solve_small_matmul(values, mask, level, ratio, start, tolerance, steps, fill=fill, cap=cap),
        solve_small_twin(values.double(), mask, level, ratio, wide, min(tolerance, 1e-10), steps, fill=fill),
    )


def assert_same(mine: Solution, twin: Solution, close: float) -> None:
    for name in ("filled", "estimate"):
        got, wanted = getattr(mine, name), getattr(twin, name)
        assert (got is None) == (wanted is None), name
        if got is not None:
            size = float(wanted.abs().max())
            assert float((got - wanted).abs().max()) <= close * max(size, 1e-300), name
    assert torch.allclose(mine.shrinkage, twin.shrinkage, rtol=1e-6, atol=0)
    assert mine.code.tolist() == [DONE] * len(mine.code)
    assert mine.code.dtype == mine.rank.dtype == mine.iterations.dtype == torch.int64
    assert mine.shrinkage.dtype == mine.change.dtype == torch.float64


@pytest.mark.parametrize(("low", "high"), [(1e-8, 1.0), (1e-3, 1.0), (0.14, 1.86), (0.9, 1.1)])
def test_each_quintic_deviates_equally_at_four_points_so_none_is_nearer(low: float, high: float):
    (a, b, c), deviation = nearest_to_one(low, high)
    x = np.concatenate([np.linspace(low, high, 100_001), np.geomspace(low, high, 10_001)])
    x.sort()
    error = 1 - (a * x + b * x**3 + c * x**5)
    assert np.abs(error).max() == pytest.approx(deviation, rel=1e-6)
    extremes = np.sign(error[np.abs(error) > deviation * (1 - 1e-6)])
    assert 1 + np.count_nonzero(np.diff(extremes)) == 4  # Chebyshev: one more than the coefficients


@pytest.mark.parametrize("reach", [SIGN_REACH, FINEST, 0.5])
def test_a_schedule_takes_its_interval_to_one(reach: float):
    x = np.geomspace(reach, 1.0, 20_001)
    for a, b, c in schedule(reach):
        x = x * (a + x**2 * (b + c * x**2))
    assert np.abs(x - 1).max() < 1e-13


def test_the_sign_of_eigenvalues_of_both_sides():
    numbers = torch.tensor([3.0, 1.0, 1e-4, 5e-8, -5e-8, -1e-3, -2.0], dtype=torch.float64)
    v = orthonormal(7, 7, 3)
    got = sign(((v * numbers) @ v.mT).unsqueeze(0), torch.full((1, 1, 1), 3.0, dtype=torch.float64))[0]
    assert float((got - (v * numbers.sign()) @ v.mT).abs().max()) < 1e-7


def test_the_inverse_root():
    numbers = torch.logspace(-6, 0, 9, dtype=torch.float64)
    v = orthonormal(9, 9, 4)
    got = invert_root(((v * numbers) @ v.mT).unsqueeze(0), torch.ones(1, 1, 1, dtype=torch.float64))[0]
    assert relative_error(got, (v * numbers.rsqrt()) @ v.mT) < 1e-9


@pytest.mark.parametrize("second", [1.0, 1 - 1e-9, 1 - 1e-7, 1 - 1e-5, 0.999, 0.5, 0.0])
def test_the_largest_eigenvalue_has_its_stated_accuracy(second: float):
    numbers = torch.full((18,), second, dtype=torch.float64)
    numbers[7] = 1.0
    v = orthonormal(18, 18, 5)
    found = largest_eigenvalue(40.0 * ((v * numbers) @ v.mT).unsqueeze(0))
    assert abs(float((found / 40.0).sqrt()) - 1) <= 2e-7


@pytest.mark.parametrize("t", [0.6, 0.05, 0.02, 2e-3])
def test_the_hat_matrix_is_its_formula(t: float):
    s = (1.0, 1.0, 0.7, 1.5 * t, 1.01 * t, 0.99 * t, 0.2 * t, 1e-9, 0.0)
    f, right = with_singular_values(*s)
    numbers = torch.tensor(s, dtype=torch.float64)
    hat, bound, rank = hat_matrix(f, torch.tensor([t], dtype=torch.float64))
    keep = torch.where(numbers > t, 1 - t / numbers.clamp(min=1e-300), 0.0)
    wanted = torch.where(numbers > t, t * numbers - t**2 / 2, numbers**2 / 2).sum()
    assert float((hat[0] - (right * keep) @ right.mT).abs().max()) < 1e-8
    assert float(bound) == pytest.approx(float(wanted), rel=1e-9)
    assert int(rank) == sum(number > t for number in s)


@pytest.mark.parametrize("distance", [0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-4, -1e-4])
def test_a_singular_value_at_the_shrinkage_makes_no_jump(distance: float):
    f, right = with_singular_values(1.0, 0.5, 0.02 * (1 + distance), 0.001)
    hat = hat_matrix(f, torch.tensor([0.02], dtype=torch.float64))[0][0]
    keep = torch.tensor([0.98, 0.96, max(0.0, distance), 0.0], dtype=torch.float64)
    assert float((hat - (right * keep) @ right.mT).abs().max()) < 2e-5


# The whole, against the twin.


@precisions
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (7, 1),
        (3, 2),
        (5, 5),
        (32, 18),
        *(pytest.param(s, marks=pytest.mark.slow) for s in ((2, 1), (23, 21), (128, 18))),
        (200, 9),
    ],
    ids=str,
)
def test_it_equals_the_twin(shape: tuple[int, int], fill: bool, dtype: torch.dtype):
    observed = noisy(*shape, min(3, *shape), 0.8, dtype=dtype)
    for shrinkage in (None, 0.1 * top_of(observed)):
        mine, twin = both(observed, shrinkage=shrinkage, fill=fill)
        assert_same(mine, twin, CLOSE[dtype])
        if not fill:
            assert torch.equal(mine.rank, twin.rank)


@pytest.mark.parametrize("p", [0.5, 0.7, 0.9, 1.0])
def test_it_equals_the_twin_at_any_observed_share(p: float):
    mine, twin = both(noisy(30, 20, 2, p, batch=(3,)), shrinkage=1.0)
    assert_same(mine, twin, CLOSE[torch.float64])


@precisions
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
@pytest.mark.parametrize("size", [3.0, 100.0])
def test_it_equals_the_twin_from_a_start(size: float, fill: bool, dtype: torch.dtype):
    observed = noisy(24, 10, 2, 0.7, dtype=dtype)
    start = size * low_rank(24, 10, 2, seed=8, dtype=dtype)
    mine, twin = both(observed, start=start, fill=fill)
    assert_same(mine, twin, CLOSE[dtype])


def test_it_stops_at_once_when_started_at_the_solution():
    observed = noisy(24, 10, 2, 0.7)
    cold, twin = both(observed)
    warm = both(observed, start=twin.estimate)[0]
    assert int(warm.iterations) <= 2 < int(cold.iterations)


@precisions
def test_the_optimality_conditions_hold(dtype: torch.dtype):
    observed = noisy(40, 18, 3, 0.8, dtype=dtype)
    mine, _ = both(observed)
    assert_optimal(observed, mine.estimate[0], mine.shrinkage[0], 1e-6 if dtype == torch.float64 else 1e-3)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(observed=any_observed())
def test_it_reaches_the_minimum_of_any_problem(observed: Observed):
    values, mask = observed.tensors
    if values.shape[0] < values.shape[1]:
        observed = Observed(values=values.mT.contiguous(), mask=mask.mT.contiguous(), allow_empty=True)
    shrinkage = max(0.1 * top_of(observed), 1e-6)
    mine, twin = both(observed, shrinkage=shrinkage, tolerance=1e-7, cap=150)
    low, other = (float(objective(observed, one.estimate[0], shrinkage)) for one in (mine, twin))
    assert low == pytest.approx(other, rel=1e-5)


# The stated accuracy, at the benchmark's share with the cap as it is.


@precisions
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("tolerance", "farthest"), [(1e-3, 3e-3), (1e-5, 3e-5)])
def test_the_cap_suffices_for_the_families_of_the_benchmark(
    name: str, tolerance: float, farthest: float, dtype: torch.dtype
):
    values, mask = family(name, 0.9, 6)
    exact = solve_small_twin(values.double(), mask, None, 0.02, None, 1e-10, 2000, fill=True).filled
    mine = solve_small_matmul(values.to(dtype), mask, None, 0.02, None, tolerance, 1000, fill=True)
    assert mine.filled.dtype == dtype
    assert torch.equal(mine.filled[mask], values.to(dtype)[mask])
    missing = exact.masked_fill(mask, 0)
    distance = (mine.filled.double() - exact).norm(dim=(-2, -1)) / missing.norm(dim=(-2, -1))
    assert float(distance.max()) < farthest
    assert not mine.code.any()


def test_what_the_cap_cuts_off_says_so():
    values, mask = family("Gaussian", 0.5, 4)
    mine = solve_small_matmul(values, mask, None, 0.02, None, 1e-5, 1000, fill=True)
    assert mine.code.tolist() == [OUT] * 4
    assert mine.iterations.tolist() == [small_matmul.CAP] * 4
    assert bool((mine.change >= 1e-5).all())


def test_fewer_steps_than_the_cap_are_kept_to():
    easy, hard = noisy(20, 12, 2, 1.0), noisy(20, 12, 2, 0.6)
    both_values, both_masks = (
        torch.stack(pair) for pair in ((easy.values, hard.values), (easy.mask.bool(), hard.mask.bool()))
    )
    mine = solve_small_matmul(both_values, both_masks, None, 0.05, None, 1e-8, 3, fill=False)
    assert mine.code.tolist() == [DONE, OUT]
    assert mine.iterations.tolist() == [1, 3]


def test_what_has_settled_stays_as_it_is():
    values, mask = family("exact rank 4", 0.9, 4)
    short, long = (solve_small_matmul(values, mask, None, 0.02, None, 1e-3, 1000, fill=True, cap=c) for c in (16, 40))
    assert not short.code.any()
    for name in ("filled", "change", "iterations", "rank"):
        assert torch.equal(getattr(short, name), getattr(long, name)), name


def test_a_full_mask_is_one_shrinkage():
    observed = noisy(20, 12, 3, 1.0, batch=(2,))
    mine = solve_small_matmul(observed.values, observed.mask, None, 0.1, None, 1e-3, 100, fill=False)
    for k in range(2):
        wanted, rank = shrink_singular_values(observed.values[k], mine.shrinkage[k])
        assert relative_error(mine.estimate[k], wanted) < 1e-10
        assert int(mine.rank[k]) == int(rank)
    assert mine.iterations.tolist() == [1, 1]
    assert not mine.code.any()


def test_a_shrinkage_above_the_largest_singular_value_leaves_nothing():
    observed = noisy(20, 12, 2, 0.7)
    mine, _ = both(observed, shrinkage=1.001 * top_of(observed))
    assert float(mine.estimate.abs().max()) < 1e-6 * float(observed.values.abs().max())
    assert int(mine.rank) == 0


@precisions
def test_a_zero_matrix_costs_no_iteration_and_leaves_its_neighbours_alone(dtype: torch.dtype):
    observed = noisy(20, 12, 2, 0.8, batch=(3,), dtype=dtype)
    values = observed.values.clone()
    values[1] = 0
    for shrinkage in (None, 1.0):
        mine, _ = both(Observed(values=values, mask=observed.mask), shrinkage=shrinkage)
        others, _ = both(observed, shrinkage=shrinkage)
        assert not mine.estimate[1].any()
        assert int(mine.iterations[1]) == int(mine.rank[1]) == int(mine.code[1]) == 0
        assert relative_error(mine.estimate[2], others.estimate[2]) < 1e-6


@precisions
@pytest.mark.parametrize("kind", ["constant", "equal rows", "constant rows", "one large direction", "half zero"])
def test_degenerate_matrices(kind: str, dtype: torch.dtype):
    normal = torch.randn(30, 9, generator=seeded(3), dtype=torch.float64)
    values = {
        "constant": torch.full((30, 9), 4.0, dtype=torch.float64),
        "equal rows": normal[:1].expand(30, 9),
        "constant rows": normal[:, :1].expand(30, 9),
        "one large direction": 1e3 + 1e-3 * normal,
        "half zero": normal[:, :1] * (torch.arange(9) < 4),
    }[kind]
    mask = torch.rand(30, 9, generator=seeded(4)) < 0.8
    observed = Observed(values=values.to(dtype).contiguous(), mask=mask, allow_empty=True)
    mine, twin = both(observed)
    assert_same(mine, twin, CLOSE[dtype])
    assert torch.equal(mine.rank, twin.rank)


@precisions
def test_empty_rows_and_columns_are_zero_in_the_minimiser(dtype: torch.dtype):
    whole = noisy(24, 10, 2, 0.8, dtype=dtype)
    mask = whole.mask.clone()
    mask[3], mask[:, 6] = False, False
    observed = Observed(values=whole.values, mask=mask, allow_empty=True)
    mine, twin = both(observed, cap=120)
    assert_same(mine, twin, CLOSE[dtype])
    assert float(mine.estimate[0, 3].abs().max()) < CLOSE[dtype]
    assert float(mine.estimate[0, :, 6].abs().max()) < CLOSE[dtype]


@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_float32_neither_overflows_nor_vanishes(scale: float):
    observed = noisy(20, 12, 2, 0.8, dtype=torch.float32)
    plain, _ = both(observed)
    scaled, _ = both(Observed(values=scale * observed.values, mask=observed.mask))
    assert relative_error(scaled.estimate.double() / scale, plain.estimate) < 1e-4


def test_a_shrinkage_too_fine_for_the_steps_is_told():
    observed = noisy(20, 12, 2, 1.0, batch=(2,))
    level = top_of(observed) * torch.tensor([2 * FINEST, FINEST / 2], dtype=torch.float64)
    mine = solve_small_matmul(observed.values, observed.mask, level, 0.02, None, 1e-3, 100, fill=False)
    assert mine.code.tolist() == [DONE, OUT]


def test_what_is_no_longer_finite_is_told():
    values, mask = family("exact rank 4", 0.9, 2)
    values[1, 0, 0] = math.nan
    mine = solve_small_matmul(values, mask, None, 0.02, None, 1e-3, 100, fill=True)
    assert mine.code.tolist() == [DONE, Outcome.NOT_FINITE.code]
    assert bool(mine.filled[0].isfinite().all())


# Nothing in it waits for the device.


class NoLook(TorchDispatchMode):
    """Refuses operations that bring numbers to the host, have a shape that depends on them, or decompose."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        looks = name in {
            "_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "index", "index_put_",
            "_index_put_impl_", "unique", "_unique2", "geqrf", "cholesky", "cholesky_inverse",
        }  # fmt: skip
        decomposes = "linalg_" in name and name != "linalg_vector_norm"
        if looks or decomposes:
            raise AssertionError(f"{name} looks at the device")
        return func(*args, **(kwargs or {}))


@precisions
@pytest.mark.parametrize("given", ["nothing", "shrinkage and start"])
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
def test_no_operation_looks_at_the_numbers(given: str, fill: bool, dtype: torch.dtype):
    observed = noisy(12, 7, 2, 0.8, batch=(2,), dtype=dtype)
    level = None if given == "nothing" else torch.ones(2, dtype=torch.float64)
    start = None if given == "nothing" else torch.ones_like(observed.values)
    with NoLook():
        mine = solve_small_matmul(observed.values, observed.mask, level, 0.05, start, 1e-3, 100, fill=fill)
    assert not mine.code.any()


@pytest.mark.parametrize("look", [torch.linalg.svdvals, torch.linalg.eigh, torch.linalg.inv, lambda x: bool(x.any())])
def test_the_guard_sees_a_look(look: Any):
    with NoLook(), pytest.raises(AssertionError, match="looks at the device"):
        look(torch.eye(3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@precisions
def test_a_cuda_graph_holds_it(dtype: torch.dtype):
    first, mask = (tensor.cuda() for tensor in family("exact rank 4", 0.9, 8))
    second = family("Gaussian", 0.9, 8, seed=1)[0].cuda().to(dtype) * mask
    values = first.to(dtype)
    rest = (mask, None, 0.02, None, 1e-5, 1000)
    with torch.cuda.stream(torch.cuda.Stream()):
        solve_small_matmul(values, *rest, fill=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = solve_small_matmul(values, *rest, fill=True)
    values.copy_(second)
    graph.replay()
    wanted = solve_small_twin(second.double(), *rest, fill=True)
    assert relative_error(found.filled.cpu(), wanted.filled.cpu()) < 1e-4
