"""HardImpute, USVT and RowMean; `test_contract` has what they promise as every estimator does."""

import numpy as np
import pytest
import torch

from svrl.matrix import USVT, HardImpute, Observed, Outcome, RowMean

from .problems import low_rank, noisy, observe, relative_error, seeded

# HardImpute.


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (200, 150)])
def test_a_well_conditioned_matrix_is_recovered_without_bias(shape: tuple[int, int]):
    truth = low_rank(*shape, 2)
    estimate = HardImpute(rank=2, tolerance=1e-8)(observe(truth, 0.6))
    assert estimate.converged
    assert relative_error(estimate.matrix, truth) < 1e-5


def test_the_estimate_has_the_rank_asked_for():
    estimate = HardImpute(rank=4)(noisy())
    assert estimate.dense is None
    assert int(estimate.rank) == 4
    assert int(torch.linalg.matrix_rank(estimate.matrix)) == 4
    assert int(HardImpute(rank=50)(noisy(10, 6, 2)).rank) == 6


def test_the_error_on_observed_entries_never_rises():
    observed = noisy(p=0.5)
    errors = []
    for steps in range(1, 20):
        matrix = HardImpute(rank=3, tolerance=1e-14, max_steps=steps)(observed).matrix
        errors.append(float((matrix - observed.values)[observed.mask].square().sum()))
    assert max(np.diff(errors)) <= 1e-12 * errors[0]
    assert errors[-1] < errors[0]


def test_it_stops_at_a_fixed_point_of_fill_and_truncate():
    observed = noisy()
    matrix = HardImpute(rank=3, tolerance=1e-10, max_steps=5000)(observed).matrix
    filled = torch.where(observed.mask, observed.values, matrix)
    u, s, vt = torch.linalg.svd(filled, full_matrices=False)
    assert relative_error(u[:, :3] @ torch.diag(s[:3]) @ vt[:3], matrix) < 1e-8


def test_a_warm_start_at_the_solution_ends_there_at_once():
    observed = noisy()
    record = HardImpute(rank=3, tolerance=1e-7)
    cold = record(observed)
    warm = record(observed, start=cold)
    assert int(warm.iterations) <= 2 < int(cold.iterations)
    assert relative_error(warm.matrix, cold.matrix) < 1e-6


def test_running_out_of_steps_is_reported():
    estimate = HardImpute(rank=3, tolerance=1e-12, max_steps=2)(noisy())
    assert estimate.outcome is Outcome.OUT_OF_STEPS
    assert estimate.shrinkage is None


def test_hard_impute_of_a_full_matrix_is_its_best_approximation():
    for m, n in ((400, 300), (700, 600)):
        full = torch.randn(m, n, generator=seeded(), dtype=torch.float64)
        estimate = HardImpute(rank=5)(Observed(values=full, mask=torch.ones(m, n, dtype=torch.bool)))
        u, s, vt = torch.linalg.svd(full, full_matrices=False)
        best = float(torch.linalg.norm(full - (u[:, :5] * s[:5]) @ vt[:5]))
        assert float(torch.linalg.norm(full - estimate.matrix)) < best * (1 + 1e-4)


# USVT.


def by_hand(observed: Observed, level: float) -> torch.Tensor:
    """Scale to [-1, 1], threshold, divide by the share, clip, scale back."""
    known = observed.values[observed.mask]
    middle, half = (known.max() + known.min()) / 2, (known.max() - known.min()) / 2
    scaled = torch.where(observed.mask, (observed.values - middle) / half, 0.0)
    u, s, vt = torch.linalg.svd(scaled, full_matrices=False)
    kept = torch.where(s > level, s, 0.0)
    return ((u * kept) @ vt / observed.fraction).clamp(-1, 1) * half + middle


def test_the_published_threshold_is_the_papers_formula():
    observed = observe(torch.sign(low_rank(60, 40, 1, seed=3)) + 2, 0.8)
    estimate = USVT(threshold="published")(observed)
    assert int(estimate.rank) == 1
    wanted = by_hand(observed, 2.02 * (60 * observed.fraction) ** 0.5)
    assert torch.allclose(estimate.matrix, wanted, rtol=0, atol=1e-12)


def test_the_variance_threshold_is_what_the_data_show():
    observed = noisy(60, 40, 2, 0.5)
    p = observed.fraction
    known = observed.values[observed.mask]
    middle, half = (known.max() + known.min()) / 2, (known.max() - known.min()) / 2
    energy = float(((known - middle) / half).square().mean())
    variance = p * (1 - p) * energy + p * (0.1 / float(half)) ** 2
    wanted = by_hand(observed, 1.35 * variance**0.5 * (60**0.5 + 40**0.5))
    assert torch.allclose(USVT(noise=0.1)(observed).matrix, wanted, rtol=0, atol=1e-12)


def test_the_published_threshold_keeps_nothing_of_an_everyday_matrix():
    observed = noisy(60, 40, 3, 0.5)
    published, variance = USVT(threshold="published")(observed), USVT()(observed)
    assert int(published.rank) == 0
    known = observed.values[observed.mask]
    assert torch.allclose(published.matrix, ((known.min() + known.max()) / 2).expand(60, 40))
    assert int(variance.rank) >= 3
    truth = low_rank(60, 40, 3)
    assert relative_error(variance.matrix, truth) < 0.7 * relative_error(published.matrix, truth)


def test_with_everything_observed_nothing_is_lost():
    truth = low_rank(30, 20, 3)
    estimate = USVT()(observe(truth, 1.0))
    assert relative_error(estimate.matrix, truth) < 1e-5


def test_shift_and_scale_pass_through():
    observed = noisy(60, 40, 2, 0.5)
    moved = Observed(values=7 * observed.values - 30, mask=observed.mask)
    assert relative_error(USVT()(moved).matrix, 7 * USVT()(observed).matrix - 30) < 1e-9


def test_a_constant_matrix_comes_back():
    estimate = USVT()(observe(torch.full((9, 7), 2.5), 0.5))
    assert torch.equal(estimate.matrix, torch.full((9, 7), 2.5))


def test_the_published_threshold_is_2_02():
    # 60 x 60 of ones, all observed: centred at the mid-range everything is 0; so use a checkerboard of +-1.
    board = np.where(np.indices((60, 60)).sum(0) % 2, 1.0, -1.0)
    keep, lose = USVT(threshold="published"), USVT(threshold="published", margin=1.01)
    everything = np.ones((60, 60), bool)
    assert int(keep(Observed(values=board, mask=everything)).rank) == 1  # 60 > 2.02 sqrt(60) = 15.6
    assert keep(Observed(values=board, mask=everything)).matrix == pytest.approx(
        lose(Observed(values=board, mask=everything)).matrix
    )
    small = np.where(np.indices((5, 5)).sum(0) % 2, 1.0, -1.0)  # 5 > 2.02 sqrt(5) = 4.52, but 5 < 2.7 sqrt(5)
    assert int(keep(Observed(values=small, mask=np.ones((5, 5), bool))).rank) == 1


# RowMean.


def test_missing_entries_are_their_rows_observed_mean():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, np.nan], [0.0, 0.0, 9.0]])
    estimate = RowMean()(Observed.from_nan(values))
    assert np.array_equal(estimate.matrix, [[1, 2, 3], [5, 5, 5], [0, 0, 9]])
    everywhere = RowMean(output="estimate")(Observed.from_nan(values))
    assert np.array_equal(everywhere.matrix, [[2, 2, 2], [5, 5, 5], [3, 3, 3]])


def test_an_empty_row_takes_the_mean_of_all_observed_entries():
    values = np.array([[1.0, np.nan, 3.0], [np.nan] * 3, [8.0, np.nan, np.nan]])
    estimate = RowMean()(Observed.from_nan(values, allow_empty=True))
    assert np.array_equal(estimate.matrix[1], [4, 4, 4])


def test_the_estimate_has_rank_one_and_a_zero_matrix_rank_zero():
    assert int(RowMean()(noisy()).rank) == 1
    zero = Observed(values=torch.zeros(4, 3), mask=torch.ones(4, 3, dtype=torch.bool))
    assert int(RowMean()(zero).rank) == 0
