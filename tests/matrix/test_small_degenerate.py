"""SI-RF where singular values vanish: rounding must not pass for a direction."""

from __future__ import annotations

import numpy as np
import pytest

from svrl.matrix import Observed, SoftImpute, objective


def degenerate(kind: str, m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "constant rows":
        return rng.choice([-1.0, 10.0], (m, 1)) @ np.ones((1, n))
    if kind == "rank 1":
        return rng.standard_normal((m, 1)) @ rng.standard_normal((1, n))
    if kind == "equal rows":
        return np.repeat(rng.standard_normal((1, n)), m, 0)
    if kind == "half zero":
        return np.where(np.arange(n) < n // 2, 0.0, 1.0) * rng.standard_normal((m, 1))
    return 1e3 + 1e-3 * rng.standard_normal((m, n))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(400, 50), (32, 18), (30, 9)])
@pytest.mark.parametrize("kind", ["constant rows", "rank 1", "equal rows", "half zero", "one large direction"])
def test_the_objective_is_that_of_another_solver(kind: str, shape: tuple[int, int], dtype: type):
    rng = np.random.default_rng(0)
    for share in (0.9, 0.3):
        values = degenerate(kind, *shape, rng)
        mask = rng.random(shape) < share
        shrinkage = np.linalg.norm(np.where(mask, values, 0.0), 2) / 50
        exact = Observed(values=values, mask=mask, allow_empty=True)
        seen = Observed(values=values.astype(dtype), mask=mask, allow_empty=True)
        ours = SoftImpute(tolerance=1e-4, max_steps=300)(seen).matrix
        theirs = SoftImpute(tolerance=1e-5, max_steps=1000, solver="accelerated")(exact).matrix
        reached = float(objective(exact, np.asarray(ours, np.float64), shrinkage))
        assert reached <= 1.003 * float(objective(exact, theirs, shrinkage))
        assert np.abs(ours).max() <= 1.5 * np.abs(values).max() + 1e-6


def test_no_draw_of_constant_rows_blows_up():
    rng = np.random.default_rng(1)
    values = np.stack([rng.choice([-1.0, 10.0], (400, 1)) @ np.ones((1, 50)) for _ in range(20)]).astype(np.float32)
    mask = rng.random(values.shape) < 0.2
    filled = SoftImpute(tolerance=1e-3, max_steps=100, output="fill")(
        Observed(values=values, mask=mask, allow_empty=True)
    ).matrix
    assert np.abs(filled).max() < 12.0
