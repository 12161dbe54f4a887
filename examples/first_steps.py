"""Complete a matrix from 30% of its entries."""

import numpy as np

from svrl import complete

rng = np.random.default_rng(0)
truth = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 200))
missing = rng.random(truth.shape) > 0.3

estimate = complete(np.where(missing, np.nan, truth))

error = np.linalg.norm((estimate.matrix - truth)[missing]) / np.linalg.norm(truth[missing])
print(f"rank {estimate.rank}, relative error on the {missing.mean():.0%} never seen: {error:.1e}")
