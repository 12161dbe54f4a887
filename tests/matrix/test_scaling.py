"""Matrices completed inside a scaling: the kernels of the CPU against the lines in torch that say what they compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.matrix import Estimate, Observed, Outcome, SoftImpute
from svrl.matrix.scaling import Completed, Scale, complete_scaled

RULE = SoftImpute(tolerance=1e-6, max_steps=1_000)


class InTorch:
    """The same estimator without its kernels for scaling."""

    def __call__(self, observed: Observed, **options: object) -> Estimate:
        return RULE(observed)


def problem(dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Low-rank matrices far from zero, (2, 3, 20, 6); a row without an entry, a full matrix, and an empty one."""
    source = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 3, 20, 2, generator=source) @ torch.randn(2, 3, 2, 6, generator=source) - 30.0
    mask = torch.rand(q.shape, generator=source) < 0.8
    mask[0, 0, 4] = False
    mask[0, 1] = True
    mask[1, 1] = False
    return q.to(dtype), mask


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("scale", ["none", "minmax", "row"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_are_the_lines_in_torch(dtype: torch.dtype, scale: Scale, fill: bool) -> None:
    q, mask = problem(dtype)
    ours, theirs = (complete_scaled(rule, q, mask, scale=scale, fill=fill) for rule in (RULE, InTorch()))
    assert isinstance(ours, Completed)
    close = {"rtol": 0, "atol": 1e-3 if dtype == torch.float32 else 1e-6}
    torch.testing.assert_close(ours.matrix, theirs.matrix, **close)
    torch.testing.assert_close(ours.estimate, theirs.estimate, **close)
    assert torch.equal(ours.code, theirs.code)
    if fill:
        assert torch.equal(ours.matrix[mask], q[mask])
    for kept in (ours.matrix[0, 0, 4], ours.matrix[1, 1]):  # nothing is known about these
        assert any(torch.equal(kept, part) for part in (q[0, 0, 4], q[1, 1]))


def test_values_that_are_not_finite_are_reported_and_kept() -> None:
    q, mask = problem(torch.float32)
    mask[0, 1, 0, 0] = True
    q[0, 1, 0, 0] = np.nan
    found = complete_scaled(RULE, q, mask, scale="row", fill=True)
    assert int(found.code[0, 1]) == Outcome.NOT_FINITE.code
    assert np.array_equal(found.matrix[0, 1].numpy(), q[0, 1].numpy(), equal_nan=True)
    assert torch.isfinite(found.matrix[1]).all()


def test_one_matrix_needs_no_batch() -> None:
    q, mask = problem(torch.float32)
    one, all_of_them = (
        complete_scaled(RULE, part, seen, scale="row", fill=True) for part, seen in ((q[0, 0], mask[0, 0]), (q, mask))
    )
    assert torch.equal(one.matrix, all_of_them.matrix[0, 0])
    assert one.rank.shape == one.code.shape == ()
