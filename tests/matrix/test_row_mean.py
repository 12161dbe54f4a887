import numpy as np
import pytest
import torch

from svrl.matrix import Observed, RowMean

from .problems import as_numpy, noisy


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


def test_it_converges_in_one_step_whatever_the_start():
    observed = noisy()
    estimate = RowMean()(observed, start=torch.full((40, 30), 7.0))
    assert estimate.converged
    assert int(estimate.iterations) == 1
    assert torch.equal(estimate.matrix, RowMean()(observed).matrix)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fill_keeps_observed_entries_bit_for_bit(dtype: torch.dtype):
    observed = noisy(dtype=dtype)
    estimate = RowMean()(observed)
    assert estimate.matrix.dtype == dtype
    assert torch.equal(estimate.matrix[observed.mask], observed.values[observed.mask])


def test_a_batch_equals_its_members_and_numpy_equals_torch():
    observed = noisy(9, 7, 2, batch=(2, 3))
    together = RowMean()(observed)
    assert together.rank.shape == (2, 3)
    assert np.array_equal(RowMean()(as_numpy(observed)).matrix, together.matrix.numpy())
    for k in np.ndindex(2, 3):
        alone = RowMean()(Observed(values=observed.values[k], mask=observed.mask[k]))
        assert torch.equal(together.matrix[k], alone.matrix)


def test_a_misspelt_output_is_refused():
    with pytest.raises(ValueError, match="RowMean has no output 'mean'"):
        RowMean(output="mean")
