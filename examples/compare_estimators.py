"""Every estimator on six kinds of matrix: error on the entries it did not see, rank, time.

Four kinds are small, 32 x 18 with 90% observed, the size of a deep-RL batch: 16 matrices each, in
one call. Two are 400 x 300 of rank 5 with 20% observed. Errors are relative, in the Frobenius norm,
on the unobserved entries, against the noiseless matrix: median and worst over the matrices.
Milliseconds are for one matrix, on one thread.
"""

import time

import numpy as np
import torch

from svrl import USVT, FactorALS, HardImpute, NuclearNorm, Observed, RowMean, SoftImpute

BATCH, NOISE = 16, 0.1


def low_rank(rng, shape, rank, batch=()):
    m, n = shape
    return rng.normal(size=(*batch, m, rank)) @ rng.normal(size=(*batch, rank, n)) / rank**0.5


def small_families(rng):
    """Name, truth, and noise on the observations."""
    shape, batch = (32, 18), (BATCH,)
    value = rng.normal(10, 1, size=(BATCH, 32, 1))
    yield "rank 3, mean 0", low_rank(rng, shape, 3, batch), 0.0
    yield f"rank 3, mean 0, noise {NOISE}", low_rank(rng, shape, 3, batch), NOISE
    yield "value about 10 + advantage of rank 3", value + 0.5 * low_rank(rng, shape, 3, batch), 0.0
    yield "value about 10 + advantage without structure", value + 0.5 * rng.normal(size=(BATCH, 32, 18)), 0.0


def large_families(rng):
    """The same for one large matrix."""
    for noise in (0.0, NOISE):
        yield f"rank 5, mean 0, noise {noise:g}", low_rank(rng, (400, 300), 5), noise


def timed(estimator, observed):
    """Seconds and estimate of one call; of three calls the quickest, unless one takes long."""
    seconds = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        estimate = estimator(observed)
        seconds = min(seconds, time.perf_counter() - began)
        if seconds > 0.3:
            break
    return seconds, estimate


def compare(name, truth, noise, p, estimators, rng):
    mask = rng.random(truth.shape) < p
    observed = Observed(values=truth + noise * rng.normal(size=truth.shape), mask=mask, allow_empty=True)
    print(f"\n{name}; {'x'.join(map(str, truth.shape[-2:]))}, {p:.0%} observed")
    print(f"  {'estimator':<28}{'error':>9}{'worst':>9}{'rank':>7}{'ms':>10}")
    for label, estimator in estimators.items():
        seconds, estimate = timed(estimator, observed)
        ms = 1e3 * seconds / (len(truth) if truth.ndim == 3 else 1)
        wrong, whole = (np.linalg.norm(x * ~mask, axis=(-2, -1)) for x in (estimate.matrix - truth, truth))
        error, worst, rank = np.median(wrong / whole), np.max(wrong / whole), np.mean(estimate.rank)
        said = "" if estimate.converged else "  (out of steps)"
        print(f"  {label:<28}{error:>9.1e}{worst:>9.1e}{rank:>7.1f}{ms:>10.2f}{said}")


def table(rank):
    """All estimators, with the true rank of the structure where one asks for a rank."""
    return {
        "SoftImpute()": SoftImpute(),
        'SoftImpute(centre="row")': SoftImpute(centre="row"),
        "FactorALS()": FactorALS(),
        'FactorALS(centre="row")': FactorALS(centre="row"),
        f"FactorALS(rank={rank})": FactorALS(rank=rank),
        f"HardImpute(rank={rank})": HardImpute(rank=rank),
        "NuclearNorm()": NuclearNorm(),
        "USVT()": USVT(),
        "RowMean()": RowMean(),
    }


torch.set_num_threads(1)
rng = np.random.default_rng(0)
SoftImpute()(Observed(values=np.ones((3, 2)), mask=np.ones((3, 2), bool)))  # compiles once
for family in small_families(rng):
    compare(*family, 0.9, table(3), rng)
for name, truth, noise in large_families(rng):
    estimators = table(5)
    if noise:  # agreeing exactly with noisy entries needs a high rank, and minutes
        del estimators["NuclearNorm()"]
    compare(name, truth, noise, 0.2, estimators, rng)
