"""SoftImpute around its solvers: batches, precisions, odd matrices, centring, filling, settings."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from svrl.matrix import Observed, SoftImpute

from .problems import as_numpy, assert_optimal, low_rank, noisy, observe, relative_error, top_of

# "path" gives up where the minimiser has a high rank, so it sits out where that may be.
ANY_RANK = ["auto", "small", "plain", "accelerated"]
SHARP = SoftImpute(tolerance=1e-10, max_steps=20_000)

solvers = pytest.mark.parametrize("solver", ["path", *ANY_RANK])
any_rank = pytest.mark.parametrize("solver", ANY_RANK)


# Batches, kinds and precisions.


@solvers
def test_a_batch_of_one_equals_the_matrix_alone(solver: str):
    observed = noisy()
    record = SoftImpute(ratio=0.1, solver=solver)
    one = record(Observed(values=observed.values[None], mask=observed.mask[None]))
    alone = record(observed)
    assert one.matrix.shape == (1, 40, 30)
    assert torch.allclose(one.matrix[0], alone.matrix, rtol=0, atol=1e-12)
    assert one.iterations.shape == (1,)
    assert int(one.iterations[0]) == int(alone.iterations)


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
def test_numpy_comes_back_as_numpy_with_the_same_numbers(solver: str):
    observed = noisy()
    record = SoftImpute(ratio=0.1, solver=solver)
    numpy, torch_ = record(as_numpy(observed)), record(observed)
    for name in ("matrix", "rank", "iterations", "change", "code", "shrinkage"):
        assert isinstance(getattr(numpy, name), np.ndarray), name
        assert np.array_equal(getattr(numpy, name), getattr(torch_, name).numpy()), name


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
