"""SI-RF: the kernel compiled by numba, against the same method in plain torch and against other solvers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from svrl.matrix import Estimate, Observed, Outcome, SoftImpute, objective
from svrl.matrix.soft_impute_reference import Solution, solve_in_torch

from .problems import any_observed, assert_optimal, low_rank, noisy, relative_error, seeded, top_of

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
) -> tuple[Estimate, Solution]:
    """The kernel's estimate of a batch (B, m, n) and the reference's, the latter turned so that it sees m >= n."""
    values, mask = (tensor.reshape(-1, *observed.shape[-2:]) for tensor in observed.tensors)
    first = None if start is None else start.reshape(values.shape)
    rule = SoftImpute(ratio=ratio, tolerance=tolerance or TIGHT[values.dtype], max_steps=max_steps, solver="small")
    rule = replace(rule, shrinkage=shrinkage, output="fill" if fill else "estimate")
    kernel = rule(Observed(values=values, mask=mask, allow_empty=True), start=first)
    level = None if shrinkage is None else torch.full((len(values),), shrinkage, dtype=torch.float64)
    rest = (rule.tolerance, max_steps)
    if values.shape[1] >= values.shape[2]:
        return kernel, solve_in_torch(values, mask, level, ratio, first, *rest, fill=fill)
    found = solve_in_torch(values.mT, mask.mT, level, ratio, None if first is None else first.mT, *rest, fill=fill)
    return kernel, found._replace(matrix=found.matrix.mT)


def assert_same(kernel: Estimate, reference: Solution, close: float) -> None:
    size = float(reference.matrix.abs().max())
    assert float((kernel.matrix - reference.matrix).abs().max()) <= close * max(size, 1e-300)
    assert torch.allclose(kernel.shrinkage, reference.shrinkage, rtol=1e-6, atol=0)
    assert torch.equal(kernel.code, reference.code)
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
def test_the_kernel_equals_the_reference(shape: tuple[int, int], fill: bool, dtype: torch.dtype):
    observed = noisy(*shape, min(3, *shape), 0.8, dtype=dtype)
    for shrinkage in (None, 0.1 * top_of(observed)):
        kernel, reference = both(observed, shrinkage=shrinkage, fill=fill)
        assert_same(kernel, reference, CLOSE[dtype])
        if not fill:
            assert torch.equal(kernel.rank, reference.rank)


@precisions
def test_the_kernel_equals_the_reference_at_the_largest_small_shape(dtype: torch.dtype):
    observed = noisy(512, 64, 4, 0.7, dtype=dtype)
    kernel, reference = both(observed, ratio=0.1, tolerance=1e-9 if dtype == torch.float64 else 1e-6)
    assert_same(kernel, reference, CLOSE[dtype])
    assert_optimal(observed, kernel.matrix[0], kernel.shrinkage[0], 1e-6 if dtype == torch.float64 else 1e-3)


@precisions
@pytest.mark.parametrize("shape", [(24, 10), (10, 24)])
@pytest.mark.parametrize("fill", [False, True], ids=["estimate", "fill"])
def test_the_kernel_equals_the_reference_from_a_start(shape: tuple[int, int], fill: bool, dtype: torch.dtype):
    observed = noisy(*shape, 2, 0.6, dtype=dtype)
    start = 3 * low_rank(*shape, 2, seed=8, dtype=dtype)
    cold, _ = both(observed, fill=fill)
    warm, reference = both(observed, start=start, fill=fill)
    assert_same(warm, reference, CLOSE[dtype])
    assert_same(warm, cold, CLOSE[dtype])


def test_the_reference_stops_at_once_when_started_at_the_solution():
    observed = noisy(24, 10, 2, 0.6)
    cold = both(observed)[1]
    warm = both(observed, start=cold.matrix)[1]
    assert int(warm.iterations) <= 2 < int(cold.iterations)


def test_a_batch_equals_its_members_bit_for_bit():
    observed = noisy(20, 12, 2, 0.7, batch=(9,))
    together, reference = both(observed, shrinkage=1.0)
    assert_same(together, reference, CLOSE[torch.float64])
    for k in range(9):
        alone, _ = both(Observed(values=observed.values[k], mask=observed.mask[k]), shrinkage=1.0)
        assert torch.equal(together.matrix[k], alone.matrix[0])
        assert int(together.iterations[k]) == int(alone.iterations)


def test_the_number_of_threads_changes_nothing():
    observed = noisy(64, 32, 3, 0.8, batch=(24,), dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(SoftImpute(ratio=0.05, tolerance=1e-4)(observed))
    finally:
        torch.set_num_threads(before)
    one, two = found
    for name in ("matrix", "shrinkage", "rank", "iterations", "change", "code"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name


# With few entries the minimiser is not unique (two entries on a diagonal say nothing of the other two), the minimum is.
@settings(max_examples=25, deadline=None, derandomize=True)
@given(observed=any_observed())
def test_the_kernel_and_the_reference_reach_one_minimum_on_any_problem(observed: Observed):
    shrinkage = max(0.1 * top_of(observed), 1e-6)
    kernel, reference = (one.matrix[0] for one in both(observed, shrinkage=shrinkage, tolerance=1e-7, max_steps=2000))
    low, other = (float(objective(observed, matrix, shrinkage)) for matrix in (kernel, reference))
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
    kernel, reference = both(Observed(values=values, mask=observed.mask), shrinkage=1.0)
    assert_same(kernel, reference, CLOSE[torch.float64])
    assert not kernel.matrix[1].any()
    assert int(kernel.iterations[1]) == int(kernel.rank[1]) == 0
    assert torch.equal(kernel.matrix[2], both(observed, shrinkage=1.0)[0].matrix[2])


@pytest.mark.parametrize("scale", [1e-18, 1e18])
def test_float32_neither_overflows_nor_vanishes(scale: float):
    observed = noisy(20, 12, 2, 0.7, dtype=torch.float32)
    scaled = Observed(values=scale * observed.values, mask=observed.mask)
    plain, large = both(observed)[0].matrix, both(scaled)[0].matrix
    assert relative_error(large.double() / scale, plain) < 1e-3


@pytest.mark.parametrize(
    ("m", "n", "small"), [(512, 64, True), (64, 512, True), (513, 4, False), (65, 65, False), (1, 1, True)]
)
def test_small_is_up_to_512_by_64_either_way_round(m: int, n: int, small: bool):
    assert SoftImpute().captures(m, n, torch.device("cpu")) is small


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_it_stays_at_its_own_solution(share):
    observed = noisy(p=share)
    record = SoftImpute(ratio=0.05, tolerance=1e-6, solver="small")
    exact = SoftImpute(ratio=0.05, tolerance=1e-11, max_steps=20_000, solver="small", output="fill")(observed)
    cold, warm = record(observed), record(observed, start=exact)
    assert int(warm.iterations) <= 3 < int(cold.iterations)
    assert relative_error(warm.matrix, cold.matrix) < 1e-4


# The largest singular value, of which the shrinkage is a share.


def shrinkage_of(values: torch.Tensor) -> float:
    full = Observed(values=values, mask=torch.ones(values.shape, dtype=torch.bool))
    return float(SoftImpute(ratio=0.1, solver="small")(full).shrinkage)


@precisions
def test_the_largest_singular_value_is_measured(dtype):
    observed = noisy(20, 12, 2, 0.7, batch=(40,), dtype=dtype)
    exact = 0.02 * torch.linalg.svdvals(observed.tensors[0].double())[:, 0]
    found = SoftImpute(solver="small")(observed).shrinkage
    assert float((found / exact - 1).abs().max()) < (1e-5 if dtype == torch.float32 else 1e-8)


@pytest.mark.parametrize("strength", [0.5, 2.0, 10.0])
def test_a_symmetric_pattern_does_not_hide_it(strength):
    # Even about the middle and of mean zero: orthogonal to every start that is linear in the column.
    left = torch.randn(12, 2, generator=seeded(), dtype=torch.float64)
    pattern = torch.tensor([[1.0, -1.0, -1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    values = left @ torch.diag(torch.tensor([strength, 1.0], dtype=torch.float64)) @ pattern
    assert shrinkage_of(values) == pytest.approx(0.1 * float(torch.linalg.matrix_norm(values, 2)), rel=1e-8)


@pytest.mark.parametrize("patterns", [1, 2, 5])
def test_an_exhausted_krylov_space_is_left(patterns):
    # Few distinct singular values: Lanczos breaks down early, whatever the start.
    basis = torch.linalg.qr(torch.randn(9, 9, generator=seeded(1), dtype=torch.float64))[0]
    levels = torch.tensor([3.0, 1.0, 2.0, 0.5, 4.0][:patterns], dtype=torch.float64).repeat(9)[:9]
    assert shrinkage_of(basis * levels) == pytest.approx(0.1 * float(levels.max()), rel=1e-6)  # a multiple root


@pytest.mark.parametrize(
    ("dtype", "record"),
    [
        (torch.float32, SoftImpute(ratio=1e-7)),
        (torch.float32, SoftImpute(ratio=1e-5, output="fill")),
        (torch.float64, SoftImpute(shrinkage=1e-30)),
        (torch.float32, SoftImpute(shrinkage=1e-9)),
    ],
    ids=str,
)
def test_a_tiny_shrinkage_never_gives_nan(dtype, record):
    assert bool(torch.isfinite(record(noisy(32, 18, 3, 0.7, noise=0.0, dtype=dtype)).matrix).all())


# Where singular values vanish, rounding must not pass for a direction.


def degenerate(kind: str, m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "constant rows":
        return rng.choice([-1.0, 10.0], (m, 1)) @ np.ones((1, n))
    if kind == "rank 1":
        return rng.standard_normal((m, 1)) @ rng.standard_normal((1, n))
    if kind == "equal rows":
        return np.repeat(rng.standard_normal((1, n)), m, 0)
    if kind == "half zero":
        return np.where(np.arange(n) < n // 2, 0.0, 1.0) * rng.standard_normal((m, 1))
    return 1e3 + 1e-3 * rng.standard_normal((m, n))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(400, 50), (32, 18), (30, 9)])
@pytest.mark.parametrize("kind", ["constant rows", "rank 1", "equal rows", "half zero", "one large direction"])
def test_the_objective_is_that_of_another_solver(kind: str, shape: tuple[int, int], dtype: type):
    rng = np.random.default_rng(0)
    for share in (0.9, 0.3):
        values = degenerate(kind, *shape, rng)
        mask = rng.random(shape) < share
        shrinkage = np.linalg.norm(np.where(mask, values, 0.0), 2) / 50
        exact = Observed(values=values, mask=mask, allow_empty=True)
        seen = Observed(values=values.astype(dtype), mask=mask, allow_empty=True)
        ours = SoftImpute(tolerance=1e-4, max_steps=300)(seen).matrix
        theirs = SoftImpute(tolerance=1e-5, max_steps=1000, solver="accelerated")(exact).matrix
        reached = float(objective(exact, np.asarray(ours, np.float64), shrinkage))
        assert reached <= 1.003 * float(objective(exact, theirs, shrinkage))
        assert np.abs(ours).max() <= 1.5 * np.abs(values).max() + 1e-6


def test_no_draw_of_constant_rows_blows_up():
    rng = np.random.default_rng(1)
    values = np.stack([rng.choice([-1.0, 10.0], (400, 1)) @ np.ones((1, 50)) for _ in range(20)]).astype(np.float32)
    mask = rng.random(values.shape) < 0.2
    filled = SoftImpute(tolerance=1e-3, max_steps=100, output="fill")(
        Observed(values=values, mask=mask, allow_empty=True)
    ).matrix
    assert np.abs(filled).max() < 12.0
