"""What the imputers say of rows, those they were fitted to and new ones: against the problems that the rows solve."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.integrations.imputer_tables import IMPUTERS, PAIRS, apart, table, whole

from svrl.integrations import new_rows
from svrl.integrations.scikit_learn import (
    FactorImputer,
    HardImputer,
    NuclearNormImputer,
    RowMeanImputer,
    SoftImputer,
    USVTImputer,
)

EXACT = {"tolerance": 1e-11, "max_steps": 20_000}


@pytest.mark.parametrize("centre", ["none", "mean", "midrange", "row"])
@pytest.mark.parametrize(
    "imputer",
    [
        SoftImputer(**EXACT),
        SoftImputer(ratio=0.3, solver="path", **EXACT),
        FactorImputer(rank=4, ratio=1e-2, **EXACT),
        HardImputer(rank=3, **EXACT),
        NuclearNormImputer(weight=2.0, **EXACT),
    ],
    ids=["soft", "path", "factor", "hard", "nuclear"],
)
def test_transform_gives_the_fitted_rows_back_at_the_minimiser(imputer, centre) -> None:
    _, holes = table(30, 8, share=0.9)
    imputer = whole(imputer).set_params(centre=centre, standardise=centre == "none")
    np.testing.assert_allclose(imputer.fit_transform(holes), imputer.transform(holes), atol=2e-6)


@pytest.mark.parametrize("imputer", [USVTImputer(), USVTImputer(standardise=True), RowMeanImputer()])
def test_transform_gives_the_fitted_rows_back_where_nothing_is_minimised(imputer) -> None:
    _, holes = table(share=0.9)
    holes[3] = np.nan
    imputer = whole(imputer)
    np.testing.assert_allclose(imputer.fit_transform(holes), imputer.transform(holes), atol=1e-12)
    assert imputer.rank_ > 0


@pytest.mark.parametrize("name", PAIRS)
def test_transform_is_near_the_fit_with_the_defaults(name) -> None:
    _, holes = table(noise=0.3)
    imputer = clone(PAIRS[name][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(holes)
    # The authors' rule stops long before the minimiser.
    assert apart(imputer.transform(holes), filled, np.isnan(holes)) < (0.05 if name == "authors" else 2e-3)


@pytest.mark.parametrize("imputer", [SoftImputer(ratio=0.05), FactorImputer(rank=3), NuclearNormImputer(weight=3)])
def test_transform_solves_the_ridge_problem_of_each_new_row(imputer) -> None:
    _, holes = table()
    _, new = table(20, 12, seed=1)
    fitted = whole(imputer)
    estimate = fitted.fit_transform(holes)
    _, s, v = np.linalg.svd(estimate, full_matrices=False)
    s, v = s[: fitted.rank_], v[: fitted.rank_]
    found = fitted.transform(new)
    for row, answer in zip(new, found, strict=True):
        seen = ~np.isnan(row)
        # The minimiser of |V_o c - x_o|^2 + t sum c^2 / s, as least squares of one stacked system.
        system = np.vstack([v[:, seen].T, np.diag(np.sqrt(fitted.shrinkage_ / s))])
        target = np.concatenate([row[seen], np.zeros(len(s))])
        np.testing.assert_allclose(answer, np.linalg.lstsq(system, target)[0] @ v, atol=1e-7)


def test_the_penalty_bounds_what_a_row_adds_to_the_nuclear_norm() -> None:
    rng = np.random.default_rng(0)
    imputer = SoftImputer(output="estimate").fit(table()[1])
    s, v = imputer.singular_values_, imputer.components_
    for size in (1e-3, 1.0, 30.0):
        c = size * rng.normal(size=len(s))
        grown = np.linalg.svd(np.vstack([np.diag(s) @ v, c @ v]), compute_uv=False).sum() - s.sum()
        penalty = (c**2 / s).sum() / 2
        assert grown <= penalty * (1 + 1e-9)
        assert size > 1e-3 or grown == pytest.approx(penalty, rel=1e-3)


@pytest.mark.parametrize("rows", [50, 800])
def test_transform_nears_a_fit_with_the_new_row_among_the_others(rows) -> None:
    _, holes = table(rows + 1, 12)
    shrinkage = 0.05 * np.linalg.norm(np.nan_to_num(holes), 2)
    imputer = SoftImputer(shrinkage=shrinkage, output="estimate", tolerance=1e-8)
    together = imputer.fit_transform(holes)[-1]
    alone = imputer.fit(holes[:-1]).transform(holes[-1:])[0]
    assert np.linalg.norm(alone - together) < 3 / rows * np.linalg.norm(together)


def test_a_ridge_of_factors_is_the_shrinkage_of_the_nuclear_norm() -> None:
    _, holes = table()
    _, new = table(20, 12, seed=1)
    soft = SoftImputer(shrinkage=8.0, **EXACT).fit(holes)
    factor = FactorImputer(rank=soft.rank_ + 1, ridge=8.0, **EXACT).fit(holes)
    np.testing.assert_allclose(soft.transform(new), factor.transform(new), atol=1e-6)


def test_transform_recovers_new_rows_of_low_rank() -> None:
    truth, holes = table(120, 20, noise=0.0, share=0.6)
    missing = np.isnan(holes[80:])
    # Around 1 with rank 3: rank 4. A row with fewer than 8 entries would be a gamble.
    enough = missing & ((~missing).sum(1, keepdims=True) >= 8)
    for imputer in (FactorImputer(rank=4, ratio=1e-6, tolerance=1e-8), HardImputer(rank=4, tolerance=1e-9)):
        recovered = imputer.fit(holes[:80]).transform(holes[80:])
        assert apart(recovered, truth[80:], enough) < 1e-3


def test_least_squares_take_the_shortest_of_many_answers() -> None:
    rng = np.random.default_rng(0)
    v = np.linalg.qr(rng.normal(size=(10, 4)))[0].T
    mask = np.zeros((3, 10), bool)
    mask[1, [2, 7]], mask[2, :6] = True, True
    x = np.where(mask, rng.normal(size=(3, 10)), 0)
    found = new_rows.rows_by_least_squares(x, mask, v)
    wanted = [np.linalg.pinv(v[:, seen].T) @ row[seen] @ v for row, seen in zip(x, mask, strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.parametrize("imputer", IMPUTERS, ids=PAIRS)
def test_transform_takes_each_row_by_itself(imputer) -> None:
    _, new = table(9, 12, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer = clone(imputer).fit(table()[1])
    one_by_one = np.vstack([imputer.transform(new[[i]]) for i in range(len(new))])
    np.testing.assert_allclose(imputer.transform(new), one_by_one, atol=1e-12)


def test_transform_in_blocks_is_the_same(monkeypatch) -> None:
    _, new = table(50, 12, seed=1)
    imputer = SoftImputer().fit(table()[1])
    at_once = imputer.transform(new)
    monkeypatch.setattr(new_rows, "BLOCK_ENTRIES", 200)
    np.testing.assert_allclose(imputer.transform(new), at_once, atol=1e-12)


@pytest.mark.parametrize(("centre", "wanted"), [("none", 0.0), ("mean", None), ("row", None)])
def test_an_empty_row_gets_the_centre(centre, wanted) -> None:
    _, holes = table()
    nothing = np.full((1, 12), np.nan)
    imputer = SoftImputer(centre=centre).fit(holes)
    np.testing.assert_allclose(imputer.transform(nothing), np.nanmean(holes) if wanted is None else wanted)


def test_rank_zero_is_no_error() -> None:
    _, holes = table()
    imputer = SoftImputer(shrinkage=1e6)
    assert (imputer.fit_transform(holes)[np.isnan(holes)] == 0).all()
    assert imputer.rank_ == 0
    assert (imputer.transform(holes)[np.isnan(holes)] == 0).all()


def test_transform_needs_a_fit() -> None:
    with pytest.raises(NotFittedError):
        SoftImputer().transform(table()[1])
