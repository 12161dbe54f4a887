"""The imputers against scikit-learn's own checks, against the estimators they wrap, and against fancyimpute."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.integrations.imputer_tables import IMPUTERS, PAIRS, apart, table, whole

from benchmarks.authors import fancy_soft_impute
from svrl.integrations.scikit_learn import (
    FactorImputer,
    HardImputer,
    NuclearNormImputer,
    RowMeanImputer,
    SoftImputer,
    USVTImputer,
    held_out_score,
)
from svrl.integrations.scikit_learn_base import LowRankImputer
from svrl.matrix import Observed, Outcome, RowMean, complete

DEFAULTS = [SoftImputer(), FactorImputer(), HardImputer(), NuclearNormImputer(), USVTImputer(), RowMeanImputer()]


@parametrize_with_checks(
    [
        *DEFAULTS,
        *map(whole, DEFAULTS),
        SoftImputer.authors(centre="row"),
        SoftImputer(missing_values=-1, standardise=True),
    ]
)
def test_scikit_learns_checks(estimator: LowRankImputer, check) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore:X .*feature names")
@pytest.mark.parametrize("imputer", DEFAULTS, ids=lambda imputer: type(imputer).__name__)
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_dataframe_column_names_consistency,
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_transformer_get_feature_names_out_pandas,
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_global_output_transform_pandas,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learns_checks_of_frames(imputer: LowRankImputer, check) -> None:
    check(type(imputer).__name__, imputer)


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
        assert found.converged_ is own.converged
        assert found.shrinkage_ == (None if own.shrinkage is None else float(own.shrinkage))

    def test_is_complete(self) -> None:
        _, holes = table()
        imputer = FactorImputer(output="estimate")
        assert np.array_equal(imputer.fit_transform(holes), complete(holes).matrix)
        assert imputer.held_out_ == float(complete(holes).held_out)

    @pytest.mark.parametrize("shape", [(32, 18), (18, 32), (64, 6)])
    @pytest.mark.parametrize("share", [0.5, 0.9])
    def test_agrees_with_fancyimpute(self, shape, share) -> None:
        _, holes = table(*shape, share=share)
        # fancyimpute draws its own largest singular value at random, so both are told the shrinkage.
        shrinkage = np.linalg.norm(np.nan_to_num(holes), 2) / 50
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = fancy_soft_impute(holes.copy(), shrinkage=shrinkage)
            ours = SoftImputer.authors(shrinkage=shrinkage).fit_transform(holes)
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()

    @pytest.mark.parametrize("imputer", [FactorImputer(), NuclearNormImputer(), HardImputer(rank=4)])
    def test_recovers_a_table_of_low_rank(self, imputer) -> None:
        truth, holes = table(80, 30, noise=0.0)
        missing = np.isnan(holes)
        assert apart(imputer.fit_transform(holes), truth, missing) < 5e-3
        assert apart(RowMeanImputer().fit_transform(holes), truth, missing) > 0.5

    def test_keeps_what_was_observed_and_what_it_was_given(self) -> None:
        _, holes = table()
        before = holes.copy()
        filled = SoftImputer(clip=(-0.5, 0.5), standardise=True).fit_transform(holes)
        assert np.array_equal(holes, before, equal_nan=True)
        assert np.array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])


class TestTables:
    def test_standardising_makes_units_of_no_account(self) -> None:
        _, holes = table()
        scale, shift = 10.0 ** np.arange(-6, 6), 100.0 * np.arange(12)
        plain = SoftImputer(standardise=True)
        scaled = SoftImputer(standardise=True)
        np.testing.assert_allclose(
            scaled.fit_transform(holes * scale + shift), plain.fit_transform(holes) * scale + shift, rtol=1e-6
        )
        new = table(5, 12, seed=1)[1]
        np.testing.assert_allclose(
            scaled.transform(new * scale + shift), plain.transform(new) * scale + shift, rtol=1e-6
        )
        np.testing.assert_allclose(plain.mean_, np.nanmean(holes, 0))
        np.testing.assert_allclose(plain.scale_, np.nanstd(holes, 0))

    def test_a_constant_column_stays_constant(self) -> None:
        _, holes = table()
        holes[:, 4] = np.where(np.isnan(holes[:, 4]), np.nan, 0.1)
        filled = SoftImputer(standardise=True).fit_transform(holes)
        np.testing.assert_allclose(filled[:, 4], 0.1, atol=1e-5)

    def test_clip_bounds_what_is_filled(self) -> None:
        _, holes = table()
        missing = np.isnan(holes)
        free, bound = SoftImputer(), SoftImputer(clip=(0, np.inf))
        np.testing.assert_array_equal(
            bound.fit_transform(holes)[missing], np.maximum(free.fit_transform(holes)[missing], 0)
        )
        np.testing.assert_array_equal(bound.transform(holes)[missing], np.maximum(free.transform(holes)[missing], 0))
        assert (bound.transform(holes)[~missing] < 0).any()

    def test_a_number_may_mark_the_gaps(self) -> None:
        _, holes = table()
        numbered = np.where(np.isnan(holes), -999, holes)
        imputer = SoftImputer(missing_values=-999)
        np.testing.assert_array_equal(imputer.fit_transform(numbered), SoftImputer().fit_transform(holes))
        assert (imputer.transform(numbered) > -999).all()
        with pytest.raises(ValueError, match="NaN"):
            imputer.fit(holes)

    def test_whole_numbers_and_lists_are_tables(self) -> None:
        rows = [[1, 2, -1], [2, 4, 6], [3, -1, 9], [4, 8, 12]]
        filled = NuclearNormImputer(missing_values=-1).fit_transform(rows)
        np.testing.assert_allclose(filled, np.outer([1, 2, 3, 4], [1, 2, 3]), atol=1e-3)

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

    def test_empty_rows_are_allowed(self) -> None:
        _, holes = table()
        holes[5] = np.nan
        for imputer in IMPUTERS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                assert np.isfinite(clone(imputer).fit_transform(holes)).all()

    def test_frames_come_back_as_frames(self) -> None:
        _, holes = table()
        frame = pd.DataFrame(holes, columns=list("abcdefghijkl"), index=[f"r{i}" for i in range(60)])
        imputer = SoftImputer().set_output(transform="pandas")
        for filled in (imputer.fit_transform(frame), imputer.transform(frame)):
            assert list(filled.columns) == list(frame.columns)
            assert list(filled.index) == list(frame.index)
        np.testing.assert_array_equal(imputer.fit_transform(frame), SoftImputer().fit_transform(holes))
        nullable = frame.convert_dtypes()
        assert nullable.isna().to_numpy().any()
        np.testing.assert_array_equal(imputer.fit_transform(nullable), SoftImputer().fit_transform(holes))


class TestRefusals:
    def test_nothing_observed(self) -> None:
        with pytest.raises(ValueError, match="needs an observed entry"):
            SoftImputer().fit(np.full((3, 2), np.nan))

    def test_infinity(self) -> None:
        _, holes = table()
        holes[0, 0] = np.inf
        with pytest.raises(ValueError, match="infinity"):
            SoftImputer().fit(holes)

    def test_sparse_tables(self) -> None:
        with pytest.raises(TypeError, match=r"csr_array is sparse. Give its .toarray\(\), with nan for"):
            SoftImputer().fit(csr_array(np.eye(3)))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"ratio": -1}, "ratio above 0"),
            ({"output": "guess"}, "no output 'guess'"),
            ({"centre": "column"}, "no centre 'column'"),
            ({"clip": (1, 0)}, "low < high"),
            ({"solver": "magic"}, "no solver"),
            ({"missing_values": "?"}, "NaN or a number"),
            ({"random_state": "lucky"}, "random_state"),
            ({"standardise": "yes"}, "standardise as True or False, got 'yes'"),
            ({"keep_empty_features": None}, "keep_empty_features as True or False, got None"),
        ],
    )
    def test_bad_parameters_when_they_are_used(self, changes, said) -> None:
        imputer = SoftImputer(**changes)
        with pytest.raises(ValueError, match=said):
            imputer.fit(table()[1])

    def test_running_out_of_steps_is_a_warning(self) -> None:
        imputer = SoftImputer(max_steps=1)
        with pytest.warns(ConvergenceWarning, match="Ran out of steps"):
            imputer.fit(table()[1])
        assert not imputer.converged_
        assert imputer.outcome_ is Outcome.OUT_OF_STEPS

    def test_numbers_that_are_not_finite_are_an_error(self) -> None:
        class Broken(RowMeanImputer):
            def _estimator(self):
                def spoil(observed, *, start=None, generator=None):
                    estimate = RowMean()(observed)
                    estimate.matrix[0, 0] = np.nan
                    return estimate

                return spoil

        with pytest.raises(ValueError, match="no finite estimate"):
            Broken().fit(table()[1])


class TestScikitLearn:
    @pytest.mark.parametrize("imputer", IMPUTERS, ids=PAIRS)
    def test_pickles(self, imputer) -> None:
        _, holes = table()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            imputer = clone(imputer).fit(holes)
        again = pickle.loads(pickle.dumps(imputer))
        np.testing.assert_array_equal(again.transform(holes), imputer.transform(holes))
        assert again.outcome_ is imputer.outcome_

    def test_leaves_the_global_random_state_alone(self) -> None:
        _, holes = table(200, 150, share=0.5)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        for imputer in (FactorImputer(), SoftImputer(ratio=0.2)):
            first = imputer.fit_transform(holes)
            assert np.array_equal(first, imputer.fit_transform(holes))
            held_out_score(imputer, holes)
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    def test_random_state_decides_what_is_hidden(self) -> None:
        _, holes = table(noise=0.5)

        def held_out(state):
            return FactorImputer(random_state=state).fit(holes).held_out_

        assert held_out(1) == held_out(1) == held_out(np.int64(1)) == held_out(np.random.default_rng(1))
        assert held_out(np.random.RandomState(1)) == held_out(np.random.RandomState(1))
        assert len({held_out(seed) for seed in range(4)}) > 1

    def test_pipeline_and_column_transformer(self) -> None:
        truth, holes = table(100, 12, noise=0.0)
        target = truth @ np.arange(12.0)
        model = make_pipeline(FactorImputer(rank=4, ratio=1e-6, tolerance=1e-6), LinearRegression())
        assert model.fit(holes[:70], target[:70]).score(holes[70:], target[70:]) > 0.99
        frame = pd.DataFrame(holes, columns=list("abcdefghijkl"))
        split = ColumnTransformer(
            [("some", SoftImputer(), list("abcdef")), ("others", RowMeanImputer(), list("ghijkl"))],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas")
        filled = split.fit_transform(frame)
        assert list(filled.columns) == list(frame.columns)
        np.testing.assert_array_equal(filled[list("abcdef")], SoftImputer().fit_transform(holes[:, :6]))

    def test_grid_search_on_hidden_entries_finds_the_rank(self) -> None:
        _, holes = table(150, 20, noise=0.05)
        search = GridSearchCV(HardImputer(tolerance=1e-3), {"rank": [1, 2, 4, 8]}, scoring=held_out_score, cv=3)
        assert search.fit(holes).best_params_ == {"rank": 4}
        assert search.best_score_ > -0.2

    def test_grid_search_on_gaps_of_the_seed_that_hides(self) -> None:
        source = np.random.default_rng(1)
        holes = source.normal(size=(150, 4)) @ source.normal(size=(4, 20)) + 0.05 * source.normal(size=(150, 20))
        holes[np.random.default_rng(0).random(holes.shape) < 0.3] = np.nan  # as a user makes gaps
        search = GridSearchCV(HardImputer(tolerance=1e-3), {"rank": [1, 2, 4, 8]}, scoring=held_out_score, cv=3)
        assert search.fit(holes).best_params_ == {"rank": 4}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


class TestHeldOutScore:
    def test_is_0_for_the_truth_and_minus_1_for_zeros(self) -> None:
        same = np.repeat(np.arange(1.0, 9.0)[:, None], 6, 1)
        assert held_out_score(RowMeanImputer().fit(same), same) == 0
        zeros = SimpleImputer(strategy="constant", fill_value=0).fit(same)
        assert held_out_score(zeros, same) == pytest.approx(-1)

    def test_compares_hidden_entries_only(self) -> None:
        _, holes = table()
        seen = []

        class Watching(RowMeanImputer):
            def transform(self, X):
                seen.append(np.isnan(X))
                return super().transform(X)

        score = held_out_score(Watching().fit(holes), holes, fraction=0.3, random_state=3)
        hidden = seen[0] & ~np.isnan(holes)
        assert 0.2 < hidden.sum() / (~np.isnan(holes)).sum() < 0.4
        assert (~seen[0]).any(1).all()
        shown = np.where(hidden, np.nan, holes)
        guess = np.repeat(np.nanmean(shown, 1, keepdims=True), 12, 1)
        assert score == pytest.approx(-apart(guess, holes, hidden))

    @pytest.mark.parametrize("seed", [0, 5])
    def test_hides_as_much_where_the_same_seed_made_the_gaps(self, seed: int) -> None:
        full, _ = table(200, 30)
        gaps = np.random.default_rng(seed).random(full.shape) < 0.3
        seen = []

        class Watching(RowMeanImputer):
            def transform(self, X):
                seen.append(np.isnan(X))
                return super().transform(X)

        holes = np.where(gaps, np.nan, full)
        held_out_score(Watching().fit(holes), holes, random_state=seed)
        share = (seen[0] & ~gaps).sum() / (~gaps).sum()
        assert share == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / (~gaps).sum()))

    def test_random_state(self) -> None:
        _, holes = table()
        imputer = RowMeanImputer().fit(holes)

        def score(state):
            return held_out_score(imputer, holes, random_state=state)

        assert score(None) == score(0) == score(np.int64(0)) == held_out_score(imputer, holes)
        assert score(np.random.RandomState(3)) == score(np.random.RandomState(3))
        assert len({score(state) for state in (0, 1, 2, np.random.default_rng(0))}) == 4
        with pytest.raises(ValueError, match="random_state must be"):
            score("lucky")

    def test_frames_and_other_marks(self) -> None:
        _, holes = table()
        frame = pd.DataFrame(holes, columns=list("abcdefghijkl"))
        numbered = np.where(np.isnan(holes), -999, holes)
        wanted = held_out_score(SoftImputer().fit(holes), holes)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # scikit-learn warns where names are lost
            framed = SoftImputer().set_output(transform="pandas").fit(frame)
            assert held_out_score(framed, frame) == wanted
        assert held_out_score(SoftImputer(missing_values=-999).fit(numbered), numbered) == wanted

    def test_refuses_what_it_cannot_judge(self) -> None:
        _, holes = table()
        imputer = SoftImputer().fit(holes)
        with pytest.raises(ValueError, match="between 0 and 1"):
            held_out_score(imputer, holes, fraction=1.5)
        with pytest.raises(ValueError, match="nothing to hide"):
            held_out_score(imputer, np.where(np.eye(12, dtype=bool), 1.0, np.nan))
        holes[:, 2] = np.nan
        with pytest.warns(UserWarning, match="drops"):
            dropping = SoftImputer().fit(holes)
        with pytest.raises(ValueError, match="keep_empty_features=True"):
            held_out_score(dropping, holes)
