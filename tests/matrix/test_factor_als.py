from dataclasses import replace

import numpy as np
import pytest
import torch

from svrl.matrix import FactorALS, Observed, Outcome, SoftImpute, objective
from svrl.matrix.factor_als import residual, solve_columns, solve_rows, squared_residual

from .problems import as_numpy, low_rank, noisy, observe, relative_error, seeded, top_of

SHARP = FactorALS(tolerance=1e-10, max_steps=5000)


@pytest.mark.parametrize("share", [0.08, 0.2])
@pytest.mark.parametrize("rank", [6, 12])
def test_with_enough_factors_it_ends_at_soft_imputes_minimiser(share: float, rank: int):
    observed = noisy()
    ridge = share * top_of(observed)
    wanted = SoftImpute(shrinkage=ridge, tolerance=1e-10)(observed)
    assert int(wanted.rank) <= rank
    estimate = replace(SHARP, rank=rank, ridge=ridge)(observed)
    assert estimate.converged
    assert relative_error(estimate.matrix, wanted.matrix) < 1e-6
    found = estimate.certify(observed)
    assert abs(float(found.relative_gap)) < 1e-7
    assert float(found.residual_excess) < 1e-6


def test_too_few_factors_leave_a_gap():
    observed = noisy()
    found = replace(SHARP, rank=2, ratio=0.05)(observed).certify(observed)
    assert float(found.relative_gap) > 1e-2
    assert float(found.residual_excess) > 1e-2


@pytest.mark.parametrize("rank", [2, 5])
def test_the_objective_never_rises(rank: int):
    observed = noisy(p=0.5)
    ridge = 0.01 * top_of(observed)
    values = []
    for steps in range(1, 25):
        left, right = FactorALS(rank=rank, ridge=ridge, tolerance=1e-14, max_steps=steps)(observed).factors
        loss = 0.5 * (observed.values - left @ right.T)[observed.mask].square().sum()
        values.append(float(loss + 0.5 * ridge * (left.square().sum() + right.square().sum())))
    assert max(np.diff(values)) <= 1e-12 * values[0]
    assert values[-1] < values[0]


def test_balanced_factors_have_the_nuclear_norm_of_their_product():
    observed = noisy()
    estimate = replace(SHARP, rank=6, ratio=0.1)(observed)
    left, right = estimate.factors
    lengths = 0.5 * float(left.square().sum() + right.square().sum())
    assert lengths == pytest.approx(float(torch.linalg.matrix_norm(left @ right.T, "nuc")), rel=1e-6)
    ridge = float(estimate.shrinkage)
    loss = 0.5 * (observed.values - left @ right.T)[observed.mask].square().sum()
    assert float(loss) + ridge * lengths == pytest.approx(float(objective(observed, left @ right.T, ridge)), rel=1e-9)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_the_rank_of_an_exact_matrix_is_found(rank: int):
    truth = low_rank(120, 80, rank, seed=rank)
    estimate = FactorALS()(observe(truth, 0.5))
    assert int(estimate.rank) == rank
    assert relative_error(estimate.matrix, truth) < 3e-3


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_rank_of_a_noisy_matrix_is_found(rank: int):
    clean = low_rank(150, 100, rank, seed=rank)
    estimate = FactorALS()(observe(low_rank(150, 100, rank, seed=rank, noise=0.1), 0.5))
    assert int(estimate.rank) == rank
    assert relative_error(estimate.matrix, clean) < 0.1


def test_max_rank_bounds_the_search():
    assert int(FactorALS(max_rank=2)(observe(low_rank(60, 50, 5), 0.6)).rank) == 2


@pytest.mark.parametrize("rank", [4, 8, 14])
def test_an_over_guessed_rank_is_still_accurate(rank: int):
    truth = low_rank(120, 80, 3)
    estimate = FactorALS(rank=rank, max_steps=300)(observe(truth, 0.5))
    assert relative_error(estimate.matrix, truth) < 3e-3


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_factors_come_back_and_no_matrix_is_formed_until_asked_for(kind: str):
    observed = noisy()
    estimate = FactorALS(rank=4)(as_numpy(observed) if kind == "numpy" else observed)
    assert estimate.dense is None
    left, right = estimate.factors
    assert tuple(left.shape) == (40, 4)
    assert tuple(right.shape) == (30, 4)
    assert isinstance(left, np.ndarray) == (kind == "numpy")
    assert "shape=(40, 30)" in repr(estimate)
    matrix = estimate.matrix
    assert relative_error(matrix, left @ right.T) < 1e-15  # NumPy's own product may round differently
    assert estimate.matrix is matrix


@pytest.mark.parametrize("changes", [{"output": "fill"}, {"clip": (-1.0, 1.0)}])
def test_filling_and_clipping_form_the_matrix(changes: dict):
    observed = noisy()
    estimate = FactorALS(rank=4, **changes)(observed)
    assert estimate.factors is None
    plain = FactorALS(rank=4)(observed).matrix
    wanted = torch.where(observed.mask, observed.values, plain) if "output" in changes else plain.clamp(-1, 1)
    assert torch.equal(estimate.matrix, wanted)


@pytest.mark.parametrize("centre", ["mean", "midrange", "row"])
def test_the_centre_travels_as_one_more_factor(centre: str):
    lifted = observe(low_rank(40, 30, 2, noise=0.05) + 7, 0.6)
    estimate = FactorALS(rank=3, centre=centre)(lifted)
    left, right = estimate.factors
    assert left.shape == (40, 4)
    assert torch.equal(right[:, -1], torch.ones(30, dtype=torch.float64))
    assert torch.equal(left[:, -1:], estimate.offset.expand(40, 1))
    by_hand = FactorALS(rank=3)(Observed(values=lifted.values - estimate.offset, mask=lifted.mask))
    assert torch.allclose(estimate.matrix, by_hand.matrix + estimate.offset, rtol=0, atol=1e-9)
    assert int(estimate.rank) == 3


@pytest.mark.parametrize("kind", ["estimate", "matrix", "numpy"])
def test_a_warm_start_at_the_solution_ends_there_at_once(kind: str):
    observed = noisy()
    record = FactorALS(rank=6, ratio=0.05, tolerance=1e-6)
    cold = record(observed)
    start = {"estimate": cold, "matrix": cold.matrix, "numpy": cold.matrix.numpy()}[kind]
    warm = record(observed, start=start)
    assert int(warm.iterations) <= 4 < int(cold.iterations)
    assert relative_error(warm.matrix, cold.matrix) < 1e-4


def test_a_warm_start_with_more_factors_is_cut_to_the_rank():
    observed = noisy()
    start = FactorALS(rank=6)(observed)
    estimate = FactorALS(rank=3)(observed, start=start)
    assert estimate.factors[0].shape == (40, 3)
    assert relative_error(estimate.matrix, low_rank(40, 30, 3)) < 0.15


def test_matrices_of_one_batch_may_have_different_ranks():
    values = torch.stack([low_rank(80, 60, rank, seed=rank) for rank in (1, 4)])
    estimate = FactorALS()(observe(values, 0.6))
    assert estimate.rank.tolist() == [1, 4]
    assert relative_error(estimate.matrix[0], values[0]) < 3e-3
    assert relative_error(estimate.matrix[1], values[1]) < 3e-3


def test_the_rank_never_exceeds_the_shorter_side():
    estimate = FactorALS(rank=50)(noisy(12, 5, 2, 0.8))
    assert int(estimate.rank) == 5
    assert estimate.factors[0].shape == (12, 5)


def test_a_zero_matrix_stays_zero():
    observed = observe(torch.zeros(8, 6), 0.7)
    for rank in (2, "auto"):
        estimate = FactorALS(rank=rank)(observed)
        assert estimate.converged
        assert not estimate.matrix.any()


def test_running_out_of_steps_is_reported():
    estimate = FactorALS(rank=4, tolerance=1e-12, max_steps=2)(noisy())
    assert estimate.outcome is Outcome.OUT_OF_STEPS
    assert int(estimate.iterations) == 2


# One half of an iteration: all rows at once equals one ridge regression after the other.


def test_each_row_is_its_own_ridge_regression():
    observed = noisy(17, 11, 3, 0.6, batch=(2,))
    right = torch.randn(2, 11, 4, generator=seeded(3), dtype=torch.float64)
    ridge = torch.tensor([0.3, 2.0], dtype=torch.float64)
    left = solve_rows(observed.values, observed.mask, right, ridge)
    for b in range(2):
        for i in range(17):
            seen = right[b][observed.mask[b, i]]
            gram = seen.T @ seen + ridge[b] * torch.eye(4, dtype=torch.float64)
            wanted = torch.linalg.solve(gram, seen.T @ observed.values[b, i][observed.mask[b, i]])
            assert torch.allclose(left[b, i], wanted, rtol=1e-9, atol=1e-12)


def test_columns_are_rows_of_the_transpose():
    observed = noisy(17, 11, 3, 0.6, batch=(2,))
    left = torch.randn(2, 17, 4, generator=seeded(3), dtype=torch.float64)
    ridge = torch.tensor([0.3, 2.0], dtype=torch.float64)
    columns = solve_columns(observed.values, observed.mask, left, ridge)
    assert torch.allclose(columns, solve_rows(observed.values.mT, observed.mask.mT, left, ridge), atol=1e-12)


def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch):
    observed = noisy(17, 11, 3, 0.6, batch=(2,))
    left = torch.randn(2, 17, 4, generator=seeded(3), dtype=torch.float64)
    right = torch.randn(2, 11, 4, generator=seeded(4), dtype=torch.float64)
    ridge = torch.ones(2, dtype=torch.float64)
    values, mask = observed.tensors

    def all_three() -> list[torch.Tensor]:
        return [
            solve_rows(values, mask, right, ridge),
            solve_columns(values, mask, left, ridge),
            squared_residual(values, mask, left, right),
        ]

    whole = all_three()
    monkeypatch.setattr("svrl.matrix.factor_als.BLOCK_ENTRIES", 100)
    for part, all_ in zip(all_three(), whole, strict=True):
        assert torch.allclose(part, all_, rtol=1e-12)
    rest = residual(values, mask, left, right)
    assert torch.allclose(whole[2], rest.square().sum((-2, -1)))
    assert torch.equal(rest, rest * mask)


@pytest.mark.parametrize(("few", "many"), [(1, 3), (2, 3), (1, 2)])
def test_a_warm_start_with_too_few_factors_finds_the_others(few, many):
    truth = low_rank(30, 20, many)
    observed = observe(truth, 0.7)
    warm = FactorALS(rank=many)(observed, start=FactorALS(rank=few)(observed))
    assert relative_error(warm.matrix, truth) < 2e-2


def test_a_ridge_that_crushes_everything_leaves_rank_zero():
    assert int(FactorALS(rank=5, ridge=1e6)(noisy()).rank) == 0


def test_a_rank_that_predicts_nothing_says_so():
    noise = torch.randn(60, 40, generator=seeded(), dtype=torch.float64)
    good = noisy(60, 40, 3, 0.6, noise=0.01)
    hopeless = Observed(values=noise, mask=good.tensors[1])
    assert float(FactorALS()(hopeless).held_out) > 0.9
    assert float(FactorALS()(good).held_out) < 0.1
    assert FactorALS(rank=3)(good).held_out is None
