from __future__ import annotations

import pytest
from scipy import stats

from svrl.experiments.control_claims import difference_interval, judged_near
from svrl.experiments.paper.claim import Verdict


def test_near_needs_a_mean_that_is_near_and_an_interval_that_is_narrow() -> None:
    near = judged_near([1.0, 1.1, 1.2], 1.0, definition="degrees", otherwise=False)
    assert near.verdict is Verdict.REPRODUCED
    assert near.ours.endswith(") degrees")
    assert judged_near([1.0, 1.1, 1.2], 1.0, definition="d", otherwise=True).verdict is Verdict.OTHERWISE
    far = judged_near([1.4, 1.41, 1.42], 1.0, definition="d", otherwise=False)
    assert (far.verdict, far.note) == (Verdict.NOT_REPRODUCED, "")


@pytest.mark.parametrize("values", [[0.5, 1.0, 1.5], [1.0, 1.4, 1.8]])
def test_a_wide_interval_around_the_printed_number_is_undecided(values: list[float]) -> None:
    found = judged_near(values, 1.0, definition="d", otherwise=False)
    assert found.verdict is Verdict.NOT_REPRODUCED
    assert found.note == "undecided: the interval over 3 seeds is too wide"


def test_the_interval_of_a_difference_is_that_of_welch() -> None:
    one, other = [1.0, 2.0, 4.0, 5.0], [0.5, 0.6, 0.1]
    expected = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert difference_interval(one, other) == pytest.approx((expected.low, expected.high))


def test_a_single_value_counts_as_exact_and_two_are_refused() -> None:
    expected = stats.ttest_1samp([1.0, 2.0, 4.0], 0.5).confidence_interval(0.95)
    low, high = difference_interval([1.0, 2.0, 4.0], [0.5])
    assert (low + 0.5, high + 0.5) == pytest.approx((expected.low, expected.high))
    assert difference_interval([1.0, 1.0], [0.25]) == (0.75, 0.75)
    with pytest.raises(ValueError, match="needs 2 values"):
        difference_interval([1.0], [0.5])
