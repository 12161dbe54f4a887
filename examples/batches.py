"""A thousand small matrices in one call: 32 states by 18 actions each, 90% observed."""

import time

import numpy as np

from svrl import Observed, SoftImpute

rng = np.random.default_rng(0)
truth = (rng.normal(size=(1000, 32, 3)) @ rng.normal(size=(1000, 3, 18))).astype(np.float32)
observed = Observed(values=truth, mask=rng.random(truth.shape) < 0.9, allow_empty=True)
print(observed)

estimator = SoftImpute(tolerance=1e-3)
estimator(observed)  # compiles on the first call, or reads the compiled code from a cache
began = time.perf_counter()
estimate = estimator(observed)
seconds = time.perf_counter() - began

print(f"{estimate}: {1e6 * seconds / len(truth):.0f} microseconds a matrix")
print(f"shapes: matrix {estimate.matrix.shape}, rank {estimate.rank.shape}, shrinkage {estimate.shrinkage.shape}")
for rank, count in zip(*np.unique(estimate.rank, return_counts=True), strict=True):
    print(f"rank {rank}: {count} matrices")
