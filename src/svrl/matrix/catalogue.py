"""The estimators by the names that the command line and run directories use."""

from __future__ import annotations

from collections.abc import Callable

from svrl.matrix.baselines import USVT, HardImpute, RowMean
from svrl.matrix.estimate import Estimator
from svrl.matrix.factor_als import FactorALS
from svrl.matrix.nuclear_norm import NuclearNorm
from svrl.matrix.soft_impute import SoftImpute

ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "soft-impute": SoftImpute,
    "factor-als": FactorALS,
    "hard-impute": HardImpute,
    "usvt": USVT,
    "nuclear-norm": NuclearNorm,
    "row-mean": RowMean,
}
