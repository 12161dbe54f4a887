"""Completion as imputers of scikit-learn: SoftImputer().fit_transform(X) for a table X with NaN.

    SoftImputer(ratio=0.1)                               parameters of its own, for searches and pipelines
    LowRankImputer(estimator=FactorALS(rank=5))          any estimator of svrl.matrix, or one of your own

`fit_transform` is the estimator's own result. `fit` keeps the row space of that result, and `transform` completes new
rows in it, each by itself. The estimate Z (m, n) = U diag(s) V' has right singular directions V (n, r), and a new row
x of which the entries o are observed becomes V c. What c minimises follows from what the estimator minimised:

- Shrinkage t of the nuclear norm (`SoftImpute`, `FactorALS`, `NuclearNorm`):

      1/2 |V_o c - x_o|^2 + t / 2 * sum over k of c_k^2 / s_k,

  a ridge regression on the factors V diag(s)^(1/2). The penalty is what the row adds to t |Z|_*: the norm of Z with
  z' below it is tr (Z'Z + z z')^(1/2), the root is concave, and so for z in the row space the norm grows by at most
  1/2 z' (Z'Z)^(-1/2) z, and by that to first order. For a row of Z itself this is its own optimality condition.
- No shrinkage (`HardImpute`, `RowMean`, `USVT`): the same with t = 0, least squares; of several solutions the
  shortest.

So `transform` gives the fitted rows back at the minimiser, and before it as far as the iteration came: with the
defaults to about 1e-3 of the filled entries, with `SoftImputer.authors`, which stops early, to a few per cent. `USVT`
minimises nothing: its fitted rows differ.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
import torch

from svrl.integrations.versions import require
from svrl.matrix.arrays import Bounds, Centre, Output, as_tensor, check_choice
from svrl.matrix.estimate import Estimate, Estimator
from svrl.matrix.factor_als import FactorALS
from svrl.matrix.observed import Observed
from svrl.matrix.soft_impute import SoftImpute, Solver
from svrl.matrix.subspace import balance

require("scikit-learn")
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.utils.validation import check_array, check_is_fitted, validate_data  # noqa: E402

__all__ = ["LowRankImputer", "SoftImputer", "held_out_score"]

CONSTANT = 1e-13
"""Spread of a column, as a share of its mean, that is rounding."""
BLOCK_ENTRIES = 1 << 22
"""Numbers held at a time while new rows are solved: 32 MB."""
UNSEEN = 1e-6
"""Squared length of a direction on the observed entries below which least squares leave it at 0."""
HIDING = 0x68696465
"""Part of the seed of `held_out_score`: with the stream by which a user made gaps, what is to be hidden is missing."""
RandomState = int | np.random.RandomState | np.random.Generator | None


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fills the gaps of a table by any estimator.

    Attributes:
        n_features_in_, feature_names_in_: As everywhere in scikit-learn.
        empty_features_: (n_features_in_,), True where `fit` saw no entry of a column.
        estimator_: What completed the table.
        rank_: Rank of the estimate, of the centred table.
        n_iter_: Iterations spent.
        converged_: Whether the tolerance was reached. If not, `fit` warned.
        outcome_: The same as an `Outcome`, whose value is a sentence.
        shrinkage_: Weight of the nuclear norm, in units of the (standardised) values, or None.
        held_out_: Relative error on the entries that were hidden while a rank was chosen, or None. Near 1, no rank
            predicted anything.
        components_: (rank_, columns with an entry), right singular directions.
        singular_values_: (rank_,), of the estimate.
        offset_: What centring took out; where each row is centred, what a row without an entry gets.
        mean_, scale_: (columns with an entry), what standardising took out, or None.
    """

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        output: Output = "fill",
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        """Make one.

        Args:
            estimator: A record of `svrl.matrix`, with its centre and its clip; None is `FactorALS()`. Its output
                is ignored.
            output: "fill" keeps observed entries, "estimate" takes all from the low-rank model.
            standardise: Take each column's mean out and divide by its standard deviation first; undone at the end.
            missing_values: What marks a gap: NaN, or a number.
            keep_empty_features: Whether a column of which `fit` saw nothing is kept, as zeros, or dropped. As in
                SimpleImputer.
            random_state: Where randomness exists; None is a fixed seed, and the global state is never used.
        """
        self.estimator = estimator
        self.output = output
        self.standardise = standardise
        self.missing_values: Any = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

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
        offset = np.full((len(X), 1), self.offset_)
        if _centre(self.estimator_) == "row":
            count = shown.sum(1, keepdims=True)
            mean = np.where(shown, values, 0).sum(1, keepdims=True) / np.maximum(count, 1)
            offset = np.where(count > 0, mean, offset)
        asked = ~shown.all(1) if self.output == "fill" else np.ones(len(X), bool)
        estimate = np.zeros(values.shape)
        estimate[asked] = rows_in_space(
            np.where(shown, values - offset, 0)[asked],
            shown[asked],
            self.components_,
            self.singular_values_,
            self.shrinkage_,
        )
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

    def _make_estimator(self) -> Estimator:
        if self.estimator is None:
            return FactorALS()
        if not callable(self.estimator) or isinstance(self.estimator, type):
            raise ValueError(f"LowRankImputer needs an estimator such as FactorALS(), got {self.estimator!r}.")
        return self.estimator

    def _complete(self, X: Any) -> np.ndarray:
        name = type(self).__name__
        check_choice(name, "output", self.output, get_args(Output))
        self.estimator_ = self._make_estimator()
        X, mask = self._read(X, reset=True)
        self._look_at_columns(X, mask)
        values, shown = X[:, ~self.empty_features_], mask[:, ~self.empty_features_]
        values = np.where(shown, self._standardised(values), 0).astype(X.dtype)
        observed = Observed(values=values, mask=shown, allow_empty=True)
        estimate = _whole(self.estimator_)(observed, generator=generator_of(self.random_state))
        if not np.isfinite(estimate.matrix).all():
            raise ValueError(f"{name} found no finite estimate. {estimate.outcome.value}")
        if not estimate.converged:
            warnings.warn(f"{name}: {estimate.outcome.value}", ConvergenceWarning, stacklevel=3)
        self.rank_, self.n_iter_ = int(estimate.rank), int(estimate.iterations)
        self.converged_, self.outcome_ = estimate.converged, estimate.outcome
        self.shrinkage_ = None if estimate.shrinkage is None else float(estimate.shrinkage)
        self.held_out_ = None if estimate.held_out is None else float(estimate.held_out)
        if _centre(self.estimator_) == "row":
            self.offset_ = float(values.sum(dtype=np.float64) / shown.sum())
        else:
            self.offset_ = 0.0 if estimate.offset is None else float(estimate.offset.item())
        self.components_, self.singular_values_ = row_space(estimate)
        return self._deliver(X, mask, np.asarray(estimate.matrix))

    def _read(self, X: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """The table in float64 or float32, and where it is observed."""
        if hasattr(X, "toarray"):
            raise TypeError(
                f"{type(self).__name__} takes a dense table, and {type(X).__name__} is sparse. "
                f"Give its .toarray(), with {self.missing_values} for what is missing."
            )
        finite = "allow-nan" if is_nan(self.missing_values) else True
        X = validate_data(self, X, reset=reset, dtype=(np.float64, np.float32), ensure_all_finite=finite)
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
        clip = getattr(self.estimator_, "clip", None)
        if clip is not None:
            out = out.clip(*clip)
        if self.output == "fill":
            out = np.where(mask, X, out)
        return out if self.keep_empty_features else out[:, ~self.empty_features_]


class SoftImputer(LowRankImputer):
    """Nuclear-norm shrinkage: `svrl.SoftImpute`, whose text has the parameters that `LowRankImputer` does not have.

    The noisier the table, the larger `ratio` or `shrinkage` should be: choose with `held_out_score`.
    """

    def __init__(
        self,
        *,
        shrinkage: float | None = None,
        ratio: float = 1 / 50,
        tolerance: float = 1e-5,
        max_steps: int = 1000,
        centre: Centre = "none",
        clip: Bounds = None,
        solver: Solver = "auto",
        output: Output = "fill",
        standardise: bool = False,
        missing_values: float = np.nan,
        keep_empty_features: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.ratio = ratio
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.centre = centre
        self.clip = clip
        self.solver = solver
        self.output = output
        self.standardise = standardise
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state

    @classmethod
    def authors(cls, **changes: Any) -> SoftImputer:
        """The defaults of fancyimpute's SoftImpute, iterate for iterate: as `svrl.SoftImpute.authors`.

        Where its 100 steps do not reach its tolerance, `fit` keeps the last iterate, as fancyimpute does, and warns.
        """
        return cls(**{"tolerance": 1e-3, "max_steps": 100, "solver": "plain", **changes})

    def _make_estimator(self) -> Estimator:
        own = ("shrinkage", "ratio", "tolerance", "max_steps", "centre", "clip", "solver")
        return SoftImpute(**{name: getattr(self, name) for name in own})


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


def row_space(estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """Right singular directions (r, n) and singular values (r,), descending and above 0, of a centred estimate (m, n).

    Where observed entries were copied back, the minimiser behind them is recovered by one shrinkage.
    """
    if estimate.factors is not None:
        left, right = (as_tensor(factor).double() for factor in estimate.factors)
        if estimate.offset is not None:
            left, right = left[:, :-1], right[:, :-1]  # the last factor carries the offset
        _, values, directions = balance(left, right)
        s, v = values.numpy(), directions.numpy().T
    else:
        matrix = np.asarray(estimate.matrix, np.float64)
        if estimate.offset is not None:
            matrix = matrix - np.asarray(estimate.offset, np.float64)
        _, values, directions = torch.linalg.svd(torch.from_numpy(matrix), full_matrices=False)
        s, v = values.numpy(), directions.numpy()
        if estimate.kept and estimate.shrinkage is not None:
            s = s - float(estimate.shrinkage)
    rank = min(int(estimate.rank), int((s > 0).sum()))
    return v[:rank].copy(), s[:rank].copy()


def rows_in_space(
    values: np.ndarray,
    mask: np.ndarray,
    components: np.ndarray,
    singular_values: np.ndarray,
    shrinkage: float | None,
) -> np.ndarray:
    """New rows (k, n) in a row space, float64; the module has the problem that each of them solves.

    Args:
        values: (k, n), centred, zero where unobserved.
        mask: (k, n).
        components: (r, n), orthonormal.
        singular_values: (r,), above 0, of the fitted estimate.
        shrinkage: t of the nuclear norm, in units of the values; None is least squares.
    """
    out = np.zeros(values.shape)
    if not len(components):
        return out
    right = components.T
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray] = _shortest
    if shrinkage is not None:
        # Over the largest singular value: no unit is left in the equations, and no square leaves the range.
        right = right * np.sqrt(singular_values / singular_values[0])
        ridge = shrinkage / singular_values[0] * np.eye(len(singular_values))
        solve = lambda grams, targets: np.linalg.solve(grams + ridge, targets)  # noqa: E731
    step = max(1, BLOCK_ENTRIES // right.size)
    for rows in (slice(low, low + step) for low in range(0, len(values), step)):
        grams = (mask[rows, :, None] * right).transpose(0, 2, 1) @ right
        targets = np.where(mask[rows], values[rows], 0) @ right
        out[rows] = solve(grams, targets[..., None])[..., 0] @ right.T
    return out


def _shortest(grams: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Least squares, and of several solutions the shortest."""
    squares, axes = np.linalg.eigh(grams)
    seen = squares > UNSEEN
    inverse = np.where(seen, 1 / np.where(seen, squares, 1), 0)
    return axes @ (inverse[..., None] * (axes.transpose(0, 2, 1) @ targets))


def _centre(estimator: Any) -> str:
    return getattr(estimator, "centre", "none")


def _whole(estimator: Any) -> Estimator:
    """The estimator without filling and clipping, which are done when the table is delivered."""
    own = getattr(estimator, "__dataclass_fields__", ())
    changes = {name: value for name, value in (("output", "estimate"), ("clip", None)) if name in own}
    return dataclasses.replace(estimator, **changes) if changes else estimator


def observed_entries(X: np.ndarray, missing_values: Any) -> np.ndarray:
    """True where a table (rows, columns) has a value."""
    return ~np.isnan(X) if is_nan(missing_values) else np.not_equal(X, missing_values)


def is_nan(missing_values: Any) -> bool:
    """Whether gaps are marked by NaN, and not by a number."""
    return isinstance(missing_values, Real) and math.isnan(missing_values)


def generator_of(random_state: Any) -> np.random.Generator | None:
    """The generator behind a random_state. None is None, for the estimator's own fixed seed, and no global state."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31 - 1)
    return np.random.default_rng(random_state)
