"""The solver for large matrices of low rank, by itself."""

import pytest
import torch

from svrl.matrix import Outcome
from svrl.matrix.soft_impute import most_useful_rank, solve_path
from svrl.matrix.soft_impute_reference import Solution, solve_plain

from .problems import assert_optimal, low_rank, noisy, observe, relative_error, seeded, top_of


def by_path(observed, shrinkage: float, *, start=None, tolerance: float = 1e-8, max_steps: int = 500) -> Solution:
    level = torch.tensor([shrinkage], dtype=torch.float64)
    return solve_path(observed.values[None], observed.mask[None], level, start, tolerance, max_steps, seeded())


def product(solution: Solution) -> torch.Tensor:
    left, right = solution.factors
    return (left @ right.mT)[0]


@pytest.mark.parametrize("shape", [(300, 150), (150, 300), (200, 200)])
def test_large_matrices_end_at_the_minimum(shape: tuple[int, int]):
    observed = noisy(*shape, 4, 0.3)
    solution = by_path(observed, 0.1 * top_of(observed))
    assert int(solution.code) == Outcome.CONVERGED.code
    assert_optimal(observed, product(solution), solution.shrinkage[0], 1e-6)


def test_it_agrees_with_full_decompositions():
    observed = noisy(200, 140, 3, 0.5)
    shrinkage = 0.15 * top_of(observed)
    level = torch.tensor([shrinkage], dtype=torch.float64)
    full = solve_plain(observed.values[None], observed.mask[None], level, None, 1e-9, 2000, momentum=True)
    solution = by_path(observed, shrinkage)
    assert relative_error(product(solution), full.matrix[0]) < 1e-6
    assert int(solution.rank) == int(full.rank)


def test_the_factors_are_as_thin_as_the_minimiser():
    observed = noisy(200, 140, 3, 0.5)
    solution = by_path(observed, 0.15 * top_of(observed))
    left, right = solution.factors
    assert left.shape == (1, 200, int(solution.rank))
    assert right.shape == (1, 140, int(solution.rank))
    assert int(torch.linalg.matrix_rank(product(solution))) == int(solution.rank)


def test_directions_that_the_first_guess_lacks_are_found():
    observed = observe(low_rank(220, 180, 16), 0.7)
    shrinkage = 0.05 * top_of(observed)
    poor = (torch.ones(1, 220, 1, dtype=torch.float64), torch.ones(1, 180, 1, dtype=torch.float64))
    solution = by_path(observed, shrinkage, start=poor)
    assert int(solution.code) == Outcome.CONVERGED.code
    assert int(solution.rank) >= 16
    assert_optimal(observed, product(solution), shrinkage, 1e-6)


def test_directions_barely_above_the_shrinkage_are_found_too():
    u = torch.linalg.qr(torch.randn(200, 12, generator=seeded(1), dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(150, 12, generator=seeded(2), dtype=torch.float64))[0]
    lengths = torch.tensor([9.0, 8, 7, 6, 5, 4, 3, 2, 1.1, 1.1, 1.02, 0.9], dtype=torch.float64)
    solution = by_path(observe(u @ torch.diag(lengths) @ v.T, 1.0), 1.0)
    assert int(solution.rank) == 11
    assert relative_error(product(solution), u @ torch.diag((lengths - 1).clamp(min=0)) @ v.T) < 1e-6


def test_a_rank_beyond_its_reach_is_reported():
    observed = noisy(200, 140, 100, 0.9, noise=1.0)
    solution = by_path(observed, 0.01 * top_of(observed))
    assert int(solution.code) == Outcome.NOT_LOW_ENOUGH.code
    assert int(solution.rank) <= most_useful_rank(200, 140)


def test_running_out_of_steps_is_reported():
    observed = noisy(200, 140, 3, 0.3)
    solution = by_path(observed, 0.1 * top_of(observed), max_steps=3)
    assert int(solution.code) == Outcome.OUT_OF_STEPS.code
    assert int(solution.iterations) == 3


def test_equal_generators_give_equal_factors():
    observed = noisy(200, 140, 3, 0.3)
    first, second = (by_path(observed, 0.1 * top_of(observed)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.factors, second.factors, strict=True))


def test_a_tolerance_below_rounding_is_met_by_what_only_rounds():
    observed = observe(low_rank(220, 180, 4).float(), 0.7)
    solution = by_path(observed, 0.05 * top_of(observed), tolerance=1e-12, max_steps=300)
    assert int(solution.code) == Outcome.CONVERGED.code
    exact = by_path(observe(low_rank(220, 180, 4), 0.7), 0.05 * top_of(observed), tolerance=1e-12, max_steps=2_000)
    assert relative_error(product(solution).double(), product(exact)) < 1e-5
