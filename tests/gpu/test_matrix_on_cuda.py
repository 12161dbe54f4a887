"""CPU and CUDA agree, within the tolerances stated here."""

from __future__ import annotations

import pytest
import torch

from svrl import USVT, FactorALS, HardImpute, NuclearNorm, Observed, RowMean, SoftImpute, certify
from svrl.matrix import Bernoulli, approximate_rank

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

# Each is run to convergence: what is left is where two ways of rounding stop.
AGREEMENT = {torch.float64: 1e-6, torch.float32: 2e-3}

ESTIMATORS = [
    SoftImpute(tolerance=1e-7),
    SoftImpute(tolerance=1e-7, output="fill", centre="row"),
    SoftImpute(tolerance=1e-7, solver="accelerated"),
    SoftImpute.authors(),
    FactorALS(rank=3, tolerance=1e-9),
    HardImpute(rank=3, tolerance=1e-9),
    USVT(),
    NuclearNorm(smallest=1e-3, tolerance=1e-9),
    RowMean(),
]


def problem(shape: tuple[int, ...], dtype: torch.dtype) -> Observed:
    generator = torch.Generator().manual_seed(1)
    *batch, m, n = shape
    left, right = (torch.randn(*batch, k, 3, generator=generator, dtype=torch.float64) for k in (m, n))
    mask = Bernoulli(p=0.8, cover=True).mask(shape, generator)
    return Observed(values=(left @ right.mT + 2).to(dtype), mask=mask)


def to_cuda(observed: Observed) -> Observed:
    values, mask = observed.tensors
    return Observed(values=values.cuda(), mask=mask.cuda())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(32, 18), (8, 32, 18), (18, 32), (300, 200)], ids=str)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_cpu_and_cuda_agree(estimator, shape, dtype):
    observed = problem(shape, dtype)
    here = estimator(observed).matrix
    there = estimator(to_cuda(observed)).matrix
    assert there.is_cuda
    assert there.dtype == dtype
    distance = torch.linalg.norm(there.cpu() - here) / torch.linalg.norm(here)
    assert float(distance) < AGREEMENT[dtype]


def test_the_path_solver_is_optimal_on_cuda():
    observed = to_cuda(problem((600, 400), torch.float64))
    estimate = SoftImpute(solver="path", tolerance=1e-8)(observed)
    certificate = certify(observed, estimate.matrix, estimate.shrinkage)
    assert float(certificate.relative_gap) < 1e-6
    assert float(certificate.residual_excess) < 1e-6


def test_draws_and_ranks_on_cuda():
    generator = torch.Generator("cuda").manual_seed(0)
    device = torch.device("cuda")
    assert Bernoulli(p=0.3, cover=True).mask((50, 40), generator, device).is_cuda
    assert Bernoulli(p=0.3).indices((50, 40), generator, device).is_cuda
    assert int(approximate_rank(torch.eye(5, device=device))) == 5


def test_bad_input_is_named_on_cuda():
    values = torch.ones(4, 3, device="cuda")
    mask = torch.ones(4, 3, dtype=torch.bool, device="cuda")
    mask[2] = False
    with pytest.raises(ValueError, match="row 2"):
        Observed(values=values, mask=mask)
