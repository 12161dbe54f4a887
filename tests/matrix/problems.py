"""Matrices to complete, and answers to them that this package had no part in."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from svrl.matrix import Bernoulli, Observed, certify
from svrl.matrix.certificate import largest_singular_value


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def low_rank(
    m: int,
    n: int,
    rank: int,
    *,
    seed: int = 0,
    noise: float = 0.0,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Gaussian factors, entries of standard deviation 1, plus noise."""
    source = seeded(seed)
    left = torch.randn(*batch, m, rank, generator=source, dtype=torch.float64)
    right = torch.randn(*batch, n, rank, generator=source, dtype=torch.float64)
    extra = torch.randn(*batch, m, n, generator=source, dtype=torch.float64)
    return (left @ right.mT / max(rank, 1) ** 0.5 + noise * extra).to(dtype)


def observe(matrix: torch.Tensor, p: float, *, seed: int = 1) -> Observed:
    """Each entry with probability p, and at least one in every row and column."""
    return Observed(values=matrix, mask=Bernoulli(p=p, cover=True).mask(tuple(matrix.shape), seeded(seed)))


def noisy(
    m: int = 40,
    n: int = 30,
    rank: int = 3,
    p: float = 0.6,
    *,
    seed: int = 0,
    noise: float = 0.1,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> Observed:
    """A low-rank matrix with noise, partly observed."""
    return observe(low_rank(m, n, rank, seed=seed, noise=noise, batch=batch, dtype=dtype), p, seed=seed + 1)


def as_numpy(observed: Observed) -> Observed:
    values, mask = observed.tensors
    return Observed(values=values.numpy(), mask=mask.numpy(), allow_empty=observed.allow_empty)


def top_of(observed: Observed) -> float:
    """The largest singular value of the zero-filled matrix."""
    return float(largest_singular_value(observed.tensors[0]).max())


def relative_error(got: torch.Tensor | np.ndarray, wanted: torch.Tensor | np.ndarray) -> float:
    got, wanted = (torch.as_tensor(a).double() for a in (got, wanted))
    return float(torch.linalg.norm(got - wanted) / torch.linalg.norm(wanted))


def assert_optimal(
    observed: Observed, matrix: torch.Tensor | np.ndarray, shrinkage: float | torch.Tensor, slack: float
) -> None:
    """The optimality conditions of the convex problem hold up to `slack`."""
    found = certify(observed, matrix, shrinkage)
    assert float(found.residual_excess.max()) <= slack
    assert float(found.left_misfit.max()) <= slack
    assert float(found.right_misfit.max()) <= slack
    assert float(found.relative_gap.max()) <= slack
    assert float((found.gap / found.objective).min()) >= -1e-12


def reference_minimiser(observed: Observed, shrinkage: float) -> np.ndarray:
    """The Soft-Impute problem in cvxpy's words, solved by SCS."""
    import cvxpy

    values, mask = (tensor.numpy() for tensor in observed.tensors)
    z = cvxpy.Variable(values.shape)
    loss = 0.5 * cvxpy.sum_squares(cvxpy.multiply(mask.astype(float), z - values))
    cvxpy.Problem(cvxpy.Minimize(loss + shrinkage * cvxpy.normNuc(z))).solve(
        solver=cvxpy.SCS, eps_abs=1e-9, eps_rel=1e-9, max_iters=200_000
    )
    return z.value


def reference_least_nuclear_norm(observed: Observed) -> np.ndarray:
    """The matrix of least nuclear norm through the observed entries, by cvxpy and SCS."""
    import cvxpy

    values, mask = (tensor.numpy() for tensor in observed.tensors)
    z = cvxpy.Variable(values.shape)
    known = [cvxpy.multiply(mask.astype(float), z) == values]
    cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(z)), known).solve(
        solver=cvxpy.SCS, eps_abs=1e-9, eps_rel=1e-9, max_iters=200_000
    )
    return z.value


@st.composite
def any_observed(draw: st.DrawFn, *, most: int = 12, dtypes: tuple[torch.dtype, ...] = (torch.float64,)) -> Observed:
    """Any shape up to most x most, any rank, scale, mask and precision; empty rows and columns too."""
    m, n = draw(st.integers(1, most)), draw(st.integers(1, most))
    seed, scale = draw(st.integers(0, 2**31)), draw(st.sampled_from([1e-3, 1.0, 1e3]))
    values = scale * low_rank(m, n, draw(st.integers(1, 4)), seed=seed, noise=draw(st.sampled_from([0.0, 0.3])))
    mask = torch.rand(m, n, generator=seeded(seed + 1)) < draw(st.sampled_from([0.2, 0.5, 0.9, 1.0]))
    mask[draw(st.integers(0, m - 1)), draw(st.integers(0, n - 1))] = True
    return Observed(values=values.to(draw(st.sampled_from(dtypes))), mask=mask, allow_empty=True)
