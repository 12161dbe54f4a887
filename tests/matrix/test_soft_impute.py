"""SoftImpute as a user meets it: every solver, one convex problem with one answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.matrix import NuclearNorm, Observed, Outcome, SoftImpute, certify, objective

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


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_all_solvers_reach_one_matrix(p: float):
    observed = noisy(p=p)
    found = [replace(SHARP, shrinkage=0.1 * top_of(observed), solver=s)(observed).matrix for s in SOLVERS]
    for other in found[1:]:
        assert relative_error(other, found[0]) < 1e-7


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
def test_a_shrinkage_just_below_the_largest_singular_value_leaves_rank_one(solver: str):
    observed = noisy()
    estimate = replace(SHARP, shrinkage=0.99 * top_of(observed), solver=solver)(observed)
    assert int(estimate.rank) == 1
    assert_optimal(observed, estimate.matrix, estimate.shrinkage, 1e-6)


@solvers
def test_the_shrinkage_is_the_ratio_of_the_largest_singular_value(solver: str):
    observed = noisy()
    estimate = SoftImpute(ratio=0.1, solver=solver)(observed)
    assert float(estimate.shrinkage) == pytest.approx(0.1 * top_of(observed), rel=1e-6)


# Invariances of the minimiser.


@solvers
def test_permuting_rows_and_columns_permutes_the_minimiser(solver: str):
    observed = noisy()
    rows, columns = torch.randperm(40, generator=seeded(4)), torch.randperm(30, generator=seeded(5))
    values, mask = (tensor[rows][:, columns] for tensor in observed.tensors)
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    turned = record(Observed(values=values, mask=mask)).matrix
    assert relative_error(turned, record(observed).matrix[rows][:, columns]) < 1e-7


@solvers
def test_transposing_transposes_the_minimiser(solver: str):
    observed = noisy()
    turned = Observed(values=observed.values.T, mask=observed.mask.T)
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    assert relative_error(record(turned).matrix, record(observed).matrix.T) < 1e-7


@solvers
@pytest.mark.parametrize("scale", [1e-9, 1e-2, 1e3, 1e9])
def test_scaling_scales_the_minimiser_where_the_shrinkage_is_a_ratio(solver: str, scale: float):
    observed = noisy()
    scaled = Observed(values=scale * observed.values, mask=observed.mask)
    record = replace(SHARP, ratio=0.1, solver=solver)
    assert relative_error(record(scaled).matrix / scale, record(observed).matrix) < 1e-6


@solvers
def test_flipping_signs_of_rows_and_columns_flips_the_minimiser(solver: str):
    observed = noisy()
    rows = torch.where(torch.rand(40, 1, generator=seeded(6)) < 0.5, -1.0, 1.0).double()
    columns = torch.where(torch.rand(1, 30, generator=seeded(7)) < 0.5, -1.0, 1.0).double()
    flipped = Observed(values=rows * observed.values * columns, mask=observed.mask)
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    assert relative_error(rows * record(flipped).matrix * columns, record(observed).matrix) < 1e-7


@solvers
def test_adding_a_constant_does_not_just_add_it_to_the_minimiser(solver: str):
    observed = noisy()
    lifted = Observed(values=observed.values + 3, mask=observed.mask)
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    assert relative_error(record(lifted).matrix - 3, record(observed).matrix) > 0.05


@pytest.mark.parametrize("centre", ["mean", "midrange", "row"])
def test_adding_a_constant_just_adds_it_where_the_values_are_centred(centre: str):
    observed = noisy()
    lifted = Observed(values=observed.values + 3, mask=observed.mask)
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), centre=centre)
    assert relative_error(record(lifted).matrix - 3, record(observed).matrix) < 1e-7


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


def test_a_start_of_another_shape_is_refused_with_both_shapes():
    with pytest.raises(ValueError, match=r"start has shape \(3, 3\) but the observed matrix is \(40, 30\)"):
        SoftImpute()(noisy(), start=torch.zeros(3, 3))


# Recovery, and where it must fail.


def test_exact_low_rank_is_recovered_on_the_easy_side_of_the_phase_transition():
    truth = low_rank(60, 60, 2)
    observed = observe(truth, 0.6)
    estimate = NuclearNorm()(observed)
    assert estimate.converged
    assert float(estimate.certify(observed).relative_gap) < 1e-2
    assert relative_error(estimate.matrix, truth) < 1e-3


def test_on_the_hard_side_the_least_nuclear_norm_is_another_matrix():
    truth = low_rank(60, 60, 25)
    observed = observe(truth, 0.3)
    estimate = NuclearNorm(smallest=1e-4, tolerance=3e-6, max_steps=20_000)(observed)
    assert estimate.converged
    assert float(estimate.certify(observed).relative_gap) < 1e-2
    # A smaller norm than the truth's: that it was not recovered is the problem's doing, not the solver's.
    assert float(torch.linalg.matrix_norm(estimate.matrix, "nuc")) < 0.9 * float(torch.linalg.matrix_norm(truth, "nuc"))
    assert relative_error(estimate.matrix, truth) > 0.3
