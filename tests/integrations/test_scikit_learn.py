"""The imputers against scikit-learn's own checks, the estimators they wrap, the problems of rows, and fancyimpute."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.authors import fancy_soft_impute
from svrl.integrations import scikit_learn
from svrl.integrations.scikit_learn import LowRankImputer, SoftImputer, held_out_score
from svrl.matrix import USVT, FactorALS, HardImpute, NuclearNorm, Observed, Outcome, RowMean, SoftImpute

ESTIMATORS = {
    "factor, mean": FactorALS(rank=2, centre="mean"),
    "hard": HardImpute(rank=3),
    "hard, midrange": HardImpute(rank=3, centre="midrange"),
    "nuclear": NuclearNorm(),
    "nuclear, weight": NuclearNorm(weight=2.0, output="estimate"),
    "usvt": USVT(),
    "row mean": RowMean(output="estimate"),
}
PAIRS: dict[str, tuple[LowRankImputer, Any]] = {
    "soft": (SoftImputer(), SoftImpute()),
    "soft, row": (SoftImputer(centre="row", ratio=0.1), SoftImpute(centre="row", ratio=0.1)),
    "authors": (SoftImputer.authors(), SoftImpute.authors(output="estimate")),
    "factor": (LowRankImputer(), FactorALS()),
    **{name: (LowRankImputer(estimator), estimator) for name, estimator in ESTIMATORS.items()},
}
IMPUTERS = [imputer for imputer, _ in PAIRS.values()]
EXACT: dict[str, Any] = {"tolerance": 1e-11, "max_steps": 20_000}


def table(
    m: int = 60, n: int = 12, *, rank: int = 3, noise: float = 0.1, share: float = 0.7, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A table (m, n) of some rank around 1, and the same with NaN; every row and column has an entry."""
    rng = np.random.default_rng(seed)
    truth = 1 + rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) + noise * rng.normal(size=(m, n))
    mask = rng.random((m, n)) < share
    mask[np.arange(m), np.arange(m) % n] = True
    return truth, np.where(mask, truth, np.nan)


def whole(imputer: LowRankImputer) -> LowRankImputer:
    return clone(imputer).set_params(output="estimate")


def fitted(imputer: LowRankImputer, X: np.ndarray) -> LowRankImputer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(imputer).fit(X)


@parametrize_with_checks([SoftImputer(), LowRankImputer(output="estimate", missing_values=-1, standardise=True)])
def test_scikit_learns_checks(estimator: LowRankImputer, check) -> None:
    check(estimator)


FRAMES = ("set_output_transform", "dataframe_column_names_consistency", "transformer_get_feature_names_out_pandas")


@pytest.mark.filterwarnings("ignore:X .*feature names")
@pytest.mark.parametrize("check", [*FRAMES, "set_output_transform_pandas", "global_output_transform_pandas"])
def test_scikit_learns_checks_of_frames(check: str) -> None:
    getattr(estimator_checks, f"check_{check}")("SoftImputer", SoftImputer())


class TestFitTransform:
    @pytest.mark.parametrize(("imputer", "estimator"), PAIRS.values(), ids=PAIRS)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_the_estimators_own_result(self, imputer, estimator, dtype) -> None:
        _, holes = table()
        holes = holes.astype(dtype)
        own = estimator(Observed.from_nan(holes))
        found = clone(imputer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            filled, estimate = found.fit_transform(holes), whole(imputer).fit_transform(holes)
        assert np.array_equal(estimate, own.matrix)
        assert np.array_equal(filled, np.where(np.isnan(holes), own.matrix, holes))
        assert filled.dtype == dtype
        assert (found.rank_, found.n_iter_, found.outcome_) == (int(own.rank), int(own.iterations), own.outcome)
        assert found.shrinkage_ == (None if own.shrinkage is None else float(own.shrinkage))

    @pytest.mark.parametrize("shape", [(32, 18), (18, 32), (64, 6)])
    @pytest.mark.parametrize("share", [0.5, 0.9])
    def test_agrees_with_fancyimpute(self, shape, share) -> None:
        _, holes = table(*shape, share=share)
        # fancyimpute draws its own largest singular value at random, so both are given the shrinkage.
        shrinkage = np.linalg.norm(np.nan_to_num(holes), 2) / 50
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = fancy_soft_impute(holes.copy(), shrinkage=shrinkage)
            ours = SoftImputer.authors(shrinkage=shrinkage).fit_transform(holes)
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()

    def test_an_estimator_of_ones_own(self) -> None:
        def shifted(observed, *, start=None, generator=None):
            estimate = RowMean(output="estimate")(observed)
            estimate.matrix[...] += 1
            return estimate

        _, holes = table()
        filled = LowRankImputer(shifted, output="estimate").fit_transform(holes)
        np.testing.assert_allclose(filled, np.repeat(np.nanmean(holes, 1, keepdims=True) + 1, 12, 1))


class TestTransform:
    @pytest.mark.parametrize("centre", ["none", "mean", "midrange", "row"])
    @pytest.mark.parametrize(
        "estimator",
        [
            SoftImpute(**EXACT),
            SoftImpute(ratio=0.3, solver="path", **EXACT),
            FactorALS(rank=4, ratio=1e-2, **EXACT),
            HardImpute(rank=3, **EXACT),
            NuclearNorm(weight=2.0, **EXACT),
        ],
        ids=["soft", "path", "factor", "hard", "nuclear"],
    )
    def test_gives_the_fitted_rows_back_at_the_minimiser(self, estimator, centre) -> None:
        _, holes = table(30, 8, share=0.9)
        own = type(estimator)(**{**vars(estimator), "centre": centre})
        imputer = LowRankImputer(own, output="estimate", standardise=centre == "none")
        np.testing.assert_allclose(imputer.fit_transform(holes), imputer.transform(holes), atol=2e-6)

    @pytest.mark.parametrize("estimator", [SoftImpute(ratio=0.05), FactorALS(rank=3), NuclearNorm(weight=3)])
    def test_solves_the_ridge_problem_of_each_new_row(self, estimator) -> None:
        _, holes = table()
        _, new = table(20, 12, seed=1)
        imputer = LowRankImputer(estimator, output="estimate")
        estimate = imputer.fit_transform(holes)
        _, s, v = np.linalg.svd(estimate, full_matrices=False)
        s, v = s[: imputer.rank_], v[: imputer.rank_]
        for row, answer in zip(new, imputer.transform(new), strict=True):
            seen = ~np.isnan(row)
            # The minimiser of |V_o c - x_o|^2 + t sum c^2 / s, as least squares of one stacked system.
            system = np.vstack([v[:, seen].T, np.diag(np.sqrt(imputer.shrinkage_ / s))])
            target = np.concatenate([row[seen], np.zeros(len(s))])
            np.testing.assert_allclose(answer, np.linalg.lstsq(system, target)[0] @ v, atol=1e-7)

    def test_nears_a_fit_with_the_new_row_among_the_others(self) -> None:
        _, holes = table(801, 12)
        imputer = SoftImputer(shrinkage=0.05 * np.linalg.norm(np.nan_to_num(holes), 2), output="estimate")
        together = imputer.fit_transform(holes)[-1]
        alone = imputer.fit(holes[:-1]).transform(holes[-1:])[0]
        assert np.linalg.norm(alone - together) < 3 / 800 * np.linalg.norm(together)

    @pytest.mark.parametrize("imputer", [*IMPUTERS, SoftImputer(shrinkage=1e6)], ids=[*PAIRS, "rank 0"])
    def test_takes_each_row_by_itself_in_blocks_and_from_a_pickle(self, imputer, monkeypatch) -> None:
        _, new = table(9, 12, seed=1)
        new[4] = np.nan
        imputer = fitted(imputer, table()[1])
        at_once = imputer.transform(new)
        one_by_one = np.vstack([imputer.transform(new[[i]]) for i in range(len(new))])
        np.testing.assert_allclose(at_once, one_by_one, atol=1e-12)
        assert np.isfinite(at_once).all()
        assert imputer.rank_ > 0 or not at_once[np.isnan(new)].any()
        again = pickle.loads(pickle.dumps(imputer))
        np.testing.assert_array_equal(again.transform(new), at_once)
        assert again.outcome_ is imputer.outcome_
        monkeypatch.setattr(scikit_learn, "BLOCK_ENTRIES", 100)
        np.testing.assert_allclose(imputer.transform(new), at_once, atol=1e-12)


class TestTables:
    def test_standardising_makes_units_of_no_account(self) -> None:
        _, holes = table()
        scale, shift = 10.0 ** np.arange(-6, 6), 100.0 * np.arange(12)
        plain, scaled = SoftImputer(standardise=True), SoftImputer(standardise=True)
        plain.fit(holes)
        scaled.fit(holes * scale + shift)
        for rows in (holes, table(5, 12, seed=1)[1]):
            units = plain.transform(rows) * scale + shift
            np.testing.assert_allclose(scaled.transform(rows * scale + shift), units, rtol=1e-6)
        np.testing.assert_allclose(plain.mean_, np.nanmean(holes, 0))
        np.testing.assert_allclose(plain.scale_, np.nanstd(holes, 0))
        holes[:, 4] = np.where(np.isnan(holes[:, 4]), np.nan, 0.1)  # a constant column stays constant
        np.testing.assert_allclose(plain.fit_transform(holes)[:, 4], 0.1, atol=1e-5)

    def test_clip_bounds_what_is_filled(self) -> None:
        free, bound = (LowRankImputer(HardImpute(rank=2, clip=clip)) for clip in (None, (0, np.inf)))
        _, holes = table()
        missing, before = np.isnan(holes), holes.copy()
        filled = bound.fit_transform(holes)
        np.testing.assert_array_equal(filled[missing], np.maximum(free.fit_transform(holes)[missing], 0))
        np.testing.assert_array_equal(bound.transform(holes)[missing], np.maximum(free.transform(holes)[missing], 0))
        assert np.array_equal(filled[~missing], holes[~missing])
        assert (filled[~missing] < 0).any()
        assert np.array_equal(holes, before, equal_nan=True)

    def test_a_number_may_mark_the_gaps_and_lists_are_tables(self) -> None:
        _, holes = table()
        numbered = np.where(np.isnan(holes), -999, holes)
        imputer = SoftImputer(missing_values=-999)
        np.testing.assert_array_equal(imputer.fit_transform(numbered), SoftImputer().fit_transform(holes))
        assert (imputer.transform(numbered) > -999).all()
        with pytest.raises(ValueError, match="NaN"):
            imputer.fit(holes)
        np.testing.assert_array_equal(imputer.fit_transform(numbered.tolist()), SoftImputer().fit_transform(holes))

    def test_an_empty_column_is_dropped_or_zero_as_in_simple_imputer(self) -> None:
        _, holes = table()
        holes[:, 2] = np.nan
        full = np.arange(24.0).reshape(2, 12)
        frame = pd.DataFrame(holes, columns=[f"c{i}" for i in range(12)])
        dropping = SoftImputer()
        with pytest.warns(UserWarning, match="c2"):
            filled = dropping.fit_transform(frame)
        assert filled.shape == (60, 11)
        assert list(dropping.get_feature_names_out()) == [f"c{i}" for i in range(12) if i != 2]
        np.testing.assert_array_equal(filled, SoftImputer().fit_transform(np.delete(holes, 2, 1)))
        keeping = SoftImputer(keep_empty_features=True).fit(holes)
        for given in (holes, full):
            theirs = SimpleImputer(keep_empty_features=True).fit(holes).transform(given)
            np.testing.assert_array_equal(keeping.transform(given)[:, 2], theirs[:, 2])

    def test_frames_come_back_as_frames(self) -> None:
        _, holes = table()
        frame = pd.DataFrame(holes, columns=list("abcdefghijkl"), index=[f"r{i}" for i in range(60)])
        for given in (frame, frame.convert_dtypes()):  # the second with pandas's own mark of a gap
            filled = SoftImputer().set_output(transform="pandas").fit_transform(given)
            assert list(filled.columns) == list(frame.columns)
            assert list(filled.index) == list(frame.index)
            np.testing.assert_array_equal(filled, SoftImputer().fit_transform(holes))


def spoilt(observed, *, start=None, generator=None):
    estimate = RowMean()(observed)
    estimate.matrix[0, 0] = np.nan
    return estimate


INFINITE = table()[1]
INFINITE[0, 0] = np.inf


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda X: SoftImputer().fit(np.full((3, 2), np.nan)), ValueError, "needs an observed entry"),
        (lambda X: SoftImputer().fit(INFINITE), ValueError, "infinity"),
        (lambda X: SoftImputer().fit(csr_array(np.eye(3))), TypeError, r"is sparse. Give its .toarray\(\), with nan"),
        (lambda X: SoftImputer(ratio=-1).fit(X), ValueError, "ratio above 0"),
        (lambda X: SoftImputer(output="guess").fit(X), ValueError, "no output 'guess'"),
        (lambda X: LowRankImputer("soft").fit(X), ValueError, r"an estimator such as FactorALS\(\), got 'soft'"),
        (lambda X: LowRankImputer(spoilt).fit(X), ValueError, "no finite estimate"),
        (lambda X: SoftImputer().transform(X), NotFittedError, "not fitted"),
        (lambda X: held_out_score(SoftImputer().fit(X), X, fraction=1.5), ValueError, "between 0 and 1"),
        (
            lambda X: held_out_score(SoftImputer().fit(X), np.where(np.eye(12, dtype=bool), 1.0, np.nan)),
            ValueError,
            "nothing to hide",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, error, said) -> None:
    with pytest.raises(error, match=said):
        call(table()[1])


def test_running_out_of_steps_is_a_warning() -> None:
    imputer = SoftImputer(max_steps=1)
    with pytest.warns(ConvergenceWarning, match="Ran out of steps"):
        imputer.fit(table()[1])
    assert not imputer.converged_
    assert imputer.outcome_ is Outcome.OUT_OF_STEPS


class TestScikitLearn:
    def test_leaves_the_global_random_state_alone(self) -> None:
        _, holes = table(200, 150, share=0.5)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        for imputer in (LowRankImputer(), SoftImputer(ratio=0.2)):
            first = imputer.fit_transform(holes)
            assert np.array_equal(first, imputer.fit_transform(holes))
            held_out_score(imputer, holes)
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    def test_pipeline_and_column_transformer(self) -> None:
        truth, holes = table(100, 12, noise=0.0)
        target = truth @ np.arange(12.0)
        model = make_pipeline(LowRankImputer(FactorALS(rank=4, ratio=1e-6, tolerance=1e-6)), LinearRegression())
        assert model.fit(holes[:70], target[:70]).score(holes[70:], target[70:]) > 0.99
        frame = pd.DataFrame(holes, columns=list("abcdefghijkl"))
        split = ColumnTransformer(
            [("some", SoftImputer(), list("abcdef")), ("others", LowRankImputer(RowMean()), list("ghijkl"))],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas")
        filled = split.fit_transform(frame)
        assert list(filled.columns) == list(frame.columns)
        np.testing.assert_array_equal(filled[list("abcdef")], SoftImputer().fit_transform(holes[:, :6]))

    def test_grid_search_on_hidden_entries_finds_the_rank(self) -> None:
        truth, _ = table(150, 20, noise=0.05)
        # Gaps as a user makes them, of the seed that hides.
        holes = np.where(np.random.default_rng(0).random(truth.shape) < 0.3, np.nan, truth)
        ranks = [HardImpute(rank=rank, tolerance=1e-3) for rank in (1, 2, 4, 8)]
        search = GridSearchCV(LowRankImputer(), {"estimator": ranks}, scoring=held_out_score, cv=3).fit(holes)
        assert search.best_params_ == {"estimator": ranks[2]}
        assert search.best_score_ > -0.2


class TestHeldOutScore:
    def test_is_0_for_the_truth_and_minus_1_for_zeros(self) -> None:
        same = np.repeat(np.arange(1.0, 9.0)[:, None], 6, 1)
        assert held_out_score(LowRankImputer(RowMean()).fit(same), same) == pytest.approx(0, abs=1e-14)
        zeros = SimpleImputer(strategy="constant", fill_value=0).fit(same)
        assert held_out_score(zeros, same) == pytest.approx(-1)

    def test_compares_hidden_entries_only_and_no_gap_of_the_same_seed(self) -> None:
        full, _ = table(200, 30)
        holes = np.where(np.random.default_rng(0).random(full.shape) < 0.3, np.nan, full)
        seen = []

        class Watching(LowRankImputer):
            def transform(self, X):
                seen.append(np.isnan(X))
                return super().transform(X)

        score = held_out_score(Watching(RowMean()).fit(holes), holes)
        known = ~np.isnan(holes)
        hidden = seen[0] & known
        assert hidden.sum() / known.sum() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / known.sum()))
        assert (~seen[0]).any(1).all()
        guess = np.repeat(np.nanmean(np.where(hidden, np.nan, holes), 1, keepdims=True), 30, 1)
        assert score == pytest.approx(-np.linalg.norm((guess - holes)[hidden]) / np.linalg.norm(holes[hidden]))
