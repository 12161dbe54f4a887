"""The estimators as imputers of scikit-learn: SoftImputer().fit_transform(X) for a table X with NaN.

`fit_transform` is the estimator's own result. `fit` keeps the row space of that result, and `transform` completes new
rows in it, each by itself, with the same shrinkage; `new_rows` has the rule and its reasons. On the rows that were
fitted the two agree at the minimiser, and otherwise as far as the iteration came: with the defaults to about 1e-3 of
the filled entries, with `SoftImputer.authors`, which stops early, to a few per cent.

Parameters have the names and the meaning that they have in the records (`svrl.SoftImpute` and the others). These are
added to all of them:

    output               "fill" (the default) keeps observed entries, "estimate" takes all from the low-rank model
    standardise          take each column's mean out and divide by its standard deviation first; undone at the end
    missing_values       what marks a gap: NaN, or a number
    keep_empty_features  a column of which `fit` saw nothing is dropped, or kept as zeros, as in SimpleImputer
    random_state         where randomness exists; None is a fixed seed, and the global state is never used
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from svrl.integrations.new_rows import rows_by_least_squares, rows_by_threshold
from svrl.integrations.scikit_learn_base import LowRankImputer, RandomState, held_out_score
from svrl.matrix.estimate import Estimate, Estimator
from svrl.matrix.factor_als import FactorALS
from svrl.matrix.hard_impute import HardImpute
from svrl.matrix.nuclear_norm import NuclearNorm
from svrl.matrix.parameters import Bounds, Centre, Output
from svrl.matrix.row_mean import RowMean
from svrl.matrix.soft_impute import SoftImpute
from svrl.matrix.soft_impute.estimator import Solver
from svrl.matrix.usvt import USVT

__all__ = [
    "FactorImputer",
    "HardImputer",
    "NuclearNormImputer",
    "RowMeanImputer",
    "SoftImputer",
    "USVTImputer",
    "held_out_score",
]


class SoftImputer(LowRankImputer):
    """Nuclear-norm shrinkage: `svrl.SoftImpute`, whose text has the parameters.

    The noisier the table, the larger `ratio` or `shrinkage` should be: choose with `held_out_score`.
    """

    def __init__(
        self,
        *,
        shrinkage: float | None = None,
        ratio: float = 1 / 50,
        tolerance: float = 1e-5,
        max_steps: int = 1000,
        output: Output = "fill",
        centre: Centre = "none",
        clip: Bounds = None,
        solver: Solver = "auto",
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.ratio = ratio
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.output = output
        self.centre = centre
        self.clip = clip
        self.solver = solver
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    @classmethod
    def authors(cls, **changes: object) -> SoftImputer:
        """The defaults of fancyimpute's SoftImpute, iterate for iterate: as `svrl.SoftImpute.authors`.

        Where its 100 steps do not reach its tolerance, `fit` keeps the last iterate, as fancyimpute does, and warns.
        """
        settings: dict[str, object] = {"tolerance": 1e-3, "max_steps": 100, "solver": "plain"}
        return cls(**{**settings, **changes})  # type: ignore[arg-type]

    def _estimator(self) -> Estimator:
        return SoftImpute(
            shrinkage=self.shrinkage,
            ratio=self.ratio,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            centre=self.centre,
            solver=self.solver,
        )


class FactorImputer(LowRankImputer):
    """Ridge alternating least squares on two thin factors: `svrl.FactorALS`, whose text has the parameters.

    With rank "auto", `held_out_` is the relative error that chose it; near 1, no rank predicted anything.
    """

    def __init__(
        self,
        *,
        rank: int | Literal["auto"] = "auto",
        max_rank: int = 30,
        ridge: float | None = None,
        ratio: float = 1e-4,
        tolerance: float = 1e-4,
        max_steps: int = 100,
        output: Output = "fill",
        centre: Centre = "none",
        clip: Bounds = None,
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.rank = rank
        self.max_rank = max_rank
        self.ridge = ridge
        self.ratio = ratio
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.output = output
        self.centre = centre
        self.clip = clip
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    def _estimator(self) -> Estimator:
        return FactorALS(
            rank=self.rank,
            max_rank=self.max_rank,
            ridge=self.ridge,
            ratio=self.ratio,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            centre=self.centre,
        )


class HardImputer(LowRankImputer):
    """A fixed rank without shrinkage: `svrl.HardImpute`, whose text has the parameters.

    The rank has a default, 1, because scikit-learn asks for one: choose it, with `held_out_score`. A new row with
    hardly more entries than the rank is fitted as it is, noise and all; `FactorImputer` damps that.
    """

    def __init__(
        self,
        *,
        rank: int = 1,
        tolerance: float = 1e-5,
        max_steps: int = 1000,
        output: Output = "fill",
        centre: Centre = "none",
        clip: Bounds = None,
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.rank = rank
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.output = output
        self.centre = centre
        self.clip = clip
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    def _estimator(self) -> Estimator:
        return HardImpute(rank=self.rank, tolerance=self.tolerance, max_steps=self.max_steps, centre=self.centre)

    def _rows(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return rows_by_least_squares(values, mask, self.components_)


class NuclearNormImputer(LowRankImputer):
    """Least nuclear norm: `svrl.NuclearNorm`, whose text has the parameters.

    Without a weight it holds the observed entries exactly, noise and all, and takes long over noisy tables.
    """

    def __init__(
        self,
        *,
        weight: float | None = None,
        smallest: float = 1e-5,
        tolerance: float = 1e-6,
        max_steps: int = 2000,
        output: Output = "fill",
        centre: Centre = "none",
        clip: Bounds = None,
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.weight = weight
        self.smallest = smallest
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.output = output
        self.centre = centre
        self.clip = clip
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    def _estimator(self) -> Estimator:
        return NuclearNorm(
            weight=self.weight,
            smallest=self.smallest,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            output="estimate",
            centre=self.centre,
        )


class USVTImputer(LowRankImputer):
    """Universal singular value thresholding: `svrl.USVT`, whose text has the parameters. A baseline, no iteration.

    New rows are taken to be observed as densely as the fitted ones were; others come out too large or too small.
    """

    centre: Centre = "midrange"

    def __init__(
        self,
        *,
        threshold: Literal["variance", "published"] = "variance",
        margin: float = 1.35,
        noise: float = 0.0,
        output: Output = "fill",
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
    ) -> None:
        self.threshold = threshold
        self.margin = margin
        self.noise = noise
        self.output = output
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features

    def _estimator(self) -> Estimator:
        return USVT(threshold=self.threshold, margin=self.margin, noise=self.noise)

    def _learn(self, values: np.ndarray, mask: np.ndarray, estimate: Estimate) -> None:
        centred = np.where(mask, values.astype(np.float64) - self.offset_, 0)
        _, s, v = np.linalg.svd(centred, full_matrices=False)
        self.components_ = v[: self.rank_].copy()
        self.share_, self.bound_ = float(mask.mean()), float(np.abs(centred).max())
        self.singular_values_ = s[: self.rank_] / self.share_

    def _rows(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return rows_by_threshold(values, mask, self.components_, self.share_, self.bound_)


class RowMeanImputer(LowRankImputer):
    """The mean of each row's own entries: `svrl.RowMean`, the control. A row without any gets the mean of the table."""

    centre: Centre = "row"

    def __init__(
        self, *, output: Output = "fill", missing_values: float = np.nan, keep_empty_features: bool = False
    ) -> None:
        self.output = output
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features

    def _estimator(self) -> Estimator:
        return RowMean(output="estimate")

    def _learn(self, values: np.ndarray, mask: np.ndarray, estimate: Estimate) -> None:
        self.components_, self.singular_values_ = np.zeros((0, values.shape[1])), np.zeros(0)

    def _rows(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.zeros(values.shape)
