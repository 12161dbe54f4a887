import numpy as np
import pytest
import torch

from svrl.matrix import HardImpute, Observed, Outcome

from .problems import low_rank, noisy, observe, relative_error, top_of


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (200, 150)])
def test_a_well_conditioned_matrix_is_recovered_without_bias(shape: tuple[int, int]):
    truth = low_rank(*shape, 2)
    estimate = HardImpute(rank=2, tolerance=1e-8)(observe(truth, 0.6))
    assert estimate.converged
    assert relative_error(estimate.matrix, truth) < 1e-5


def test_with_everything_observed_it_is_the_best_approximation_of_that_rank():
    matrix = low_rank(20, 12, 5, noise=0.2)
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    estimate = HardImpute(rank=3)(observe(matrix, 1.0))
    assert relative_error(estimate.matrix, u[:, :3] @ torch.diag(s[:3]) @ vt[:3]) < 1e-12
    assert int(estimate.iterations) == 1


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


def test_fill_keeps_observed_entries_bit_for_bit_and_takes_the_rest():
    observed = noisy()
    filled, plain = (HardImpute(rank=3, output=output)(observed).matrix for output in ("fill", "estimate"))
    assert torch.equal(filled, torch.where(observed.mask, observed.values, plain))


def test_centring_equals_centring_by_hand():
    observed = observe(low_rank(30, 20, 2, noise=0.05) + 6, 0.7)
    mean = observed.values[observed.mask].mean()
    by_hand = HardImpute(rank=2)(Observed(values=observed.values - mean, mask=observed.mask)).matrix + mean
    assert torch.allclose(HardImpute(rank=2, centre="mean")(observed).matrix, by_hand, rtol=0, atol=1e-9)


def test_a_warm_start_at_the_solution_ends_there_at_once():
    observed = noisy()
    record = HardImpute(rank=3, tolerance=1e-7)
    cold = record(observed)
    warm = record(observed, start=cold)
    assert int(warm.iterations) <= 2 < int(cold.iterations)
    assert relative_error(warm.matrix, cold.matrix) < 1e-6


def test_a_batch_equals_its_members():
    observed = noisy(24, 16, 2, batch=(3,))
    record = HardImpute(rank=2)
    together = record(observed)
    for k in range(3):
        alone = record(Observed(values=observed.values[k], mask=observed.mask[k]))
        assert relative_error(together.matrix[k], alone.matrix) < 1e-9
        assert int(together.iterations[k]) == int(alone.iterations)


def test_scaling_scales_the_estimate():
    observed = noisy()
    scaled = Observed(values=1e6 * observed.values, mask=observed.mask)
    assert relative_error(HardImpute(rank=3)(scaled).matrix / 1e6, HardImpute(rank=3)(observed).matrix) < 1e-9


def test_running_out_of_steps_is_reported():
    estimate = HardImpute(rank=3, tolerance=1e-12, max_steps=2)(noisy())
    assert estimate.outcome is Outcome.OUT_OF_STEPS
    assert estimate.shrinkage is None


def test_a_rank_below_one_is_refused():
    with pytest.raises(ValueError, match="HardImpute needs rank as a whole number of at least 1, got 0"):
        HardImpute(rank=0)


def test_nothing_is_shrunk():
    observed = noisy(p=1.0)
    assert float(torch.linalg.matrix_norm(HardImpute(rank=3)(observed).matrix, 2)) == pytest.approx(top_of(observed))
