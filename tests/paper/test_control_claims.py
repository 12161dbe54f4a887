from __future__ import annotations

import pytest

from svrl.paper.claim import Verdict
from svrl.paper.verdicts import near


def test_near_needs_a_mean_that_is_near_and_an_interval_that_is_narrow() -> None:
    found = near([1.0, 1.1, 1.2], 1.0, definition="degrees", otherwise=False)
    assert found.verdict is Verdict.REPRODUCED
    assert found.ours.endswith(") degrees")
    assert near([1.0, 1.1, 1.2], 1.0, definition="d", otherwise=True).verdict is Verdict.OTHERWISE
    far = near([1.4, 1.41, 1.42], 1.0, definition="d", otherwise=False)
    assert (far.verdict, far.note) == (Verdict.NOT_REPRODUCED, "")


@pytest.mark.parametrize("values", [[0.5, 1.0, 1.5], [1.0, 1.4, 1.8]])
def test_a_wide_interval_around_the_printed_number_is_undecided(values: list[float]) -> None:
    found = near(values, 1.0, definition="d", otherwise=False)
    assert found.verdict is Verdict.NOT_REPRODUCED
    assert found.note == "undecided: the interval over 3 seeds is too wide"
