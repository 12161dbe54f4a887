"""Recover a matrix from some of its entries."""

from collections.abc import Callable

from svrl.matrix.baselines import USVT, HardImpute, NuclearNorm, RowMean
from svrl.matrix.certificate import Certificate, certify, dual_point, duality_gap, objective
from svrl.matrix.contract import ContractBroken, check_estimator
from svrl.matrix.cross import CrossEstimate, cross
from svrl.matrix.estimate import Estimate, Estimator, Outcome, complete
from svrl.matrix.factor_als import FactorALS
from svrl.matrix.observed import Bernoulli, Observed
from svrl.matrix.rank import approximate_rank, effective_rank, spectrum, stable_rank
from svrl.matrix.soft_impute import SoftImpute

__all__ = [
    "USVT",
    "Bernoulli",
    "Certificate",
    "ContractBroken",
    "CrossEstimate",
    "Estimate",
    "Estimator",
    "FactorALS",
    "HardImpute",
    "NuclearNorm",
    "Observed",
    "Outcome",
    "RowMean",
    "SoftImpute",
    "approximate_rank",
    "certify",
    "check_estimator",
    "complete",
    "cross",
    "dual_point",
    "duality_gap",
    "effective_rank",
    "objective",
    "spectrum",
    "stable_rank",
]

ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "soft-impute": SoftImpute,
    "factor-als": FactorALS,
    "hard-impute": HardImpute,
    "usvt": USVT,
    "nuclear-norm": NuclearNorm,
    "row-mean": RowMean,
}
"""The estimators by the names that the command line and run directories use."""
