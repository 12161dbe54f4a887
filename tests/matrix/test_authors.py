"""The authors' preset against the program that the authors called: fancyimpute 0.7.0."""

import warnings

import numpy as np
import pytest
import torch

from benchmarks.authors import fancy_soft_impute
from svrl.matrix import Observed, SoftImpute

from .problems import low_rank, observe, seeded, top_of


def q_like(m: int, n: int) -> torch.Tensor:
    """Large, mostly negative values that differ little between actions."""
    value = -50 + 20 * torch.randn(m, 1, generator=seeded(1), dtype=torch.float64)
    return value + low_rank(m, n, 3, seed=2, noise=0.1)


FAMILIES = {
    "low rank": lambda m, n: low_rank(m, n, 2),
    "noisy": lambda m, n: low_rank(m, n, 3, noise=0.3),
    "full rank": lambda m, n: torch.randn(m, n, generator=seeded(3), dtype=torch.float64),
    "like Q": q_like,
    "tiny values": lambda m, n: 1e-6 * low_rank(m, n, 2, noise=0.1),
}


def fancy(observed: Observed, **settings: float) -> np.ndarray:
    values, mask = (tensor.numpy() for tensor in observed.tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fancy_soft_impute(np.where(mask, values, np.nan), **settings)


def difference(ours: np.ndarray | torch.Tensor, theirs: np.ndarray) -> float:
    return float(np.abs(np.asarray(ours) - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(32, 18), (18, 32), (64, 6), (40, 40)])
@pytest.mark.parametrize("p", [0.5, 0.9])
def test_the_preset_agrees_with_fancyimpute(family: str, shape: tuple[int, int], p: float):
    observed = observe(FAMILIES[family](*shape), p)
    # fancyimpute draws its own largest singular value at random, so both are told the shrinkage.
    shrinkage = top_of(observed) / 50
    ours = SoftImpute.authors(shrinkage=shrinkage)(observed)
    assert difference(ours.matrix, fancy(observed, shrinkage=shrinkage)) < 1e-5
    assert torch.equal(ours.matrix[observed.mask], observed.values[observed.mask])


@pytest.mark.parametrize(("tolerance", "max_steps"), [(1e-3, 3), (1e-6, 500)])
def test_it_agrees_iterate_for_iterate(tolerance: float, max_steps: int):
    observed = observe(low_rank(32, 18, 3, noise=0.3), 0.6)
    shrinkage = top_of(observed) / 10
    ours = SoftImpute.authors(shrinkage=shrinkage, tolerance=tolerance, max_steps=max_steps)(observed)
    theirs = fancy(observed, shrinkage=shrinkage, tolerance=tolerance, max_steps=max_steps)
    assert difference(ours.matrix, theirs) < 1e-5


def test_a_large_matrix_agrees_too():
    observed = observe(low_rank(90, 70, 4, noise=0.1), 0.4)
    shrinkage = top_of(observed) / 50
    assert (
        difference(SoftImpute.authors(shrinkage=shrinkage)(observed).matrix, fancy(observed, shrinkage=shrinkage))
        < 1e-5
    )


def test_the_defaults_agree_as_far_as_fancyimputes_own_shrinkage_is_repeatable():
    observed = observe(low_rank(32, 18, 3, noise=0.1), 0.9)
    assert difference(SoftImpute.authors()(observed).matrix, fancy(observed)) < 1e-4


def test_the_fast_solver_ends_where_fancyimpute_would_if_it_ran_on():
    observed = observe(low_rank(32, 18, 3, noise=0.3), 0.8)
    shrinkage = top_of(observed) / 50
    ours = SoftImpute(shrinkage=shrinkage, tolerance=1e-9, output="fill")(observed)
    theirs = fancy(observed, shrinkage=shrinkage, tolerance=1e-9, max_steps=20_000)
    assert difference(ours.matrix, theirs) < 1e-5
