"""What a claim is called: at the budget that settles it, and at a smaller one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from svrl.paper.claim import Verdict
from svrl.paper.experiments.gains import Panels, can_tell, improved, mostly_low
from svrl.paper.verdicts import above, below, near, nothing_yet, settled

from .hand_made_trainings import evidence, seeds, training

BELOW, COVERING, ABOVE = (-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0)
SHORT, FULL = evidence(scale="short"), evidence(scale="full")
YES, NO, OTHERWISE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.OTHERWISE
SUPPORTED, OPEN, AGAINST = Verdict.SUPPORTED, Verdict.UNDECIDED, Verdict.CONTRADICTED


@pytest.mark.parametrize(
    ("found", "verdict", "note"),
    [
        (below([1.0, 2.0, 3.0], 5.0), YES, ""),  # Student's interval is -0.48 to 4.48
        (below([1.0, 2.0, 3.0], 4.0), NO, "undecided: the interval over 3 seeds contains the limit"),
        (below([5.0, 5.0], 4.0, note="why"), NO, "why"),
        (above([1.0, 2.0, 3.0], -1.0), YES, ""),
        (above([1.0, 2.0, 3.0], 1.0, note="why"), NO, "undecided: the interval over 3 seeds contains the limit; why"),
        (near([1.0, 1.1, 1.2], 1.0, definition="d", otherwise=False), YES, ""),
        (near([1.0, 1.1, 1.2], 1.0, definition="d", otherwise=True), OTHERWISE, ""),
        (near([1.4, 1.41, 1.42], 1.0, definition="d", otherwise=False), NO, ""),
        *(
            (near(wide, 1.0, definition="d", otherwise=False), NO, "undecided: the interval over 3 seeds is too wide")
            for wide in ([0.5, 1.0, 1.5], [1.0, 1.4, 1.8])
        ),
    ],
)
def test_means_are_held_against_a_limit_or_a_printed_number(found, verdict: Verdict, note: str):
    assert (found.verdict, found.note) == (verdict, note)
    assert found.interval is not None


@pytest.mark.parametrize(
    ("side", "ends", "verdict"),
    [
        (1, BELOW, AGAINST),
        (1, COVERING, OPEN),
        (1, ABOVE, OPEN),  # on the right side, and the rest of the test failed
        (1, None, OPEN),
        (-1, BELOW, OPEN),
        (-1, COVERING, OPEN),
        (-1, ABOVE, AGAINST),
        (-1, None, OPEN),
        (0, BELOW, AGAINST),
        (0, COVERING, OPEN),
        (0, ABOVE, AGAINST),
        (0, None, OPEN),
        (0, (0.0, 1.0), OPEN),  # an end at the limit is not beyond it
    ],
)
def test_a_test_that_failed_and_one_that_was_passed(side: int, ends: tuple[float, float] | None, verdict: Verdict):
    finding = settled(SHORT, False, ours="x", value=0.5, ends=ends, limit=0.0, side=side)
    assert finding.verdict is verdict
    covers = ends is not None and ends[0] <= 0.0 <= ends[1]
    assert ("The interval covers 0: open either way." in finding.note) == covers
    assert settled(FULL, False, ours="x", value=0.5, ends=ends, limit=0.0, side=side).verdict is NO
    without = settled(SHORT, False, ours="x", value=0.5, ends=ends)
    assert without.verdict is OPEN, "without a limit nothing is contradicted"
    for found, passed in ((SHORT, SUPPORTED), (FULL, YES)):
        finding = settled(found, True, ours="x", value=0.5, ends=ends, limit=0.0, side=side)
        assert finding.verdict is (passed if ends else OPEN if found is SHORT else NO)


def test_nothing_positive_comes_without_an_interval():
    for holds, otherwise, limit, side in itertools.product((True, False), ("", "Rows."), (None, 0.0), (1, -1, 0)):
        for found, verdict in ((SHORT, OPEN), (FULL, NO)):
            finding = settled(found, holds, ours="x", value=0.5, ends=None, otherwise=otherwise, limit=limit, side=side)
            assert finding.verdict is verdict
            assert "Too few seeds for an interval." in finding.note


def test_the_note_says_what_would_settle_it():
    before = "With made by hand. Only the budget full settles it. "
    finding = settled(SHORT, False, ours="0.5 of 1", value=0.5, ends=COVERING, note="Noted.", limit=0.0)
    assert (finding.ours, finding.value, finding.interval) == ("0.5 of 1", 0.5, COVERING)
    assert finding.note == f"{before}Noted. The interval covers 0: open either way."
    # Another definition supports nothing, and settles a claim under its name.
    for found, verdict, words in ((SHORT, OPEN, before), (FULL, OTHERWISE, "")):
        finding = settled(found, False, ours="2", value=2.0, ends=(1.0, 3.0), otherwise="With rows centred.")
        assert (finding.verdict, finding.note) == (verdict, f"{words}With rows centred.")
    # The budget of an addition settles it.
    laptop = evidence(scale="laptop")
    finding = settled(laptop, True, ours="x", value=0.5, ends=ABOVE, limit=0.0, budgets=("laptop",))
    assert (finding.verdict, finding.note) == (YES, "")


def test_without_a_value_there_is_nothing_to_compare():
    nothing = "Nothing that could be compared yet; there is: made by hand."
    finding = settled(SHORT, False, ours="", value=None, ends=None, note="Too few games.")
    assert (finding.verdict, finding.note) == (Verdict.NOT_RUN, f"{nothing} Too few games.")
    assert settled(FULL, False, ours="", value=None, ends=None).verdict is NO
    for found in (SHORT, FULL):
        finding = nothing_yet(found)
        assert (finding.verdict, finding.ours, finding.value, finding.note) == (Verdict.NOT_RUN, "", None, nothing)
        assert mostly_low(found, "dqn", ("CartPole-v1",), 3) == finding


@pytest.mark.parametrize(
    ("scores", "value", "full", "short"),
    [
        ([5.0, 6.0, 7.0, 8.0], 1.0, YES, SUPPORTED),  # all 16 pairs are won: the interval is (1, 1)
        ([1.0, 2.0, 3.0, 4.0], 0.5, NO, OPEN),  # as many pairs are won as lost
        ([0.1, 0.2, 0.3, 0.4], 0.0, NO, AGAINST),  # (0, 0) lies below one half
        # Three seeds of each arm tell nothing in one environment.
        ([9.0], 1.0, NO, OPEN),
        ([-9.0, -9.0, -9.0], 0.0, NO, OPEN),
    ],
)
def test_an_improvement_needs_an_interval_above_one_half(
    scores: list[float], value: float, full: Verdict, short: Verdict
):
    plain = [1.0, 2.0, 3.0, 4.0][: len(scores)]
    for scale, verdict in (("full", full), ("short", short)):
        found = evidence(seeds("CartPole-v1", "dqn", plain), seeds("CartPole-v1", "sv-dqn", scores), scale=scale)
        panels = Panels.of(found, "dqn", "sv-dqn", ("CartPole-v1",))
        finding = improved(found, panels)
        assert (finding.verdict, finding.value) == (verdict, value)
        assert panels.difference == (pytest.approx(np.mean(scores) - np.mean(plain)), None)
        assert (finding.interval is None) == (len(scores) < 4)
        assert ("Only the budget full settles it." in finding.note) == (scale == "short")
        assert finding.note.endswith("Too few seeds for an interval.") == (len(scores) < 4)


@pytest.mark.parametrize(
    ("sizes", "tells"),
    [
        # Two over the ways to deal the runs: 20, 56 and 45; those of several environments multiply: 36 and 60.
        ([(3, 3)], False),
        ([(3, 5)], True),
        ([(8, 2)], True),
        ([(2, 2), (2, 2)], False),
        ([(2, 2), (2, 3)], True),
        # One seed has no spread, whatever the others have.
        ([(5, 5), (5, 1)], False),
    ],
)
def test_how_many_seeds_can_tell_two_arms_apart(sizes: list[tuple[int, int]], tells: bool):
    plain, structured = ([np.zeros(pair[at]) for pair in sizes] for at in (0, 1))
    assert can_tell(plain, structured) is tells
    assert can_tell(structured, plain) is tells


@pytest.mark.parametrize(
    ("ranks", "expected", "short", "full", "value"),
    [
        ((1.0, 1.0, 1.0), 1, SUPPORTED, YES, 1.0),
        ((1.0, 1.0, 1.0), 4, OPEN, OPEN, 1.0),  # low ranks in some of the games settle nothing
        ((2.0, 2.0, 2.0), 4, AGAINST, AGAINST, 0.0),
        # Shares of 0.6, 0.8 and 1: t(.975, 2) = 4.303 times 0.2 / sqrt(3) reaches below one half.
        ((1.4, 1.2, 1.0), 1, OPEN, NO, 0.8),
    ],
)
def test_most_batches_are_of_low_rank(
    ranks: tuple[float, ...], expected: int, short: Verdict, full: Verdict, value: float
):
    runs = [training("CartPole-v1", "dqn", seed, 1.0, ranks=(rank, 9, 9, 9)) for seed, rank in enumerate(ranks)]
    wanted = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3", "MountainCar-v0")[:expected]
    for scale, verdict in (("short", short), ("full", full)):
        finding = mostly_low(evidence(runs, scale=scale), "dqn", wanted, 1)
        assert (finding.verdict, finding.value) == (verdict, pytest.approx(value))
        low = value - (4.3027 * 0.2 / 3**0.5 if value == 0.8 else 0.0)
        assert finding.interval == pytest.approx((low, 1.0 if value == 0.8 else value), abs=1e-4)
        assert finding.ours.endswith(" of 1 of 4 environments") == (expected == 4)
