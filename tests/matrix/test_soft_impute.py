"""SoftImpute as a user meets it: every solver, one convex problem with one answer, and what is around the solvers."""

import itertools
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


# Batches, kinds and precisions.


@solvers
@pytest.mark.parametrize("output", ["estimate", "fill"])
def test_leading_axes_are_separate_problems(solver: str, output: str):
    observed = noisy(24, 16, 2, batch=(2, 3))
    record = replace(SHARP, tolerance=1e-8, ratio=0.15, solver=solver, output=output)
    together = record(observed)
    assert together.matrix.shape == (2, 3, 24, 16)
    for name in ("rank", "iterations", "change", "code", "shrinkage"):
        assert getattr(together, name).shape == (2, 3), name
    for k in np.ndindex(2, 3):
        alone = record(Observed(values=observed.values[k], mask=observed.mask[k]))
        assert relative_error(together.matrix[k], alone.matrix) < 1e-6
        assert int(together.rank[k]) == int(alone.rank)


@solvers
@pytest.mark.parametrize("ratio", [0.02, 0.2])
def test_single_precision_agrees_with_double_to_one_part_in_ten_thousand(solver: str, ratio: float):
    observed = noisy(30, 20, 3, p=0.7, noise=0.02)
    shrinkage = ratio * top_of(observed)
    coarse = Observed(values=observed.values.float(), mask=observed.mask)
    record = SoftImpute(shrinkage=shrinkage, tolerance=1e-6, solver=solver)
    assert relative_error(record(coarse).matrix, replace(SHARP, shrinkage=shrinkage)(observed).matrix) < 1e-4


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("centre", ["none", "mean", "row"])
def test_fill_keeps_observed_entries_bit_for_bit(solver: str, dtype: torch.dtype, centre: str):
    observed = noisy(dtype=dtype)
    estimate = SoftImpute(ratio=0.1, output="fill", centre=centre, solver=solver)(observed)
    assert estimate.kept
    assert torch.equal(estimate.matrix[observed.mask], observed.values[observed.mask])


@solvers
def test_fill_takes_the_missing_entries_from_the_minimiser(solver: str):
    observed = noisy()
    record = replace(SHARP, shrinkage=0.1 * top_of(observed), solver=solver)
    filled, minimiser = replace(record, output="fill")(observed).matrix, record(observed).matrix
    assert relative_error(filled[~observed.mask], minimiser[~observed.mask]) < 1e-7


@solvers
@pytest.mark.parametrize("output", ["estimate", "fill"])
@pytest.mark.parametrize("centre", ["none", "mean", "row"])
def test_the_minimiser_behind_an_estimate_is_certified(solver: str, output: str, centre: str):
    observed = noisy(batch=(2,))
    estimate = replace(SHARP, ratio=0.1, output=output, centre=centre, solver=solver)(observed)
    found = estimate.certify(observed)
    assert found.gap.shape == (2,)
    assert float(found.relative_gap.abs().max()) < 1e-7
    assert float(found.residual_excess.max()) < 1e-7
    assert float(found.left_misfit.max()) < 1e-6


def test_a_coarse_estimate_has_a_larger_gap_than_a_sharp_one():
    observed = noisy()
    coarse, sharp = (SoftImpute(ratio=0.05, tolerance=t)(observed).certify(observed) for t in (1e-2, 1e-6))
    assert float(coarse.relative_gap) > 100 * float(sharp.relative_gap) > 0


# The record itself.


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"shrinkage": 0.0}, "shrinkage above 0 and finite, got 0.0"),
        ({"shrinkage": float("nan")}, "shrinkage above 0 and finite, got nan"),
        ({"ratio": -1.0}, "ratio above 0 and finite, got -1.0"),
        ({"tolerance": 0}, "tolerance above 0 and at most 1, because it is a relative change; got 0"),
        ({"tolerance": 1e308}, r"tolerance above 0 and at most 1, .*; got 1e\+308"),
        ({"max_steps": 0}, "max_steps as a whole number of at least 1, got 0"),
        ({"output": "filled"}, "no output 'filled': choose one of estimate, fill"),
        ({"centre": "median"}, "no centre 'median': choose one of none, mean, midrange, row"),
        ({"solver": "fast"}, "no solver 'fast': choose one of auto, small, path, plain, accelerated"),
        ({"clip": (1.0, 1.0)}, r"low < high, got \(1.0, 1.0\)"),
    ],
)
def test_a_wrong_setting_is_refused_at_birth_with_what_was_got(wrong: dict, said: str):
    with pytest.raises(ValueError, match=f"SoftImpute .*{said}"):
        SoftImpute(**wrong)


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


@pytest.mark.parametrize("wrong", [{"clip": [0, 1]}, {"clip": (0,)}, {"shrinkage": "a"}])
def test_settings_of_the_wrong_kind_are_refused_in_words(wrong):
    with pytest.raises(ValueError, match="SoftImpute needs"):
        SoftImpute(**wrong)
