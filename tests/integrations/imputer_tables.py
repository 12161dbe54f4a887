"""Tables with gaps, and the imputers beside the estimators that they wrap."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from svrl.integrations.scikit_learn import (
    FactorImputer,
    HardImputer,
    NuclearNormImputer,
    RowMeanImputer,
    SoftImputer,
    USVTImputer,
)
from svrl.integrations.scikit_learn_base import LowRankImputer
from svrl.matrix import USVT, FactorALS, HardImpute, NuclearNorm, RowMean, SoftImpute

PAIRS = {
    "soft": (SoftImputer(), SoftImpute()),
    "soft, row": (SoftImputer(centre="row", ratio=0.1), SoftImpute(centre="row", ratio=0.1)),
    "authors": (SoftImputer.authors(), SoftImpute.authors(output="estimate")),
    "factor": (FactorImputer(), FactorALS()),
    "factor, mean": (FactorImputer(rank=2, centre="mean"), FactorALS(rank=2, centre="mean")),
    "hard": (HardImputer(rank=3), HardImpute(rank=3)),
    "hard, midrange": (HardImputer(rank=3, centre="midrange"), HardImpute(rank=3, centre="midrange")),
    "nuclear": (NuclearNormImputer(), NuclearNorm()),
    "nuclear, weight": (NuclearNormImputer(weight=2.0), NuclearNorm(weight=2.0, output="estimate")),
    "usvt": (USVTImputer(), USVT()),
    "row mean": (RowMeanImputer(), RowMean(output="estimate")),
}
IMPUTERS = [imputer for imputer, _ in PAIRS.values()]


def table(
    m: int = 60, n: int = 12, *, rank: int = 3, noise: float = 0.1, share: float = 0.7, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A table (m, n) of some rank around 1, and the same with NaN; every row and column has an entry."""
    rng = np.random.default_rng(seed)
    truth = 1 + rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) + noise * rng.normal(size=(m, n))
    mask = rng.random((m, n)) < share
    mask[np.arange(m), np.arange(m) % n] = True
    return truth, np.where(mask, truth, np.nan)


def apart(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    return float(np.linalg.norm((a - b)[where]) / np.linalg.norm(b[where]))


def whole(imputer: LowRankImputer) -> LowRankImputer:
    return clone(imputer).set_params(output="estimate")
