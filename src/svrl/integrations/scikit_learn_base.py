"""From a table with gaps to an svrl estimator and back, by the rules of scikit-learn.

`LowRankImputer` is what the imputers of `scikit_learn` have in common: reading the table, standardising its columns,
calling the estimator in `fit`, and solving new rows in `transform` with what `fit` learned (see `new_rows`).
"""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np

from svrl.integrations.new_rows import offsets_of_rows, row_space, rows_by_ridge
from svrl.integrations.versions import require
from svrl.matrix.estimate import Estimate, Estimator
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options

require("scikit-learn")
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.utils.validation import check_array, check_is_fitted, validate_data  # noqa: E402

FLOATS = (np.float64, np.float32)
CONSTANT = 1e-13
"""Spread of a column, as a share of its mean, that is rounding."""
HIDING = 0x68696465
"""Told to the seed of `held_out_score`, so that it is not the stream by which a user made gaps with the same seed:
else what is to be hidden would be missing already. The letters of "hide"; any number but 0 would do."""
RandomState = int | np.random.RandomState | np.random.Generator | None


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """What all imputers do; the parameters and the estimator are those of each.

    Attributes:
        n_features_in_, feature_names_in_: As everywhere in scikit-learn.
        empty_features_: (n_features_in_,), True where `fit` saw no entry of a column.
        rank_: Rank of the estimate, of the centred table.
        n_iter_: Iterations spent.
        converged_: Whether the tolerance was reached. If not, `fit` warned.
        outcome_: The same as an `Outcome`, whose value is a sentence.
        shrinkage_: Weight of the nuclear norm, in units of the (standardised) values, or None.
        held_out_: Relative error on the entries that were hidden while a rank was chosen, or None.
        components_: (rank_, columns with an entry), right singular directions.
        singular_values_: (rank_,), of the estimate.
        offset_: What centring took out; with "row", what a row without an entry gets.
        mean_, scale_: (columns with an entry), what standardising took out, or None.
    """

    # What a class without the parameter has.
    output: Output = "fill"
    centre: Centre = "none"
    clip: Bounds = None
    standardise: bool = False
    random_state: RandomState = None
    missing_values: Any
    keep_empty_features: bool

    def fit(self, X: Any, y: Any = None) -> LowRankImputer:
        """Complete a table and keep its row space.

        Args:
            X: (rows, columns), an array or a DataFrame of numbers.
            y: Not used.
        """
        self._complete(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Complete a table: the estimator's own result, (rows, columns), for the rows it was fitted to."""
        return self._complete(X)

    def transform(self, X: Any) -> np.ndarray:
        """Complete rows, new ones or old, with what `fit` learned: each row by itself, (rows, columns)."""
        check_is_fitted(self)
        X, mask = self._read(X, reset=False)
        shown = mask[:, ~self.empty_features_]
        values = self._standardised(X[:, ~self.empty_features_].astype(np.float64))
        offset = offsets_of_rows(values, shown, self.centre, self.offset_)
        centred = np.where(shown, values - offset, 0)
        asked = ~shown.all(1) if self.output == "fill" else np.ones(len(X), bool)
        estimate = np.zeros(values.shape)
        estimate[asked] = self._rows(centred[asked], shown[asked])
        return self._deliver(X, mask, estimate + offset)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that come out: all but those dropped as empty."""
        names: np.ndarray = super().get_feature_names_out(input_features)
        return names if self.keep_empty_features else names[~self.empty_features_]

    def __sklearn_tags__(self) -> Any:
        """Says to scikit-learn that NaN may come in, and that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = is_nan(self.missing_values)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def _estimator(self) -> Estimator:
        """The svrl record, with output "estimate" and no bounds: filling and clipping are done here."""

    def _learn(self, values: np.ndarray, mask: np.ndarray, estimate: Estimate) -> None:
        """Keep what `_rows` needs, for values (m, n), zero where unobserved."""
        self.components_, self.singular_values_ = row_space(estimate)

    def _rows(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Centred rows (k, n) from centred values (k, n), zero where unobserved."""
        assert self.shrinkage_ is not None
        return rows_by_ridge(values, mask, self.components_, self.singular_values_, self.shrinkage_)

    def _complete(self, X: Any) -> np.ndarray:
        check_options(type(self).__name__, self.output, self.centre, self.clip)
        for what in ("standardise", "keep_empty_features"):
            if not isinstance(got := getattr(self, what), bool | np.bool_):
                raise ValueError(f"{type(self).__name__} needs {what} as True or False, got {got!r}.")
        estimator = self._estimator()
        X, mask = self._read(X, reset=True)
        self._look_at_columns(X, mask)
        values, shown = X[:, ~self.empty_features_], mask[:, ~self.empty_features_]
        values = np.where(shown, self._standardised(values), 0).astype(X.dtype)
        observed = Observed(values=values, mask=shown, allow_empty=True)
        estimate = estimator(observed, generator=generator_of(self.random_state))
        if not np.isfinite(estimate.matrix).all():
            raise ValueError(f"{type(self).__name__} found no finite estimate. {estimate.outcome.value}")
        if not estimate.converged:
            warnings.warn(f"{type(self).__name__}: {estimate.outcome.value}", ConvergenceWarning, stacklevel=3)
        self.rank_, self.n_iter_ = int(estimate.rank), int(estimate.iterations)
        self.converged_, self.outcome_ = estimate.converged, estimate.outcome
        self.shrinkage_ = None if estimate.shrinkage is None else float(estimate.shrinkage)
        self.held_out_ = None if estimate.held_out is None else float(estimate.held_out)
        if self.centre == "row":
            self.offset_ = float(values.sum(dtype=np.float64) / shown.sum())
        else:
            self.offset_ = 0.0 if estimate.offset is None else float(estimate.offset.item())
        self._learn(values, shown, estimate)
        return self._deliver(X, mask, np.asarray(estimate.matrix))

    def _read(self, X: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """The table in float64 or float32, and where it is observed."""
        if not isinstance(self.missing_values, Real):
            raise ValueError(f"missing_values must be NaN or a number, got {self.missing_values!r}.")
        if hasattr(X, "toarray"):
            raise TypeError(
                f"{type(self).__name__} takes a dense table, and {type(X).__name__} is sparse. "
                f"Give its .toarray(), with {self.missing_values} for what is missing."
            )
        finite = "allow-nan" if is_nan(self.missing_values) else True
        X = validate_data(self, X, reset=reset, dtype=FLOATS, ensure_all_finite=finite)
        return X, observed_entries(X, self.missing_values)

    def _look_at_columns(self, X: np.ndarray, mask: np.ndarray) -> None:
        """Which are empty, and what standardising takes out of the others."""
        self.empty_features_ = ~mask.any(0)
        if self.empty_features_.all():
            raise ValueError(f"{type(self).__name__} needs an observed entry, got a table {X.shape} without any.")
        if self.empty_features_.any() and not self.keep_empty_features:
            dropped = ", ".join(map(str, super().get_feature_names_out()[self.empty_features_]))
            warnings.warn(
                f"{type(self).__name__} drops columns without an observed entry: {dropped}. "
                "Pass keep_empty_features=True to keep them, as zeros.",
                stacklevel=4,
            )
        self.mean_ = self.scale_ = None
        if self.standardise:
            shown = mask[:, ~self.empty_features_]
            values = np.where(shown, X[:, ~self.empty_features_], 0).astype(np.float64)
            self.mean_ = values.sum(0) / shown.sum(0)
            spread = np.sqrt((np.where(shown, values - self.mean_, 0) ** 2).sum(0) / shown.sum(0))
            self.scale_ = np.where(spread > CONSTANT * np.abs(self.mean_), spread, 1.0)

    def _standardised(self, values: np.ndarray) -> np.ndarray:
        return values if self.mean_ is None else (values - self.mean_) / self.scale_

    def _deliver(self, X: np.ndarray, mask: np.ndarray, estimate: np.ndarray) -> np.ndarray:
        """The table that goes out: units, bounds, observed entries and empty columns as the parameters say."""
        if self.mean_ is not None:
            estimate = estimate * self.scale_ + self.mean_
        out = np.zeros(X.shape, X.dtype)
        out[:, ~self.empty_features_] = estimate
        if self.clip is not None:
            out = out.clip(*self.clip)
        if self.output == "fill":
            out = np.where(mask, X, out)
        return out if self.keep_empty_features else out[:, ~self.empty_features_]


def held_out_score(
    imputer: Any, X: Any, y: Any = None, *, fraction: float = 0.1, random_state: RandomState = 0
) -> float:
    """How well a fitted imputer recovers entries that are hidden from it: a scorer, as in scoring=held_out_score.

    Some observed entries of the rows X are hidden, the imputer transforms the rest, and what it says of them is
    compared with what they are. A row that would lose all its entries keeps them. Works with any imputer that gives
    back the units and the columns of X, scikit-learn's own too.

    Args:
        imputer: Fitted, to other rows if the score is to be an honest one.
        X: (rows, columns), with its own gaps.
        y: Not used.
        fraction: Share of the observed entries to hide.
        random_state: Chooses them. A fixed seed hides the same ones from every candidate. Its stream is not that of
            default_rng(seed), by which the gaps may have been made; a generator is used as it is.

    Returns:
        -|recovered - hidden|_F / |hidden|_F: 0 is perfect, -1 is what zeros would get.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"held_out_score needs a fraction between 0 and 1, got {fraction}.")
    marker = getattr(imputer, "missing_values", np.nan)
    values = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan" if is_nan(marker) else True)
    mask = observed_entries(values, marker)
    seed = 0 if random_state is None else random_state
    source = np.random.default_rng([int(seed), HIDING]) if isinstance(seed, Integral) else generator_of(seed)
    assert source is not None
    hidden = mask & (source.random(mask.shape) < fraction)
    hidden &= (mask & ~hidden).any(1, keepdims=True)
    if not hidden.any():
        raise ValueError(f"held_out_score found nothing to hide in {int(mask.sum())} entries: raise the fraction.")
    shown = X.mask(hidden, marker) if hasattr(X, "iloc") else np.where(hidden, marker, values)
    recovered = np.asarray(imputer.transform(shown), np.float64)
    if recovered.shape != values.shape:
        raise ValueError(
            f"held_out_score needs a table {values.shape} back, got {recovered.shape}: pass keep_empty_features=True."
        )
    size = np.linalg.norm(values[hidden])
    return -float(np.linalg.norm(recovered[hidden] - values[hidden]) / (size if size > 0 else 1.0))


def observed_entries(X: np.ndarray, missing_values: Any) -> np.ndarray:
    """True where a table (rows, columns) has a value."""
    return ~np.isnan(X) if is_nan(missing_values) else np.not_equal(X, missing_values)


def is_nan(missing_values: Any) -> bool:
    """Whether gaps are marked by NaN, and not by a number."""
    return isinstance(missing_values, Real) and math.isnan(missing_values)


def generator_of(random_state: Any) -> np.random.Generator | None:
    """The generator behind a random_state. None is None, for the estimator's own fixed seed, and no global state."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, Integral):
        return np.random.default_rng(int(random_state))
    raise ValueError(f"random_state must be a whole number, a RandomState or None, got {random_state!r}.")
