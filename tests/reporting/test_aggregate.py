"""Aggregates over games and seeds, against closed forms, SciPy and rliable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from svrl.reporting.aggregate import (
    Statistic,
    band,
    interval,
    iqm,
    mean_score,
    median_score,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    rank_correlation,
    rank_correlation_interval,
)

STATISTICS = [iqm, median_score, mean_score, optimality_gap]
THRESHOLDS = np.array([0.25, 0.5, 1.0, 2.0])

# What rliable 1.2.0 says of ours() and theirs(), with arch 7.2.0, pandas 2.3.3, NumPy 2.4.6 and SciPy 1.17.1. Intervals
# have 50000 resamples, that of the probability of improvement 10000.
RLIABLE_POINTS = [0.7523333333333334, 0.7355, 0.8608333333333332, 0.3131666666666667]
RLIABLE_IMPROVEMENT = 0.5841666666666666
RLIABLE_IQM_OF_35 = 0.6826315789473686
RLIABLE_PROFILE = [0.8833333333333333, 0.7, 0.2833333333333333, 0.05]
RLIABLE_INTERVALS = [(0.6290, 0.8977), (0.6500, 0.9200), (0.7225, 1.0108), (0.2423, 0.3860)]
RLIABLE_IMPROVEMENT_INTERVAL = (0.4808, 0.6883)
RLIABLE_BAND = [[0.8, 0.5833, 0.1833, 0.0], [0.95, 0.8, 0.4, 0.1]]


def two_algorithms() -> tuple[np.ndarray, np.ndarray]:
    """(10 runs, 6 games) each, skewed, with ties."""
    rng = np.random.default_rng(7)
    return np.round(rng.gamma(2.0, 0.5, size=(10, 6)), 2), np.round(rng.gamma(2.0, 0.4, size=(10, 6)), 2)


def ours() -> np.ndarray:
    return two_algorithms()[0]


def theirs() -> np.ndarray:
    return two_algorithms()[1]


def test_the_recipe_still_gives_the_scores_that_rliable_saw() -> None:
    np.testing.assert_array_equal(ours()[0], [0.83, 0.67, 0.57, 0.87, 0.55, 1.19])


# Point estimates


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqm(np.arange(100.0).reshape(10, 10)) == pytest.approx(49.5)
    skewed = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1000.0])
    assert iqm(skewed.reshape(2, 4)) == pytest.approx((2 + 3 + 4 + 5) / 4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 3), (7, 5), (2, 4)])
def test_iqm_cuts_as_scipy_does(shape: tuple[int, int]) -> None:
    scores = np.random.default_rng(0).normal(size=shape)
    assert iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None), abs=1e-14)


def test_median_mean_and_gap_by_hand() -> None:
    scores = np.array([[0.0, 1.0, 5.0], [2.0, 3.0, 9.0]])  # means of the games: 1, 2, 7
    assert median_score(scores) == pytest.approx(2.0)
    assert mean_score(scores) == pytest.approx(10 / 3)
    assert optimality_gap(scores) == pytest.approx(1 / 6)
    assert optimality_gap(scores, target=4.0) == pytest.approx((4 + 2 + 3 + 1) / 6)


def test_improvement_of_equal_and_of_separated_scores() -> None:
    scores = ours()
    assert probability_of_improvement(scores, scores) == pytest.approx(0.5)
    assert probability_of_improvement(scores + 100, scores) == 1.0
    assert probability_of_improvement(scores, scores + 100) == 0.0
    assert probability_of_improvement(np.ones((3, 2)), np.ones((5, 2))) == 0.5


def test_improvement_counts_pairs_with_ties_half() -> None:
    first, second = np.array([[1.0], [2.0]]), np.array([[2.0], [0.0], [1.0]])
    assert probability_of_improvement(first, second) == pytest.approx((1.5 + 2.5) / 6)


def test_improvement_is_the_statistic_of_mann_and_whitney() -> None:
    first, second = ours()[:7], theirs()
    expected = [stats.mannwhitneyu(first[:, game], second[:, game]).statistic / 70 for game in range(6)]
    assert probability_of_improvement(first, second) == pytest.approx(np.mean(expected))
    assert probability_of_improvement(second, first) == pytest.approx(1 - np.mean(expected))


def test_profile_is_the_share_strictly_above() -> None:
    scores = np.array([[0.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(performance_profile(scores, np.array([-1.0, 0.0, 1.0, 2.0])), [1, 0.75, 0.25, 0])


def test_profile_integrates_to_the_mean() -> None:
    grid = np.arange(0.0, 10.0, 0.01)  # scores are multiples of 0.01, so that the sum is exact
    assert performance_profile(ours(), grid + 0.005).sum() * 0.01 == pytest.approx(mean_score(ours()))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_leading_axes_are_batches(statistic: Statistic) -> None:
    batch = np.random.default_rng(1).normal(size=(2, 3, 5, 4))
    each = np.array([[statistic(batch[i, j]) for j in range(3)] for i in range(2)])
    np.testing.assert_allclose(statistic(batch), each, rtol=0, atol=1e-14)
    improvement = probability_of_improvement(batch, batch[:, :, :2])
    assert improvement[1, 2] == pytest.approx(probability_of_improvement(batch[1, 2], batch[1, 2, :2]))
    profile = performance_profile(batch, THRESHOLDS)
    np.testing.assert_allclose(profile[1, 2], performance_profile(batch[1, 2], THRESHOLDS))


# Games with different numbers of runs


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_list_of_games_is_the_same_as_an_array(statistic: Statistic) -> None:
    games = list(ours().T)
    assert statistic(games) == statistic(ours())
    assert interval(statistic, games) == interval(statistic, ours())
    assert probability_of_improvement(games, theirs()) == probability_of_improvement(ours(), theirs())


@pytest.mark.parametrize("statistic", STATISTICS)
def test_games_weigh_the_same_however_many_runs_they_have(statistic: Statistic) -> None:
    games = list(np.random.default_rng(2).normal(size=(4, 8)))
    more = [np.tile(games[0], 3), *games[1:]]  # 48 runs; 32 and 48 are both multiples of 4
    assert statistic(more) == pytest.approx(statistic(games), abs=1e-12)
    np.testing.assert_allclose(performance_profile(more, THRESHOLDS), performance_profile(games, THRESHOLDS))


def test_uneven_iqm_by_hand() -> None:
    # Weights 1/2, 1/6, 1/6, 1/6 in the order of the scores; a quarter is cut from the first, and from the last two.
    uneven = [np.array([0.0]), np.array([6.0, 12.0, 18.0])]
    assert iqm(uneven) == pytest.approx((0.25 * 0 + 6 / 6 + 12 / 12) / 0.5)


# Intervals


@pytest.mark.parametrize(("level", "expected"), [(0.95, (0.0, 1.0)), (0.4, (0.5, 0.5))])
def test_interval_of_two_runs_is_known(level: float, expected: tuple[float, float]) -> None:
    # The mean of two draws from {0, 1} is 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert interval(mean_score, np.array([[0.0], [1.0]]), level=level) == expected


def test_width_for_the_mean_is_that_of_the_bootstrap_variance() -> None:
    scores = np.random.default_rng(3).normal(size=(20, 8)) * np.arange(1, 9)
    deviation = np.sqrt((scores.var(axis=0) / 20).sum()) / 8  # games are drawn independently: variances add
    low, high = interval(mean_score, scores, resamples=20_000)
    assert high - low == pytest.approx(2 * stats.norm.ppf(0.975) * deviation, rel=0.03)
    assert (low + high) / 2 == pytest.approx(mean_score(scores), abs=0.1 * deviation)


def test_sets_of_scores_are_drawn_independently() -> None:
    # If both were drawn alike, the difference of a set and itself would have no width.
    scores = ours()
    low, high = interval(lambda x, y: mean_score(x) - mean_score(y), scores, scores, resamples=20_000)
    deviation = np.sqrt(2 * (scores.var(axis=0) / 10).sum()) / 6
    assert high - low == pytest.approx(2 * stats.norm.ppf(0.975) * deviation, rel=0.03)


@pytest.mark.parametrize("statistic", [mean_score, iqm])
def test_a_95_percent_interval_holds_about_as_often(statistic: Statistic) -> None:
    rng = np.random.default_rng(4)
    centres = np.array([0.0, 0.4, 0.8, 1.2, 1.6, 2.0])  # symmetric about 1, the true mean and interquartile mean
    held = 0
    for seed in range(300):
        low, high = interval(statistic, rng.normal(centres, 0.5, size=(10, 6)), resamples=400, seed=seed)
        held += low <= 1.0 <= high
    assert 0.89 <= held / 300 <= 0.98  # 10 runs: a little less than 0.95


def test_interval_of_the_improvement_holds_about_as_often() -> None:
    rng = np.random.default_rng(5)
    truth = stats.norm.cdf(0.6 / np.sqrt(2))
    held = 0
    for seed in range(300):
        better, worse = rng.normal(0.6, 1.0, size=(10, 4)), rng.normal(0.0, 1.0, size=(10, 4))
        low, high = interval(probability_of_improvement, better, worse, resamples=400, seed=seed)
        held += low <= truth <= high
    assert 0.89 <= held / 300 <= 0.99


def test_games_without_spread_add_no_width() -> None:
    constant = np.tile([0.0, 10.0, 500.0], (5, 1))
    for statistic in STATISTICS:
        low, high = interval(statistic, constant)
        assert low == pytest.approx(high)
        assert low == pytest.approx(statistic(constant))
    varied = np.column_stack([constant, np.arange(5.0)])  # of mean 2, in [0, 4]
    low, high = interval(mean_score, varied)
    assert 510 / 4 <= low < high <= 514 / 4


def test_the_order_of_runs_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    shuffled = rng.permuted(ours(), axis=0)
    assert not np.array_equal(shuffled, ours())
    for statistic in STATISTICS:
        assert statistic(shuffled) == pytest.approx(statistic(ours()), abs=1e-14)
        assert interval(statistic, shuffled) == interval(statistic, ours())


def test_a_seed_fixes_the_draws_and_global_state_is_left_alone() -> None:
    before = repr(np.random.get_state())  # noqa: NPY002
    assert interval(iqm, ours(), seed=1) == interval(iqm, ours(), seed=1)
    assert interval(iqm, ours(), seed=1) != interval(iqm, ours(), seed=2)
    assert repr(np.random.get_state()) == before  # noqa: NPY002


def test_a_band_has_an_end_for_each_threshold() -> None:
    low, high = band(lambda scores: performance_profile(scores, THRESHOLDS), ours())
    profile = performance_profile(ours(), THRESHOLDS)
    assert low.shape == high.shape == (4,)
    assert np.all((low <= profile) & (profile <= high))
    for at, threshold in enumerate(THRESHOLDS):
        alone = interval(lambda scores, limit=threshold: performance_profile(scores, np.array([limit]))[:, 0], ours())
        assert (low[at], high[at]) == pytest.approx(alone)


# rliable, as written down and, where it is installed, as it is


def test_points_are_those_of_rliable() -> None:
    np.testing.assert_allclose([statistic(ours()) for statistic in STATISTICS], RLIABLE_POINTS, rtol=0, atol=1e-12)
    assert probability_of_improvement(ours(), theirs()) == pytest.approx(RLIABLE_IMPROVEMENT, abs=1e-12)
    assert iqm(ours()[:7, :5]) == pytest.approx(RLIABLE_IQM_OF_35, abs=1e-12)
    np.testing.assert_allclose(performance_profile(ours(), THRESHOLDS), RLIABLE_PROFILE, rtol=0, atol=1e-12)


def test_intervals_are_those_of_rliable_up_to_the_draws() -> None:
    found = [interval(statistic, ours(), resamples=20_000) for statistic in STATISTICS]
    np.testing.assert_allclose(found, RLIABLE_INTERVALS, rtol=0, atol=0.006)
    improvement = interval(probability_of_improvement, ours(), theirs(), resamples=20_000)
    assert improvement == pytest.approx(RLIABLE_IMPROVEMENT_INTERVAL, abs=0.006)
    ends = band(lambda scores: performance_profile(scores, THRESHOLDS), ours(), resamples=20_000)
    np.testing.assert_allclose(ends, RLIABLE_BAND, rtol=0, atol=1 / 60 + 1e-4)  # shares of 60 runs


def test_points_are_those_of_the_rliable_that_is_installed() -> None:
    metrics = pytest.importorskip("rliable.metrics", exc_type=ImportError)
    rng = np.random.default_rng(8)
    first, second = rng.normal(size=(9, 7)), rng.normal(size=(4, 7))
    names = ["aggregate_iqm", "aggregate_median", "aggregate_mean", "aggregate_optimality_gap"]
    expected = [getattr(metrics, name)(first) for name in names]
    np.testing.assert_allclose([statistic(first) for statistic in STATISTICS], expected, rtol=0, atol=1e-12)
    improvement = metrics.probability_of_improvement(first, second)
    assert probability_of_improvement(first, second) == pytest.approx(improvement, abs=1e-12)


# Rank correlation


def test_tau_by_hand() -> None:
    assert rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 2, 4, 3])) == pytest.approx((5 - 1) / 6)
    assert rank_correlation(np.array([1, 1, 2]), np.array([1, 2, 3])) == pytest.approx(2 / np.sqrt(2 * 3))
    assert rank_correlation(np.arange(9), -(np.arange(9) ** 3)) == pytest.approx(-1)


def ranks_and_gains(games: int) -> tuple[np.ndarray, np.ndarray]:
    """(games,) each: whole numbers with many ties, and a noisy decreasing function of them."""
    rng = np.random.default_rng(9)
    ranks = rng.integers(1, 7, size=games)
    return ranks, np.round(-0.3 * ranks + rng.normal(size=games), 1)


def test_tau_is_that_of_scipy_with_ties() -> None:
    ranks, gains = ranks_and_gains(57)
    assert rank_correlation(ranks, gains) == pytest.approx(stats.kendalltau(ranks, gains).statistic, abs=1e-14)


def test_a_game_that_is_drawn_twice_ties_with_itself() -> None:
    ranks, gains = ranks_and_gains(12)
    assert rank_correlation(np.tile(ranks, 2), np.tile(gains, 2)) == pytest.approx(rank_correlation(ranks, gains))


def test_interval_of_tau_is_that_of_a_plain_loop() -> None:
    ranks, gains = ranks_and_gains(15)
    rng = np.random.default_rng(10)
    draws = (rng.integers(15, size=15) for _ in range(2000))
    taus = [stats.kendalltau(ranks[chosen], gains[chosen]).statistic for chosen in draws]
    found = rank_correlation_interval(ranks, gains, resamples=20_000)
    assert found == pytest.approx(tuple(np.quantile(taus, [0.025, 0.975])), abs=0.04)
    assert found[0] < rank_correlation(ranks, gains) < found[1]


def test_few_games_in_perfect_order_say_nothing() -> None:
    assert rank_correlation_interval(np.arange(4), np.arange(4)) == (-1.0, 1.0)
    assert rank_correlation_interval(np.arange(5), np.arange(5)) == pytest.approx((1.0, 1.0))
    assert rank_correlation_interval(np.arange(4), np.arange(4), level=0.9) == pytest.approx((1.0, 1.0))


# What is refused


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.arange(3.0), "must be \\(runs, games\\), got shape \\(3,\\)"),
        (np.array([[1.0, np.nan]]), "must be finite"),
        (np.empty((0, 3)), "need a run of every game"),
        ([], "need a run of every game"),
        ([np.array([1.0]), np.array([])], "need a run of every game"),
    ],
)
def test_scores_that_mean_nothing_are_refused(scores: object, message: str) -> None:
    for statistic in STATISTICS:
        with pytest.raises(ValueError, match=message):
            statistic(scores)


def test_intervals_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 runs"):
        interval(iqm, np.ones((1, 5)))
    with pytest.raises(ValueError, match="Use band"):
        interval(lambda scores: performance_profile(scores, THRESHOLDS), ours())
    with pytest.raises(ValueError, match="must keep the first axis"):
        interval(np.mean, ours())
    with pytest.raises(ValueError, match="1 more axes"):
        interval(iqm, ours()[None])
    with pytest.raises(ValueError, match="level in \\(0, 1\\), got 2000 and 95"):
        interval(iqm, ours(), level=95)
    with pytest.raises(ValueError, match="got 6 and 5 games"):
        probability_of_improvement(ours(), theirs()[:, :5])
    assert interval(probability_of_improvement, ours(), np.ones((1, 6)))[0] < 0.5  # a fixed reference is welcome


def test_correlations_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes \\(3,\\) and \\(2,\\)"):
        rank_correlation(np.arange(3), np.arange(2))
    with pytest.raises(ValueError, match="finite"):
        rank_correlation(np.array([0.0, np.nan]), np.arange(2))
    with pytest.raises(ValueError, match="no two different y"):
        rank_correlation_interval(np.arange(6), np.ones(6))
