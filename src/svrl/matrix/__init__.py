"""Recover a matrix from some of its entries."""

from svrl.matrix.baselines import USVT, HardImpute, RowMean
from svrl.matrix.certificate import Certificate, certify, dual_point, duality_gap, objective
from svrl.matrix.contract import ContractBroken, check_estimator
from svrl.matrix.cross import CrossEstimate, cross
from svrl.matrix.draw import Bernoulli
from svrl.matrix.estimate import Estimate, Estimator, Outcome, complete
from svrl.matrix.factor_als import FactorALS
from svrl.matrix.nuclear_norm import NuclearNorm
from svrl.matrix.observed import Observed
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
