import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.matrix import Observed, SoftImpute, certify, dual_point, duality_gap, objective
from svrl.matrix.certificate import largest_singular_value, shrink_singular_values

from .problems import any_observed, as_numpy, low_rank, noisy, observe

some = settings(max_examples=60, deadline=None, derandomize=True)
levels = st.sampled_from([1e-3, 0.3, 2.0, 50.0])


def candidate(observed: Observed, kind: str, seed: int) -> torch.Tensor:
    m, n = observed.shape
    values = observed.tensors[0]
    if kind == "zero":
        return torch.zeros_like(values)
    if kind == "values":
        return values.clone()
    return float(values.abs().max()) * low_rank(m, n, 2, seed=seed, noise=0.5)


candidates = st.sampled_from(["zero", "values", "random"])


@some
@given(observed=any_observed(most=9), kind=candidates, level=levels, seed=st.integers(0, 1000))
def test_the_gap_bounds_how_far_any_matrix_is_from_the_minimum(observed: Observed, kind: str, level: float, seed: int):
    matrix = candidate(observed, kind, seed)
    best = SoftImpute(shrinkage=level, tolerance=1e-7, max_steps=2000)(observed).matrix
    found = certify(observed, matrix, level)
    lowest = float(objective(observed, best, level))
    scale = max(float(found.objective), lowest, 1e-300)
    assert float(found.gap) >= -1e-10 * scale
    assert float(found.gap) >= float(found.objective) - lowest - 1e-10 * scale
    assert float(found.dual) <= lowest + 1e-10 * scale


@some
@given(observed=any_observed(most=9), kind=candidates, level=levels, seed=st.integers(0, 1000))
def test_the_dual_point_is_feasible(observed: Observed, kind: str, level: float, seed: int):
    y = dual_point(observed, candidate(observed, kind, seed), level)
    assert float(torch.linalg.matrix_norm(y, 2)) <= level * (1 + 1e-6)
    assert not y[~observed.mask].any()


@some
@given(observed=any_observed(most=9), seed=st.integers(0, 1000), level=levels)
def test_the_proximal_step_is_not_expansive(observed: Observed, seed: int, level: float):
    a, b = observed.tensors[0], candidate(observed, "random", seed)
    shrunk = [shrink_singular_values(matrix, torch.tensor(level))[0] for matrix in (a, b)]
    near, far = float(torch.linalg.norm(shrunk[0] - shrunk[1])), float(torch.linalg.norm(a - b))
    assert near <= far * (1 + 1e-10) + 1e-300


def test_the_objective_is_its_formula():
    observed, matrix = noisy(9, 7, 2), low_rank(9, 7, 3, seed=4)
    residual = (matrix - observed.values)[observed.mask]
    wanted = 0.5 * float(residual.square().sum()) + 0.7 * float(torch.linalg.svdvals(matrix).sum())
    assert float(objective(observed, matrix, 0.7)) == pytest.approx(wanted, rel=1e-12)
    assert float(certify(observed, matrix, 0.7).objective) == pytest.approx(wanted, rel=1e-12)


def test_the_dual_value_is_its_formula():
    observed, matrix = noisy(9, 7, 2), low_rank(9, 7, 3, seed=4)
    y = dual_point(observed, matrix, 0.7)
    wanted = float((y * observed.values).sum() - 0.5 * y.square().sum())
    found = certify(observed, matrix, 0.7)
    assert float(found.dual) == pytest.approx(wanted, rel=1e-12)
    assert float(found.gap) == pytest.approx(float(found.objective) - wanted, rel=1e-12)
    assert float(duality_gap(observed, matrix, 0.7)) == float(found.gap)
    assert float(found.relative_gap) == pytest.approx(float(found.gap) / float(found.objective))


def test_a_closed_form_minimiser_has_no_gap():
    matrix = low_rank(20, 12, 4, noise=0.1)
    minimiser, rank = shrink_singular_values(matrix, torch.tensor(2.0))
    found = certify(observe(matrix, 1.0), minimiser, 2.0)
    assert int(rank) == int((torch.linalg.svdvals(matrix) > 2).sum())
    assert abs(float(found.relative_gap)) < 1e-12
    assert float(found.residual_excess) < 1e-7
    assert float(found.left_misfit) < 1e-9
    assert float(found.right_misfit) < 1e-9


def test_a_perturbed_minimiser_is_told_apart_by_every_measure():
    matrix = low_rank(20, 12, 4, noise=0.1)
    observed = observe(matrix, 1.0)
    minimiser = shrink_singular_values(matrix, torch.tensor(2.0))[0]
    for wrong in (1.01 * minimiser, 0.99 * minimiser):
        found = certify(observed, wrong, 2.0)
        assert float(found.relative_gap) > 1e-6
        assert float(found.left_misfit) > 1e-2
        assert float(found.right_misfit) > 1e-2
    assert float(certify(observed, 0.99 * minimiser, 2.0).residual_excess) > 1e-3


def test_a_batch_equals_its_members_each_with_its_own_shrinkage():
    observed, matrix = noisy(9, 7, 2, batch=(2, 3)), low_rank(9, 7, 3, seed=4, batch=(2, 3))
    shrinkage = torch.linspace(0.1, 3.0, 6, dtype=torch.float64).reshape(2, 3)
    together = certify(observed, matrix, shrinkage)
    for k in np.ndindex(2, 3):
        alone = certify(Observed(values=observed.values[k], mask=observed.mask[k]), matrix[k], float(shrinkage[k]))
        for name in vars(alone):
            assert float(getattr(together, name)[k]) == pytest.approx(float(getattr(alone, name)), rel=1e-9), name


def test_numpy_in_gives_numpy_out_with_the_same_numbers():
    observed, matrix = noisy(9, 7, 2, batch=(2,)), low_rank(9, 7, 3, batch=(2,))
    found, same = certify(observed, matrix, 0.5), certify(as_numpy(observed), matrix.numpy(), 0.5)
    for name in vars(found):
        assert isinstance(getattr(same, name), np.ndarray), name
        assert np.array_equal(getattr(same, name), getattr(found, name).numpy()), name
    assert isinstance(dual_point(as_numpy(observed), matrix.numpy(), 0.5), np.ndarray)


def test_large_matrices_are_certified_too():
    observed = noisy(700, 300, 3, 0.3, dtype=torch.float32)
    estimate = SoftImpute(ratio=0.15, tolerance=1e-6)(observed)
    found = estimate.certify(observed)
    assert 0 <= float(found.relative_gap) < 1e-3
    assert float(found.residual_excess) < 1e-3
    assert found.gap.dtype == torch.float64


@pytest.mark.parametrize("shape", [(1, 1), (30, 4), (4, 30), (5, 9, 6)])
def test_the_largest_singular_value_is_that_of_a_decomposition(shape: tuple[int, ...]):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    wanted = torch.linalg.svdvals(matrix.double())[..., 0]
    assert torch.allclose(largest_singular_value(matrix), wanted, rtol=1e-10)
