"""How far from the optimum? A duality gap answers without knowing the optimum."""

import numpy as np

from svrl import Observed, SoftImpute, certify
from svrl.matrix import duality_gap

rng = np.random.default_rng(0)
truth = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40)) + 0.1 * rng.normal(size=(60, 40))
observed = Observed(values=truth, mask=rng.random(truth.shape) < 0.5)

for tolerance in (1e-2, 1e-4, 1e-6):
    estimate = SoftImpute(tolerance=tolerance)(observed)
    certificate = certify(observed, estimate.matrix, estimate.shrinkage)
    print(
        f"tolerance {tolerance:.0e}: {int(estimate.iterations):3d} iterations, objective {certificate.objective:.6f}, "
        f"relative gap {certificate.relative_gap:.1e}"
    )

shrinkage = float(estimate.shrinkage)
print(f"The zero matrix, at the same shrinkage: gap {duality_gap(observed, np.zeros_like(truth), shrinkage):.1f}")
