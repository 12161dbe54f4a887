"""Drawing the observed set: as a mask, or as a list of indices that is all one evaluates."""

import numpy as np
import torch

from svrl import FactorALS, Observed
from svrl.matrix import Bernoulli

shape = 400, 300
rng = np.random.default_rng(0)
left, right = rng.normal(size=(400, 3)), rng.normal(size=(300, 3))


def expensive(rows, columns):
    """Stands for a simulator: one number for each (row, column) pair asked for."""
    return (left[rows] * right[columns]).sum(-1)


truth = left @ right.T
for draw in (Bernoulli(p=0.1, cover=True), Bernoulli(p=0.2, cover=True)):
    at = draw.indices(shape, torch.Generator().manual_seed(1)).numpy()
    values = expensive(*np.unravel_index(at, shape))
    estimate = FactorALS()(Observed.from_entries(shape, at, values))
    error = np.linalg.norm(estimate.matrix - truth) / np.linalg.norm(truth)
    print(f"{draw}: {len(at)} of {truth.size} evaluations, rank {estimate.rank}, relative error {error:.1e}")
