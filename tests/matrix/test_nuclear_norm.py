from dataclasses import replace

import numpy as np
import pytest
import torch

from svrl.matrix import NuclearNorm, SoftImpute

from .problems import low_rank, noisy, observe, reference_least_nuclear_norm, relative_error

SHARP = NuclearNorm(tolerance=1e-9, max_steps=20_000)


@pytest.mark.parametrize(("shape", "p"), [((10, 8), 0.7), ((7, 9), 0.6)])
def test_a_general_convex_solver_agrees(shape: tuple[int, int], p: float):
    observed = observe(low_rank(*shape, 2, noise=0.1), p)
    wanted = reference_least_nuclear_norm(observed)
    estimate = SHARP(observed)
    assert estimate.converged
    norm = float(torch.linalg.matrix_norm(estimate.matrix, "nuc"))
    assert norm == pytest.approx(float(np.linalg.norm(wanted, "nuc")), rel=1e-5)
    assert relative_error(estimate.matrix, wanted) < 1e-3


def test_a_smaller_last_shrinkage_comes_closer():
    observed = observe(low_rank(10, 8, 2, noise=0.1), 0.7)
    wanted = reference_least_nuclear_norm(observed)
    errors = [relative_error(replace(SHARP, smallest=s)(observed).matrix, wanted) for s in (1e-2, 1e-3, 1e-4)]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_exact_low_rank_matrix_is_recovered(dtype: torch.dtype):
    truth = low_rank(50, 40, 2, dtype=dtype)
    estimate = NuclearNorm()(observe(truth, 0.6))
    assert relative_error(estimate.matrix, truth) < 1e-3
    assert estimate.matrix.dtype == dtype


@pytest.mark.parametrize("shape", [(30, 20), (120, 90)])
def test_the_authors_setting_is_soft_impute_at_one_and_a_half(shape: tuple[int, int]):
    observed = noisy(*shape, 2)
    estimate = NuclearNorm.authors()(observed)
    assert estimate.converged
    assert float(estimate.shrinkage) == 1.5
    wanted = SoftImpute(shrinkage=1.5, tolerance=1e-9, max_steps=5000)(observed)
    assert relative_error(estimate.matrix, wanted.matrix) < 1e-4
    assert NuclearNorm.authors() == NuclearNorm(weight=3.0, output="estimate")


@pytest.mark.parametrize("output", ["fill", "estimate"])
def test_the_penalised_form_has_no_half(output: str):
    observed = noisy(20, 14, 2)
    penalised = replace(SHARP, weight=2.0, output=output)(observed)
    soft = SoftImpute(shrinkage=1.0, tolerance=1e-9, max_steps=20_000, output=output)(observed)
    assert torch.equal(penalised.matrix, soft.matrix)


def test_iterations_count_every_level_of_the_path():
    observed = noisy(20, 14, 2)
    long, short = (NuclearNorm(smallest=s)(observed) for s in (1e-4, 1e-2))
    assert int(long.iterations) > int(short.iterations) > 2
