"""SoftImpute as a user meets it: every solver, one convex problem with one answer, and what is around the solvers."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.matrix import Observed, Outcome, SoftImpute, certify, objective
from svrl.matrix.soft_impute import most_useful_rank, solve_path
from svrl.matrix.soft_impute_reference import Solution, solve_plain

from .problems import (
    any_observed,
    assert_optimal,
    low_rank,
    noisy,
    observe,
    reference_minimiser,
    relative_error,
    seeded,
    top_of,
)

SOLVERS = ["auto", "small", "path", "plain", "accelerated"]
# "path" gives up where the minimiser has a high rank, so it sits out where that may be.
ANY_RANK = ["auto", "small", "plain", "accelerated"]
SHARP = SoftImpute(tolerance=1e-10, max_steps=20_000)

solvers = pytest.mark.parametrize("solver", SOLVERS)
any_rank = pytest.mark.parametrize("solver", ANY_RANK)


# The minimiser.


@solvers
@pytest.mark.parametrize("ratio", [0.05, 0.2])
@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (25, 25)])
def test_optimality_conditions_hold(solver: str, ratio: float, shape: tuple[int, int]):
    observed = noisy(*shape)
    estimate = replace(SHARP, ratio=ratio, solver=solver)(observed)
    assert estimate.converged
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 1e-7)


@solvers
@pytest.mark.parametrize("ratio", [0.05, 0.2])
def test_optimality_conditions_hold_in_float32(solver: str, ratio: float):
    observed = noisy(dtype=torch.float32)
    estimate = replace(SHARP, tolerance=1e-6, ratio=ratio, solver=solver)(observed)
    assert estimate.matrix.dtype == torch.float32
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 5e-4)


@pytest.mark.parametrize("solver", ["auto", "path", "plain"])
def test_optimality_conditions_hold_beyond_the_small_solver(solver: str):
    observed = noisy(300, 140, 4, 0.4, dtype=torch.float32)
    estimate = SoftImpute(ratio=0.1, tolerance=1e-6, solver=solver)(observed)
    assert estimate.converged
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 1e-3)


def test_auto_takes_full_decompositions_where_the_rank_is_high():
    observed = noisy(120, 90, 60, 0.7, noise=0.5)
    by_path = SoftImpute(ratio=0.02, solver="path")(observed)
    assert by_path.outcome is Outcome.NOT_LOW_ENOUGH
    estimate = SoftImpute(ratio=0.02, tolerance=1e-8)(observed)
    assert estimate.converged
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 1e-5)


@pytest.mark.parametrize(("shape", "p", "share"), [((12, 8), 0.7, 0.1), ((7, 10), 0.5, 0.2), ((9, 9), 0.9, 0.02)])
def test_a_general_convex_solver_agrees(shape: tuple[int, int], p: float, share: float):
    observed = noisy(*shape, 2, p)
    shrinkage = share * top_of(observed)
    wanted = reference_minimiser(observed, shrinkage)
    for solver in SOLVERS if share >= 0.1 else ANY_RANK:
        estimate = replace(SHARP, shrinkage=shrinkage, solver=solver)(observed)
        assert estimate.converged
        assert relative_error(estimate.matrix, wanted) < 1e-6, solver


@any_rank
@settings(max_examples=25, deadline=None, derandomize=True)
@given(observed=any_observed(dtypes=(torch.float64, torch.float32)), share=st.sampled_from([0.02, 0.2, 0.7]))
def test_any_problem_ends_near_its_minimum(solver: str, observed: Observed, share: float):
    exact = observed.values.dtype == torch.float64
    if top_of(observed) == 0:
        return
    record = SoftImpute(ratio=share, tolerance=1e-9 if exact else 1e-6, max_steps=20_000, solver=solver)
    estimate = record(observed)
    found = certify(observed, estimate.matrix, estimate.shrinkage)
    rounding = 1e-12 if exact else 1e-5
    assert estimate.converged
    assert -rounding <= float(found.relative_gap) <= (1e-5 if exact else 1e-3)
    assert float(found.residual_excess) <= (1e-5 if exact else 1e-3)


@solvers
def test_with_everything_observed_it_is_one_shrinkage(solver: str):
    matrix = low_rank(20, 12, 4, noise=0.1)
    shrinkage = 0.2 * float(torch.linalg.matrix_norm(matrix, 2))
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    wanted = u @ torch.diag((s - shrinkage).clamp(min=0)) @ vt
    estimate = replace(SHARP, shrinkage=shrinkage, solver=solver)(observe(matrix, 1.0))
    assert relative_error(estimate.matrix, wanted) < 1e-9
    assert int(estimate.rank) == int((s > shrinkage).sum())


@solvers
@pytest.mark.parametrize("factor", [1.0 + 1e-6, 5.0])
def test_a_shrinkage_above_the_largest_singular_value_leaves_nothing(solver: str, factor: float):
    observed = noisy()
    estimate = SoftImpute(shrinkage=factor * top_of(observed), solver=solver)(observed)
    assert not estimate.matrix.any()
    assert int(estimate.rank) == 0
    assert estimate.converged


@solvers
def test_the_shrinkage_is_the_ratio_of_the_largest_singular_value(solver: str):
    observed = noisy()
    estimate = SoftImpute(ratio=0.1, solver=solver)(observed)
    assert float(estimate.shrinkage) == pytest.approx(0.1 * top_of(observed), rel=1e-6)


# The way there.


# The small solver is stopped right after an extrapolation, which it has not yet had the chance to take back.
@pytest.mark.parametrize(("solver", "slack"), [("plain", 1e-12), ("small", 1e-6)])
@pytest.mark.parametrize("p", [0.4, 0.8])
def test_the_objective_never_rises(solver: str, slack: float, p: float):
    observed = noisy(p=p)
    shrinkage = 0.03 * top_of(observed)
    values = [
        float(
            objective(
                observed,
                SoftImpute(shrinkage=shrinkage, solver=solver, tolerance=1e-14, max_steps=k)(observed).matrix,
                shrinkage,
            )
        )
        for k in range(1, 30)
    ]
    assert max(np.diff(values)) <= slack * values[0]
    assert values[-1] < values[0]


@solvers
def test_running_out_of_steps_is_reported_and_not_raised(solver: str):
    observed = noisy()
    estimate = SoftImpute(ratio=0.05, tolerance=1e-12, max_steps=2, solver=solver)(observed)
    assert estimate.outcome is Outcome.OUT_OF_STEPS
    assert not estimate.converged
    assert int(estimate.iterations) == 2
    assert float(estimate.change) >= 1e-12


@solvers
def test_the_last_change_is_below_the_tolerance_where_it_converged(solver: str):
    for tolerance in (1e-2, 1e-4, 1e-6):
        estimate = SoftImpute(ratio=0.1, tolerance=tolerance, solver=solver)(noisy())
        assert estimate.converged
        assert float(estimate.change) < tolerance


@pytest.mark.parametrize("solver", ["path", "plain", "accelerated"])
@pytest.mark.parametrize("kind", ["estimate", "matrix", "numpy"])
def test_a_warm_start_at_the_solution_ends_there_at_once(solver: str, kind: str):
    observed = noisy()
    record = SoftImpute(ratio=0.1, tolerance=1e-7, max_steps=5000, solver=solver)
    cold = record(observed)
    start = {"estimate": cold, "matrix": cold.matrix, "numpy": cold.matrix.numpy()}[kind]
    warm = record(observed, start=start)
    assert int(warm.iterations) <= 5 < int(cold.iterations)
    assert relative_error(warm.matrix, cold.matrix) < 1e-5


@solvers
def test_any_start_leads_to_the_same_minimiser(solver: str):
    observed = noisy()
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    start = 5 * low_rank(40, 30, 6, seed=9)
    assert relative_error(record(observed, start=start).matrix, record(observed).matrix) < 1e-7


@pytest.mark.parametrize("solver", ["small", "accelerated"])
def test_running_out_of_steps_never_leaves_an_extrapolated_point(solver):
    observed = noisy(p=0.4)
    objectives = [
        float(SoftImpute(ratio=0.02, tolerance=1e-12, max_steps=k, solver=solver)(observed).certify(observed).objective)
        for k in range(1, 25)
    ]
    best = min(objectives)
    assert all(later <= earlier + 1e-3 * best for earlier, later in itertools.pairwise(objectives))


@pytest.mark.parametrize("solver", ["path", "plain"])
def test_large_matrices_take_an_exact_share_of_their_largest_singular_value(solver):
    observed = noisy(300, 200, 5, 0.5)
    exact = 0.02 * float(torch.linalg.matrix_norm(observed.tensors[0], 2))
    estimate = SoftImpute(solver=solver, max_steps=2)(observed)
    assert float(estimate.shrinkage) == pytest.approx(exact, rel=1e-6)


def test_a_shrinkage_below_the_resolution_of_a_gram_matrix_is_still_exact():
    left = torch.linalg.qr(torch.randn(80, 2, generator=seeded(), dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(70, 2, generator=seeded(1), dtype=torch.float64))[0]
    values = left @ torch.diag(torch.tensor([1.0, 3e-8], dtype=torch.float64)) @ right.T
    observed = Observed(values=values, mask=torch.ones(80, 70, dtype=torch.bool))
    estimate = SoftImpute(shrinkage=1e-8, solver="plain")(observed).matrix
    assert float(torch.linalg.svdvals(estimate)[1]) == pytest.approx(2e-8, rel=1e-3)


# Odd matrices.


@any_rank
def test_empty_rows_and_columns_are_zero_in_the_minimiser(solver: str):
    values, mask = (tensor.clone() for tensor in noisy().tensors)
    mask[3], mask[:, 7] = False, False
    observed = Observed(values=values, mask=mask, allow_empty=True)
    estimate = replace(SHARP, ratio=0.1, solver=solver)(observed)
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 1e-6)
    assert float(estimate.matrix[3].abs().max()) < 1e-6
    assert float(estimate.matrix[:, 7].abs().max()) < 1e-6


@solvers
@pytest.mark.parametrize("output", ["estimate", "fill"])
def test_a_zero_matrix_stays_zero(solver: str, output: str):
    mask = observe(low_rank(8, 6, 1), 0.6).mask
    for shrinkage in (None, 0.5):
        estimate = SoftImpute(shrinkage=shrinkage, solver=solver, output=output)(
            Observed(values=torch.zeros(8, 6), mask=mask)
        )
        assert estimate.converged
        assert not estimate.matrix.any()
        assert int(estimate.rank) == 0
        assert float(estimate.certify(Observed(values=torch.zeros(8, 6), mask=mask)).gap) == 0


@solvers
def test_a_constant_matrix_has_rank_one_and_is_exact_once_centred(solver: str):
    observed = observe(torch.full((20, 12), -4.0, dtype=torch.float64), 0.6)
    plain = replace(SHARP, ratio=0.05, solver=solver)(observed)
    assert int(plain.rank) == 1
    assert_optimal(observed, plain.matrix, plain.shrinkage, 1e-6)
    centred = SoftImpute(centre="mean", solver=solver)(observed)
    assert float((centred.matrix + 4).abs().max()) < 1e-12


@any_rank
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1)])
def test_one_row_or_one_column_has_a_closed_form(solver: str, shape: tuple[int, int]):
    values = torch.arange(1.0, 10.0, dtype=torch.float64)[: shape[0] * shape[1]].reshape(shape)
    mask = values != 4
    norm = float(torch.linalg.norm(values * mask))
    estimate = replace(SHARP, shrinkage=0.3, solver=solver)(Observed(values=values, mask=mask, allow_empty=True))
    assert relative_error(estimate.matrix, values * mask * (1 - 0.3 / norm)) < 1e-6


# Centring, clipping, filling.


def centre_of(observed: Observed, centre: str) -> torch.Tensor:
    known = observed.values[observed.mask]
    if centre == "mean":
        return known.mean()
    if centre == "midrange":
        return (known.min() + known.max()) / 2
    return torch.stack([v[k].mean() for v, k in zip(observed.values, observed.mask, strict=True)]).unsqueeze(-1)


@solvers
@pytest.mark.parametrize("centre", ["mean", "midrange", "row"])
@pytest.mark.parametrize("output", ["estimate", "fill"])
def test_centring_equals_centring_by_hand(solver: str, centre: str, output: str):
    observed = observe(low_rank(24, 16, 2, noise=0.1) - 5, 0.6)
    offset = centre_of(observed, centre)
    by_hand = Observed(values=observed.values - offset, mask=observed.mask)
    record = SoftImpute(ratio=0.15, tolerance=1e-8, solver=solver, output=output)
    wanted = record(by_hand).matrix + offset
    estimate = replace(record, centre=centre)(observed)
    assert torch.allclose(estimate.matrix, wanted, rtol=0, atol=1e-7)
    assert torch.allclose(estimate.offset, offset, rtol=0, atol=1e-12)


def test_an_empty_row_is_centred_at_the_mean_of_the_matrix():
    values, mask = (tensor.clone() for tensor in noisy(20, 12, 2).tensors)
    mask[5] = False
    observed = Observed(values=values + 2, mask=mask, allow_empty=True)
    estimate = SoftImpute(centre="row", ratio=0.2, tolerance=1e-9)(observed)
    mean = observed.values[mask].mean()
    assert float((estimate.matrix[5] - mean).abs().max()) < 1e-6


@solvers
def test_clipping_bounds_the_estimate_and_moves_nothing_inside(solver: str):
    observed = noisy()
    record = SoftImpute(ratio=0.1, solver=solver)
    free, bound = record(observed).matrix, replace(record, clip=(-0.5, 1.0))(observed).matrix
    assert float(free.min()) < -0.5
    assert float(free.max()) > 1.0
    assert torch.equal(bound, free.clamp(-0.5, 1.0))


@solvers
@pytest.mark.parametrize("output", ["estimate", "fill"])
@pytest.mark.parametrize("centre", ["none", "mean", "row"])
def test_the_minimiser_behind_an_estimate_is_certified(solver: str, output: str, centre: str):
    observed = noisy(batch=(2,))
    estimate = replace(SHARP, ratio=0.1, output=output, centre=centre, solver=solver)(observed)
    found = estimate.certify(observed)
    assert estimate.kept == (output == "fill")
    assert found.gap.shape == estimate.rank.shape == (2,)
    assert float(found.relative_gap.abs().max()) < 1e-7
    assert float(found.residual_excess.max()) < 1e-7
    assert float(found.left_misfit.max()) < 1e-6


# The record itself.


def test_the_authors_preset_can_be_changed_in_one_place():
    preset = SoftImpute.authors(ratio=0.1)
    assert preset == SoftImpute(ratio=0.1, tolerance=1e-3, max_steps=100, output="fill", solver="plain")
    assert SoftImpute.authors().ratio == 1 / 50


@pytest.mark.parametrize("output", ["estimate", "fill"])
@pytest.mark.parametrize("centre", ["none", "row"])
def test_a_single_numpy_matrix_can_be_certified(output, centre):
    values, mask = (tensor.numpy() for tensor in noisy().tensors)
    observed = Observed(values=values, mask=mask)
    certificate = SoftImpute(output=output, centre=centre, tolerance=1e-9)(observed).certify(observed)
    assert isinstance(certificate.gap, np.ndarray)
    assert certificate.gap.shape == ()
    assert float(certificate.relative_gap) < 1e-6


# The solver for large matrices of low rank, by itself.


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


def test_a_tolerance_below_rounding_is_met_by_what_only_rounds():
    observed = observe(low_rank(220, 180, 4).float(), 0.7)
    solution = by_path(observed, 0.05 * top_of(observed), tolerance=1e-12, max_steps=300)
    assert int(solution.code) == Outcome.CONVERGED.code
    exact = by_path(observe(low_rank(220, 180, 4), 0.7), 0.05 * top_of(observed), tolerance=1e-12, max_steps=2_000)
    assert relative_error(product(solution).double(), product(exact)) < 1e-5
