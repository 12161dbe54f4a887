"""What a claim is called: at the budget that settles it, and at a smaller one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from svrl.paper.claim import Verdict
from svrl.paper.experiments.gains import can_tell, gain_of, improved, mostly_low
from svrl.paper.verdicts import nothing_yet, settled

from .hand_made_trainings import evidence, seeds, training

BELOW, COVERING, ABOVE = (-2.0, -1.0), (-1.0, 1.0), (1.0, 2.0)
SHORT, FULL = evidence(scale="short"), evidence(scale="full")
POSITIVE = (Verdict.REPRODUCED, Verdict.OTHERWISE, Verdict.SUPPORTED)


@pytest.mark.parametrize(
    ("side", "ends", "verdict"),
    [
        (1, BELOW, Verdict.CONTRADICTED),
        (1, COVERING, Verdict.UNDECIDED),
        (1, ABOVE, Verdict.UNDECIDED),  # on the right side, and the rest of the test failed
        (1, None, Verdict.UNDECIDED),
        (-1, BELOW, Verdict.UNDECIDED),
        (-1, COVERING, Verdict.UNDECIDED),
        (-1, ABOVE, Verdict.CONTRADICTED),
        (-1, None, Verdict.UNDECIDED),
        (0, BELOW, Verdict.CONTRADICTED),
        (0, COVERING, Verdict.UNDECIDED),
        (0, ABOVE, Verdict.CONTRADICTED),
        (0, None, Verdict.UNDECIDED),
        # An end at the limit is not beyond it.
        (1, (-1.0, 0.0), Verdict.UNDECIDED),
        (-1, (0.0, 1.0), Verdict.UNDECIDED),
        (0, (0.0, 1.0), Verdict.UNDECIDED),
    ],
)
def test_a_failure_at_a_small_budget(side: int, ends: tuple[float, float] | None, verdict: Verdict):
    finding = settled(SHORT, False, ours="x", value=0.5, ends=ends, limit=0.0, side=side)
    assert finding.verdict is verdict
    covers = ends is not None and ends[0] <= 0.0 <= ends[1]
    assert ("The interval covers 0: open either way." in finding.note) == covers
    assert settled(FULL, False, ours="x", value=0.5, ends=ends, limit=0.0, side=side).verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("side", [1, -1, 0])
@pytest.mark.parametrize("ends", [BELOW, COVERING, ABOVE])
def test_a_test_that_is_passed_is_supported_wherever_its_limit_lies(side: int, ends: tuple[float, float]):
    finding = settled(SHORT, True, ours="x", value=0.5, ends=ends, limit=0.0, side=side)
    assert finding.verdict is Verdict.SUPPORTED
    assert "undecided" not in finding.note
    assert settled(FULL, True, ours="x", value=0.5, ends=ends, limit=0.0, side=side).verdict is Verdict.REPRODUCED


def test_without_a_limit_nothing_is_contradicted():
    for ends in (BELOW, COVERING, ABOVE):
        assert settled(SHORT, False, ours="x", value=0.5, ends=ends).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("scale", ["short", "full"])
def test_nothing_positive_comes_without_an_interval(scale: str):
    for holds, otherwise, limit, side in itertools.product((True, False), ("", "Rows."), (None, 0.0), (1, -1, 0)):
        found = evidence(scale=scale)
        finding = settled(found, holds, ours="x", value=0.5, ends=None, otherwise=otherwise, limit=limit, side=side)
        assert finding.verdict not in POSITIVE
        assert finding.verdict is (Verdict.UNDECIDED if scale == "short" else Verdict.NOT_REPRODUCED)
        assert "Too few seeds for an interval." in finding.note


def test_what_was_found_is_kept_and_the_note_says_what_would_settle_it():
    finding = settled(SHORT, False, ours="0.5 of 1", value=0.5, ends=COVERING, note="Noted.", limit=0.0)
    assert (finding.ours, finding.value, finding.interval) == ("0.5 of 1", 0.5, COVERING)
    assert finding.note == (
        "With made by hand. Only the budget full settles it. Noted. The interval covers 0: open either way."
    )


def test_another_definition_supports_nothing_and_settles_a_claim_under_its_name():
    before = "With made by hand. Only the budget full settles it. "
    for found, verdict, words in ((SHORT, Verdict.UNDECIDED, before), (FULL, Verdict.OTHERWISE, "")):
        finding = settled(found, False, ours="2", value=2.0, ends=(1.0, 3.0), otherwise="With rows centred.")
        assert (finding.verdict, finding.note) == (verdict, f"{words}With rows centred.")


def test_without_a_value_there_is_nothing_to_compare():
    finding = settled(SHORT, False, ours="", value=None, ends=None, note="Too few games.")
    assert finding.verdict is Verdict.NOT_RUN
    assert finding.note == "Nothing that could be compared yet; there is: made by hand. Too few games."
    assert settled(FULL, False, ours="", value=None, ends=None).verdict is Verdict.NOT_REPRODUCED


def test_nothing_yet_names_the_budget():
    for found in (SHORT, FULL):
        finding = nothing_yet(found)
        assert (finding.verdict, finding.ours, finding.value, finding.interval) == (Verdict.NOT_RUN, "", None, None)
        assert finding.note == "Nothing that could be compared yet; there is: made by hand."
        assert mostly_low(found, "dqn", (), 3, expected=4) == finding


def test_a_budget_of_an_addition_settles_it():
    for holds, ends in itertools.product((True, False), (BELOW, COVERING, ABOVE, None)):
        finding = settled(
            evidence(scale="laptop"), holds, ours="x", value=0.5, ends=ends, limit=0.0, budgets=("laptop",)
        )
        assert finding.verdict is (Verdict.REPRODUCED if holds and ends else Verdict.NOT_REPRODUCED)
        assert "settles" not in finding.note


@pytest.mark.parametrize(
    ("scores", "scale", "verdict"),
    [
        # All 16 pairs are won: the interval is (1, 1).
        ([5.0, 6.0, 7.0, 8.0], "full", Verdict.REPRODUCED),
        ([5.0, 6.0, 7.0, 8.0], "short", Verdict.SUPPORTED),
        # The same scores: as many pairs are won as lost.
        ([1.0, 2.0, 3.0, 4.0], "full", Verdict.NOT_REPRODUCED),
        ([1.0, 2.0, 3.0, 4.0], "short", Verdict.UNDECIDED),
        # All pairs are lost: (0, 0) lies below one half.
        ([0.1, 0.2, 0.3, 0.4], "full", Verdict.NOT_REPRODUCED),
        ([0.1, 0.2, 0.3, 0.4], "short", Verdict.CONTRADICTED),
    ],
)
def test_an_improvement_needs_an_interval_above_one_half(scores: list[float], scale: str, verdict: Verdict):
    found = evidence(
        seeds("CartPole-v1", "dqn", [1.0, 2.0, 3.0, 4.0]), seeds("CartPole-v1", "sv-dqn", scores), scale=scale
    )
    gain = gain_of(found, "dqn", "sv-dqn", ("CartPole-v1",))
    finding = improved(found, gain)
    assert finding.verdict is verdict
    assert gain.difference == pytest.approx(np.mean(scores) - 2.5)
    assert finding.interval is not None
    assert finding.interval[0] <= gain.improvement <= finding.interval[1]
    assert finding.value == {5.0: 1.0, 1.0: 0.5, 0.1: 0.0}[scores[0]]


def test_a_small_budget_settles_nothing_and_says_what_was_found():
    cells = (seeds("CartPole-v1", arm, scores) for arm, scores in (("dqn", range(1, 5)), ("sv-dqn", range(5, 9))))
    found = evidence(*cells, scale="short")
    finding = improved(found, gain_of(found, "dqn", "sv-dqn", ("CartPole-v1",)))
    assert (finding.verdict, finding.value, finding.interval) == (Verdict.SUPPORTED, 1.0, (1.0, 1.0))
    assert "probability of improvement 1.00 (1.00 to 1.00)" in finding.ours
    assert "Only the budget full settles it." in finding.note
    worse = improved(found, gain_of(found, "sv-dqn", "dqn", ("CartPole-v1",)))
    assert (worse.verdict, worse.value, worse.interval) == (Verdict.CONTRADICTED, 0.0, (0.0, 0.0))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("better", [9.0, -9.0])
def test_few_seeds_settle_nothing_in_one_environment(count: int, better: float):
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        groups = (seeds("CartPole-v1", arm, [score] * count) for arm, score in (("dqn", 1.0), ("sv-dqn", better)))
        found = evidence(*groups, scale=scale)
        finding = improved(found, gain_of(found, "dqn", "sv-dqn", ("CartPole-v1",)))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, float(better > 0), None)
        assert finding.note.endswith("Too few seeds for an interval.")


@pytest.mark.parametrize(
    ("sizes", "tells"),
    [
        # Two over the ways to deal the runs: 6, 20, 35, 56, 70, 36 and 45.
        ([(2, 2)], False),
        ([(3, 3)], False),
        ([(3, 4)], False),
        ([(3, 5)], True),
        ([(4, 4)], True),
        ([(2, 7)], False),
        ([(8, 2)], True),
        # The ways of several environments multiply: 36, 60 and 400.
        ([(2, 2), (2, 2)], False),
        ([(2, 2), (2, 3)], True),
        ([(3, 3), (3, 3)], True),
        # One seed has no spread, whatever the others have.
        ([(1, 99)], False),
        ([(5, 5), (5, 1)], False),
    ],
)
def test_how_many_seeds_can_tell_two_arms_apart(sizes: list[tuple[int, int]], tells: bool):
    plain, structured = ([np.zeros(pair[at]) for pair in sizes] for at in (0, 1))
    assert can_tell(plain, structured) is tells
    assert can_tell(structured, plain) is tells


@pytest.mark.parametrize(
    ("rank", "expected", "so_far", "verdict"),
    [
        (1.0, 1, Verdict.SUPPORTED, Verdict.REPRODUCED),
        (1.0, 4, Verdict.UNDECIDED, Verdict.NOT_REPRODUCED),
        (2.0, 4, Verdict.CONTRADICTED, Verdict.NOT_REPRODUCED),
    ],
)
def test_low_ranks_in_some_of_the_games_support_nothing(rank: float, expected: int, so_far: Verdict, verdict: Verdict):
    cells = [training("CartPole-v1", "dqn", seed, 1.0, ranks=(rank, 9, 9, 9)) for seed in range(3)]
    share = 1.0 if rank == 1.0 else 0.0
    for scale, called in (("short", so_far), ("full", verdict)):
        finding = mostly_low(evidence(cells, scale=scale), "dqn", ("CartPole-v1",), 1, expected=expected)
        assert (finding.verdict, finding.value, finding.interval) == (called, share, (share, share))
        assert finding.ours.endswith(" of 1 of 4 environments") == (expected == 4)


def test_few_seeds_have_the_interval_of_student():
    # Shares of 0.6, 0.8 and 1: mean 0.8, deviation 0.2, and t(.975, 2) = 4.303 of 0.2 / sqrt(3) reaches below one half.
    cells = [
        training("CartPole-v1", "dqn", seed, 1.0, ranks=(rank, 9, 9, 9)) for seed, rank in enumerate([1.4, 1.2, 1])
    ]
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = mostly_low(evidence(cells, scale=scale), "dqn", ("CartPole-v1",), 1, expected=1)
        assert finding.value == pytest.approx(0.8)
        assert finding.interval == pytest.approx((0.8 - 4.3027 * 0.2 / 3**0.5, 1.0), abs=1e-4)
        assert (finding.verdict, "open either way" in finding.note) == (verdict, True)
