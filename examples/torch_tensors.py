"""Torch in, torch out: factors instead of a matrix, and a warm start after a small change."""

import torch

from svrl import FactorALS, Observed
from svrl.matrix import Bernoulli

generator = torch.Generator().manual_seed(0)
truth = torch.randn(500, 6, generator=generator) @ torch.randn(6, 200, generator=generator)
mask = Bernoulli(p=0.1, cover=True).mask((500, 200), generator)

estimator = FactorALS(rank=6, ratio=1e-5, tolerance=1e-6)
first = estimator(Observed(values=truth, mask=mask), generator=generator)
left, right = first.factors
print(f"{first}, factors {tuple(left.shape)} and {tuple(right.shape)}, {first.matrix.dtype}")

drifted = 1.01 * truth
again = estimator(Observed(values=drifted, mask=mask), start=first, generator=generator)
print(f"cold start {int(first.iterations)} iterations, warm start {int(again.iterations)}")
