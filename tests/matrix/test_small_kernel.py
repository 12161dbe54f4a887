"""SI-RF: the compiled kernel against its twin in plain torch."""

import pytest
import torch
from hypothesis import given, settings

from svrl.matrix import Observed, Outcome, objective
from svrl.matrix.soft_impute.small import is_small, solve_small
from svrl.matrix.soft_impute.small_twin import solve_small_twin
from svrl.matrix.soft_impute.solution import Solution

from .problems import any_observed, assert_optimal, low_rank, noisy, relative_error, top_of

CLOSE = {torch.float64: 1e-7, torch.float32: 2e-4}
TIGHT = {torch.float64: 1e-11, torch.float32: 1e-6}
precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def both(
    observed: Observed,
    *,
    shrinkage: float | None = None,
    ratio: float = 0.05,
    start: torch.Tensor | None = None,
    fill: bool = False,
    max_steps: int = 5000,
    tolerance: float | None = None,
) -> tuple[Solution, Solution]:
    """The kernel's solution and the twin's, the latter turned so that it sees m >= n."""
    values, mask = (tensor.reshape(-1, *observed.shape[-2:]) for tensor in observed.tensors)
    given_start = None if start is None else start.reshape(values.shape)
    level = None if shrinkage is None else torch.full((len(values),), shrinkage, dtype=torch.float64)
    rest = (tolerance or TIGHT[values.dtype], max_steps)
    kernel = solve_small(values, mask, level, ratio, given_start, *rest, fill=fill)
    if values.shape[1] >= values.shape[2]:
        return kernel, solve_small_twin(values, mask, level, ratio, given_start, *rest, fill=fill)
    turned = None if given_start is None else given_start.mT
    return kernel, solve_small_twin(values.mT, mask.mT, level, ratio, turned, *rest, fill=fill).transposed()


def assert_same(kernel: Solution, twin: Solution, close: float) -> None:
    for name in ("filled", "estimate"):
        mine, other = getattr(kernel, name), getattr(twin, name)
        assert (mine is None) == (other is None), name
        if mine is not None:
            size = float(other.abs().max())
            assert float((mine - other).abs().max()) <= close * max(size, 1e-300), name
    assert torch.allclose(kernel.shrinkage, twin.shrinkage, rtol=1e-6, atol=0)
    assert torch.equal(kernel.code, twin.code)
    assert kernel.code.dtype == kernel.rank.dtype == kernel.iterations.dtype == torch.int64


@precisions
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (1, 7),
        (7, 1),
        (5, 5),
        (32, 18),
        (18, 32),
        (512, 9),
        *(pytest.param(s, marks=pytest.mark.slow) for s in ((33, 31), (64, 64), (20, 300))),
    ],
    ids=str,
)
def test_the_kernel_equals_its_twin(shape: tuple[int, int], fill: bool, dtype: torch.dtype):
    observed = noisy(*shape, min(3, *shape), 0.8, dtype=dtype)
    for shrinkage in (None, 0.1 * top_of(observed)):
        kernel, twin = both(observed, shrinkage=shrinkage, fill=fill)
        assert_same(kernel, twin, CLOSE[dtype])
        if not fill:
            assert torch.equal(kernel.rank, twin.rank)


@precisions
def test_the_kernel_equals_its_twin_at_the_largest_small_shape(dtype: torch.dtype):
    observed = noisy(512, 64, 4, 0.7, dtype=dtype)
    kernel, twin = both(observed, ratio=0.1, tolerance=1e-9 if dtype == torch.float64 else 1e-6)
    assert_same(kernel, twin, CLOSE[dtype])
    assert_optimal(observed, kernel.estimate[0], kernel.shrinkage[0], 1e-6 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.95])
def test_the_kernel_equals_its_twin_at_any_observed_share(p: float):
    assert_same(*both(noisy(30, 20, 2, p), shrinkage=1.0), CLOSE[torch.float64])


@precisions
@pytest.mark.parametrize("shape", [(24, 10), (10, 24)])
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
def test_the_kernel_equals_its_twin_from_a_start(shape: tuple[int, int], fill: bool, dtype: torch.dtype):
    observed = noisy(*shape, 2, 0.6, dtype=dtype)
    start = 3 * low_rank(*shape, 2, seed=8, dtype=dtype)
    cold, _ = both(observed, fill=fill)
    warm, twin = both(observed, start=start, fill=fill)
    assert_same(warm, twin, CLOSE[dtype])
    assert_same(warm, cold, CLOSE[dtype])


def test_the_twin_stops_at_once_when_started_at_the_solution():
    observed = noisy(24, 10, 2, 0.6)
    cold = both(observed)[1]
    warm = both(observed, start=cold.estimate)[1]
    assert int(warm.iterations) <= 2 < int(cold.iterations)


def test_a_batch_equals_its_members_bit_for_bit():
    observed = noisy(20, 12, 2, 0.7, batch=(9,))
    together, twin = both(observed, shrinkage=1.0)
    assert_same(together, twin, CLOSE[torch.float64])
    for k in range(9):
        alone, _ = both(Observed(values=observed.values[k], mask=observed.mask[k]), shrinkage=1.0)
        assert torch.equal(together.estimate[k], alone.estimate[0])
        assert int(together.iterations[k]) == int(alone.iterations)


def test_the_number_of_threads_changes_nothing():
    observed = noisy(64, 32, 3, 0.8, batch=(24,), dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(solve_small(observed.values, observed.mask, None, 0.05, None, 1e-4, 1000, fill=False))
    finally:
        torch.set_num_threads(before)
    one, two = found
    for name in ("estimate", "shrinkage", "rank", "iterations", "change", "code"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name


# With few entries the minimiser is not unique (two entries on a diagonal say nothing of the other two), the minimum is.
@settings(max_examples=25, deadline=None, derandomize=True)
@given(observed=any_observed())
def test_the_kernel_and_its_twin_reach_one_minimum_on_any_problem(observed: Observed):
    shrinkage = max(0.1 * top_of(observed), 1e-6)
    kernel, twin = (one.estimate[0] for one in both(observed, shrinkage=shrinkage, tolerance=1e-7, max_steps=2000))
    low, other = (float(objective(observed, matrix, shrinkage)) for matrix in (kernel, twin))
    assert low == pytest.approx(other, rel=1e-5)


def test_running_out_of_steps_is_told_for_each_matrix():
    easy, hard = noisy(20, 12, 2, 1.0), noisy(20, 12, 2, 0.4)
    values = torch.stack([easy.values, hard.values])
    mask = torch.stack([easy.mask, hard.mask])
    for solution in both(Observed(values=values, mask=mask), max_steps=3):
        assert solution.code.tolist() == [Outcome.CONVERGED.code, Outcome.OUT_OF_STEPS.code]
        assert solution.iterations.tolist() == [1, 3]


def test_a_zero_matrix_costs_no_iteration_and_leaves_its_neighbours_alone():
    observed = noisy(20, 12, 2, 0.7, batch=(3,))
    values = observed.values.clone()
    values[1] = 0
    kernel, twin = both(Observed(values=values, mask=observed.mask), shrinkage=1.0)
    assert_same(kernel, twin, CLOSE[torch.float64])
    assert not kernel.estimate[1].any()
    assert int(kernel.iterations[1]) == int(kernel.rank[1]) == 0
    assert torch.equal(kernel.estimate[2], both(observed, shrinkage=1.0)[0].estimate[2])


@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_float32_neither_overflows_nor_vanishes(scale: float):
    observed = noisy(20, 12, 2, 0.7, dtype=torch.float32)
    scaled = Observed(values=scale * observed.values, mask=observed.mask)
    plain, large = both(observed)[0].estimate, both(scaled)[0].estimate
    assert relative_error(large.double() / scale, plain) < 1e-3


@pytest.mark.parametrize(
    ("m", "n", "small"), [(512, 64, True), (64, 512, True), (513, 4, False), (65, 65, False), (1, 1, True)]
)
def test_small_is_up_to_512_by_64_either_way_round(m: int, n: int, small: bool):
    assert is_small(m, n) is small
