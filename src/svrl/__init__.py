"""svrl: structured (low-rank) value-based planning and deep reinforcement learning.

A Q function is a matrix, states by actions, and often nearly of low rank, so that some of its
entries tell the others. Names are loaded on first use: importing svrl is quick.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from svrl.matrix import (
        USVT,
        Bernoulli,
        Certificate,
        ContractBroken,
        CrossEstimate,
        Draw,
        Estimate,
        Estimator,
        FactorALS,
        HardImpute,
        NuclearNorm,
        Observed,
        Outcome,
        PerRow,
        RowMean,
        SoftImpute,
        approximate_rank,
        certify,
        check_estimator,
        complete,
        cross,
        dual_point,
        duality_gap,
        effective_rank,
        objective,
        spectrum,
        stable_rank,
    )

__all__ = [
    "USVT",
    "Bernoulli",
    "Certificate",
    "ContractBroken",
    "CrossEstimate",
    "Draw",
    "Estimate",
    "Estimator",
    "FactorALS",
    "HardImpute",
    "NuclearNorm",
    "Observed",
    "Outcome",
    "PerRow",
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


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module("svrl.matrix"), name)
    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f". Did you mean {close[0]}?" if close and not name.startswith("_") else ""
    raise AttributeError(f"module 'svrl' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
