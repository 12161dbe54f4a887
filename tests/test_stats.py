"""Statistics over seeds and games, against closed forms, SciPy and rliable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from svrl.stats import (
    FEW,
    Statistic,
    bootstrap_interval,
    interval_if_several,
    iqm,
    mean_interval,
    mean_over_games_interval,
    mean_score,
    probability_of_improvement,
    rank_correlation,
    rank_correlation_interval,
    stratified_interval,
    student_interval,
    welch_interval,
)

STATISTICS = [iqm, mean_score]

# What rliable 1.2.0 says of ours() and theirs(), with arch 7.2.0, pandas 2.3.3, NumPy 2.4.6 and SciPy 1.17.1. Intervals
# have 50000 resamples, that of the probability of improvement 10000.
RLIABLE_POINTS = [0.7523333333333334, 0.8608333333333332]
RLIABLE_IMPROVEMENT = 0.5841666666666666
RLIABLE_IQM_OF_35 = 0.6826315789473686
RLIABLE_INTERVALS = [(0.6290, 0.8977), (0.7225, 1.0108)]
RLIABLE_IMPROVEMENT_INTERVAL = (0.4808, 0.6883)


def two_algorithms() -> tuple[np.ndarray, np.ndarray]:
    """(10 runs, 6 games) each, skewed, with ties."""
    rng = np.random.default_rng(7)
    return np.round(rng.gamma(2.0, 0.5, size=(10, 6)), 2), np.round(rng.gamma(2.0, 0.4, size=(10, 6)), 2)


def ours() -> np.ndarray:
    return two_algorithms()[0]


def theirs() -> np.ndarray:
    return two_algorithms()[1]


# One group, and two


def test_few_values_have_students_interval_and_many_the_bootstraps() -> None:
    values = np.random.default_rng(0).exponential(size=FEW + 5)
    few = values[: FEW - 1]
    expected = stats.t.interval(0.95, len(few) - 1, loc=np.mean(few), scale=stats.sem(few))
    assert mean_interval(few) == student_interval(few) == pytest.approx(expected)
    found = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method="percentile", random_state=np.random.default_rng(0)
    )
    assert mean_interval(values) == pytest.approx(tuple(found.confidence_interval))
    low, high = mean_interval(values)
    assert mean_interval(3.0 * values - 1.0) == pytest.approx((3.0 * low - 1.0, 3.0 * high - 1.0))


def test_one_group_is_students_t_and_two_are_welchs() -> None:
    few, others = [1.0, 2.0, 4.0], [3.0, 3.5, 9.0, 1.0]
    assert welch_interval([few]) == pytest.approx(mean_interval(few))
    welch = stats.ttest_ind(few, others, equal_var=False).confidence_interval()
    assert welch_interval([few], [others]) == pytest.approx((welch.low, welch.high))
    alone = stats.t.interval(0.95, 2, loc=np.mean(few) - 0.5, scale=stats.sem(few))
    assert welch_interval([few], [[0.5]]) == pytest.approx(alone)  # a single value counts as exact
    assert welch_interval([[1.0, 1.0]], [[0.25]]) == (0.75, 0.75)


def test_games_weigh_the_same_and_one_seed_has_no_interval() -> None:
    low, high = welch_interval([[0.0, 2.0], [10.0, 12.0, 11.0]])
    assert (low + high) / 2 == pytest.approx(6.0)
    assert mean_over_games_interval([np.array([1.0, 2.0]), np.array([1.0])]) is None
    assert mean_over_games_interval([np.ones(3)], [np.zeros(3)]) == (1.0, 1.0)
    assert interval_if_several([1.0]) is None
    assert interval_if_several([1.0, 1.0]) == (1.0, 1.0)


def test_the_interval_over_games_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        x, y, z, w = rng.normal(size=(4, 3))
        low, high = welch_interval([x, 2 * y], [z, w])
        held += low <= 0.0 <= high
    assert held / 2000 > 0.93


# Point estimates over games


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqm(np.arange(100.0).reshape(10, 10)) == pytest.approx(49.5)
    skewed = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1000.0])
    assert iqm(skewed.reshape(2, 4)) == pytest.approx((2 + 3 + 4 + 5) / 4)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 3), (7, 5), (2, 4)])
def test_iqm_cuts_as_scipy_does(shape: tuple[int, int]) -> None:
    scores = np.random.default_rng(0).normal(size=shape)
    assert iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None), abs=1e-14)


def test_improvement_of_equal_of_separated_and_of_tied_scores() -> None:
    scores = ours()
    assert probability_of_improvement(scores, scores) == pytest.approx(0.5)
    assert probability_of_improvement(scores + 100, scores) == 1.0
    assert probability_of_improvement(scores, scores + 100) == 0.0
    first, second = np.array([[1.0], [2.0]]), np.array([[2.0], [0.0], [1.0]])
    assert probability_of_improvement(first, second) == pytest.approx((1.5 + 2.5) / 6)


def test_improvement_is_the_statistic_of_mann_and_whitney() -> None:
    first, second = ours()[:7], theirs()
    expected = [stats.mannwhitneyu(first[:, game], second[:, game]).statistic / 70 for game in range(6)]
    assert probability_of_improvement(first, second) == pytest.approx(np.mean(expected))
    assert probability_of_improvement(second, first) == pytest.approx(1 - np.mean(expected))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_leading_axes_are_batches(statistic: Statistic) -> None:
    batch = np.random.default_rng(1).normal(size=(2, 3, 5, 4))
    each = np.array([[statistic(batch[i, j]) for j in range(3)] for i in range(2)])
    np.testing.assert_allclose(statistic(batch), each, rtol=0, atol=1e-14)
    improvement = probability_of_improvement(batch, batch[:, :, :2])
    assert improvement[1, 2] == pytest.approx(probability_of_improvement(batch[1, 2], batch[1, 2, :2]))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_games_may_have_different_numbers_of_runs_and_weigh_the_same(statistic: Statistic) -> None:
    games = list(ours().T)
    assert statistic(games) == statistic(ours())
    assert stratified_interval(statistic, games) == stratified_interval(statistic, ours())
    games = list(np.random.default_rng(2).normal(size=(4, 8)))
    more = [np.tile(games[0], 3), *games[1:]]  # 48 runs; 32 and 48 are both multiples of 4
    assert statistic(more) == pytest.approx(statistic(games), abs=1e-12)


def test_uneven_iqm_by_hand() -> None:
    # Weights 1/2, 1/6, 1/6, 1/6 in the order of the scores; a quarter is cut from the first, and from the last two.
    uneven = [np.array([0.0]), np.array([6.0, 12.0, 18.0])]
    assert iqm(uneven) == pytest.approx((0.25 * 0 + 6 / 6 + 12 / 12) / 0.5)


# Stratified bootstrap


def test_interval_of_two_runs_is_known() -> None:
    # The mean of two draws from {0, 1} is 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert stratified_interval(mean_score, np.array([[0.0], [1.0]])) == (0.0, 1.0)


def test_sets_of_scores_are_drawn_independently() -> None:
    # If both were drawn alike, the difference of a set and itself would have no width.
    scores = ours()
    low, high = stratified_interval(lambda x, y: mean_score(x) - mean_score(y), scores, scores, resamples=20_000)
    deviation = np.sqrt(2 * (scores.var(axis=0) / 10).sum()) / 6
    assert high - low == pytest.approx(2 * stats.norm.ppf(0.975) * deviation, rel=0.03)


def test_the_order_of_runs_does_not_matter_and_global_generators_are_left_alone() -> None:
    shuffled = np.random.default_rng(6).permuted(ours(), axis=0)
    assert not np.array_equal(shuffled, ours())
    before = repr(np.random.get_state())  # noqa: NPY002
    for statistic in STATISTICS:
        assert statistic(shuffled) == pytest.approx(statistic(ours()), abs=1e-14)
        assert stratified_interval(statistic, shuffled) == stratified_interval(statistic, ours())
    assert repr(np.random.get_state()) == before  # noqa: NPY002


# rliable, as written down


def test_points_are_those_of_rliable() -> None:
    np.testing.assert_array_equal(ours()[0], [0.83, 0.67, 0.57, 0.87, 0.55, 1.19])  # what it saw
    np.testing.assert_allclose([statistic(ours()) for statistic in STATISTICS], RLIABLE_POINTS, rtol=0, atol=1e-12)
    assert probability_of_improvement(ours(), theirs()) == pytest.approx(RLIABLE_IMPROVEMENT, abs=1e-12)
    assert iqm(ours()[:7, :5]) == pytest.approx(RLIABLE_IQM_OF_35, abs=1e-12)


def test_intervals_are_those_of_rliable_up_to_the_draws() -> None:
    found = [stratified_interval(statistic, ours(), resamples=20_000) for statistic in STATISTICS]
    np.testing.assert_allclose(found, RLIABLE_INTERVALS, rtol=0, atol=0.006)
    improvement = stratified_interval(probability_of_improvement, ours(), theirs(), resamples=20_000)
    assert improvement == pytest.approx(RLIABLE_IMPROVEMENT_INTERVAL, abs=0.006)


# Rank correlation


def ranks_and_gains(games: int) -> tuple[np.ndarray, np.ndarray]:
    """(games,) each: whole numbers with many ties, and a noisy decreasing function of them."""
    rng = np.random.default_rng(9)
    ranks = rng.integers(1, 7, size=games)
    return ranks, np.round(-0.3 * ranks + rng.normal(size=games), 1)


def test_tau_by_hand_and_by_scipy_with_ties() -> None:
    assert rank_correlation(np.array([1, 2, 3, 4]), np.array([1, 2, 4, 3])) == pytest.approx((5 - 1) / 6)
    assert rank_correlation(np.array([1, 1, 2]), np.array([1, 2, 3])) == pytest.approx(2 / np.sqrt(2 * 3))
    ranks, gains = ranks_and_gains(57)
    assert rank_correlation(ranks, gains) == pytest.approx(stats.kendalltau(ranks, gains).statistic, abs=1e-14)
    # A game that is drawn twice ties with itself.
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
    assert np.isnan(rank_correlation(np.arange(6), np.ones(6)))


# What is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([1.0]), "at least 2 values, got 1"),
        (lambda: mean_interval([1.0, float("nan"), 2.0]), "finite"),
        (lambda: welch_interval([[1.0]], [[0.5]]), "2 values on one side"),
        (lambda: bootstrap_interval([1.0, 2.0], level=1.0), "level in \\(0, 1\\), got 1.0"),
        (lambda: iqm(np.arange(3.0)), "must be \\(runs, games\\), got shape \\(3,\\)"),
        (lambda: mean_score(np.array([[1.0, np.nan]])), "must be finite"),
        (lambda: iqm(np.empty((0, 3))), "need a run of every game"),
        (lambda: mean_score([]), "need a run of every game"),
        (lambda: mean_score([np.array([1.0]), np.array([])]), "need a run of every game"),
        (lambda: probability_of_improvement(ours(), theirs()[:, :5]), "got 6 and 5 games"),
        (lambda: stratified_interval(iqm, np.ones((1, 5))), "at least 2 runs"),
        (lambda: stratified_interval(lambda x: np.mean(x, axis=1), ours()), "one number for each of 2000 resamples"),
        (lambda: stratified_interval(np.mean, ours()), "one number for each of 2000 resamples"),
        (lambda: stratified_interval(iqm, ours()[None]), "one number for each of 2000 resamples"),
    ],
)
def test_what_means_nothing_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
