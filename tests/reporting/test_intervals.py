from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from svrl.reporting.intervals import FEW, interval_if_several, mean_interval, mean_over_games_interval


def test_few_values_have_students_interval() -> None:
    values = [1.0, 2.0, 4.0]
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(expected)


def test_two_values_by_hand() -> None:
    # t(.975, 1) = 12.706, s / sqrt(2) = .5
    assert mean_interval([0.0, 1.0]) == pytest.approx((0.5 - 12.7062 * 0.5, 0.5 + 12.7062 * 0.5), rel=1e-4)


@pytest.mark.parametrize("count", [5, 30])
def test_it_covers_the_mean_about_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(1)
    hits = [low <= 0.0 <= high for low, high in (mean_interval(rng.normal(size=count)) for _ in range(400))]
    assert 0.9 <= np.mean(hits) <= 0.99


def test_many_values_shift_and_scale() -> None:
    values = np.random.default_rng(0).exponential(size=FEW + 5)
    low, high = mean_interval(values)
    assert mean_interval(3.0 * values - 1.0) == pytest.approx((3.0 * low - 1.0, 3.0 * high - 1.0))


def test_what_has_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 values, got 1"):
        mean_interval([1.0])
    with pytest.raises(ValueError, match="finite"):
        mean_interval([1.0, float("nan"), 2.0])
    assert interval_if_several([1.0]) is None
    assert interval_if_several([1.0, 1.0]) == (1.0, 1.0)


def test_one_game_is_students_t_and_two_groups_are_welchs():
    few, others = np.array([1.0, 2.0, 4.0]), np.array([3.0, 3.5, 9.0, 1.0])
    assert mean_over_games_interval([few]) == pytest.approx(mean_interval(few))
    welch = stats.ttest_ind(few, others, equal_var=False).confidence_interval()
    assert mean_over_games_interval([few], [others]) == pytest.approx((welch.low, welch.high))


def test_games_weigh_the_same_and_one_seed_has_no_interval():
    low, high = mean_over_games_interval([np.array([0.0, 2.0]), np.array([10.0, 12.0, 11.0])])
    assert (low + high) / 2 == pytest.approx(6.0)
    assert mean_over_games_interval([np.array([1.0, 2.0]), np.array([1.0])]) is None
    assert mean_over_games_interval([np.ones(3)], [np.zeros(3)]) == (1.0, 1.0)


def test_the_interval_over_games_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        x, y, z, w = rng.normal(size=(4, 3))
        low, high = mean_over_games_interval([x, 2 * y], [z, w])
        held += low <= 0.0 <= high
    assert held / 2000 > 0.93
