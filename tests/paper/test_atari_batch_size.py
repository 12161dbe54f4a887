from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from svrl.envs.atari_games import GAMES
from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.atari_batch_size import EXPERIMENT, SIZES
from svrl.paper.store import Kept

from .hand_made_trainings import evidence, seeds, series_of

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}


def pair(game: str, size: int, gain: float, spread: float = 1.0, count: int = 3) -> list[Kept]:
    """So many seeds of each arm, up to `spread` from a mean whose relative gain is `gain`."""
    env, base = f"atari/{game}", GAMES[game].random_score
    plain = 1000.0 * (1 - gain) if gain > 0 else 1000.0
    structured = 1000.0 if gain > 0 else 1000.0 * (1 + gain)
    steps = np.linspace(-spread, spread, count)
    return [
        *seeds(env, "dqn", [base + plain + step for step in steps], batch_size=size),
        *seeds(env, "sv-dqn", [base + structured + step for step in steps], batch_size=size),
    ]


def found(
    frostbite: Sequence[float | None], seaquest: Sequence[float | None], scale: str = "full", count: int = 3
) -> Evidence:
    """Gains at 32, 64 and 128 of so many seeds; None and what is left out is missing."""
    games = {"frostbite": frostbite, "seaquest": seaquest}
    return evidence(
        *(
            pair(game, size, gain, count=count)
            for game, gains in games.items()
            for size, gain in zip(SIZES, gains, strict=False)
            if gain is not None
        ),
        scale=scale,
    )


AS_IN_THE_PAPER = (0.3, 0.3, 0.3), (-0.4, -0.2, 0.0)
OPPOSITE = (0.3, -0.1, 0.3), (-0.2, -0.2, -0.4)
PAPER = found(*AS_IN_THE_PAPER)
SHRINKS, VANISHES, FROSTBITE = "seaquest-gap-shrinks", "seaquest-gap-vanishes", "frostbite-gains-at-all-sizes"


@pytest.mark.parametrize(("name", "count"), [(SHRINKS, 3), (VANISHES, 4), (FROSTBITE, 3)])
def test_verdicts(name: str, count: int):
    for gains, scale, verdict in (
        (AS_IN_THE_PAPER, "full", Verdict.REPRODUCED),
        (OPPOSITE, "full", Verdict.NOT_REPRODUCED),
        (AS_IN_THE_PAPER, "short", Verdict.SUPPORTED),
        (OPPOSITE, "short", Verdict.CONTRADICTED),
        (((0.3,), (0.1,)), "laptop", Verdict.NOT_RUN),
    ):
        assert CLAIMS[name].judged(found(*gains, scale, count)).verdict is verdict


@pytest.mark.parametrize("gains", [AS_IN_THE_PAPER, OPPOSITE])
def test_three_seeds_of_one_size_are_too_few(gains: tuple[Sequence[float], Sequence[float]]):
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = CLAIMS[VANISHES].judged(found(*gains, scale))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, pytest.approx(gains[1][2]), None)
        assert finding.note.endswith("Too few seeds for an interval.")


def test_the_gap_is_that_of_128_less_that_of_32():
    finding = CLAIMS["seaquest-gap-shrinks"].judged(PAPER)
    assert finding.value == pytest.approx(0.4)
    assert finding.interval is not None
    assert finding.interval[0] == pytest.approx(0.4, abs=0.01)


def test_a_gap_that_does_not_shrink_on_the_way_is_none():
    finding = CLAIMS["seaquest-gap-shrinks"].judged(found((0.3, 0.3, 0.3), (-0.4, -0.6, 0.0)))
    assert finding.verdict is Verdict.NOT_REPRODUCED


def test_without_a_loss_at_32_there_is_nothing_to_shrink():
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = CLAIMS[SHRINKS].judged(found((), (0.2, 0.2, 0.4), scale))
        assert (finding.verdict, finding.value) == (verdict, pytest.approx(0.2))
        assert "There is no loss at 32 that could shrink." in finding.note


@pytest.mark.parametrize(
    ("seaquest", "verdict"),
    [
        ((-0.4, None, 0.0), Verdict.SUPPORTED),
        ((-0.2, None, -0.5), Verdict.CONTRADICTED),
        ((0.1, None, 0.3), Verdict.UNDECIDED),
    ],
)
def test_the_gap_is_judged_without_64(seaquest: tuple[float, None, float], verdict: Verdict):
    finding = CLAIMS[SHRINKS].judged(found((), seaquest, "short"))
    change = seaquest[2] - seaquest[0]
    assert (finding.verdict, finding.value) == (verdict, pytest.approx(change))
    assert finding.ours.startswith(f"{seaquest[0]:+.0%} at 32, {seaquest[2]:+.0%} at 128; from 32 to 128 {change:+.0%}")


@pytest.mark.parametrize(
    ("seaquest", "verdict"), [((-0.4, None, 0.0), Verdict.SUPPORTED), ((-0.4, 0.0, -0.3), Verdict.CONTRADICTED)]
)
def test_whether_it_vanishes_is_a_question_to_128_alone(seaquest: Sequence[float | None], verdict: Verdict):
    finding = CLAIMS[VANISHES].judged(found((), seaquest, "short", 4))
    assert (finding.verdict, finding.value) == (verdict, pytest.approx(seaquest[2]))
    alone = CLAIMS[VANISHES].judged(found((), (None, None, seaquest[2]), "short", 4))
    assert (alone.verdict, alone.value) == (verdict, finding.value)


@pytest.mark.parametrize("name", [SHRINKS, VANISHES])
def test_without_128_nothing_is_said_of_seaquest(name: str):
    finding = CLAIMS[name].judged(found((0.3, 0.3, 0.3), (-0.4, -0.2), "short"))
    assert (finding.verdict, finding.ours, finding.value) == (Verdict.NOT_RUN, "", None)
    assert "Nothing that could be compared yet" in finding.note


@pytest.mark.parametrize(
    ("frostbite", "count", "verdict"),
    [
        ((0.3, None, 0.4), 3, Verdict.UNDECIDED),  # better, but all sizes were asked for
        ((0.3, 0.4), 3, Verdict.UNDECIDED),
        ((0.3, None, -0.2), 3, Verdict.CONTRADICTED),  # one loss is enough
        ((-0.2,), 4, Verdict.CONTRADICTED),
    ],
)
def test_frostbite_with_some_of_the_sizes(frostbite: Sequence[float | None], count: int, verdict: Verdict):
    finding = CLAIMS[FROSTBITE].judged(found(frostbite, (), "short", count))
    least = min(gain for gain in frostbite if gain is not None)
    assert (finding.verdict, finding.value) == (verdict, pytest.approx(least))
    assert finding.interval == pytest.approx((least, least), abs=0.01)


def test_a_loss_of_three_seeds_at_one_size_says_nothing():
    finding = CLAIMS[FROSTBITE].judged(found((-0.2,), (), "short"))
    assert (finding.verdict, finding.value, finding.interval) == (Verdict.UNDECIDED, pytest.approx(-0.2), None)


def test_without_frostbite_nothing_is_said_of_it():
    finding = CLAIMS[FROSTBITE].judged(found((), (-0.4, -0.2, 0.0), "short"))
    assert (finding.verdict, finding.ours) == (Verdict.NOT_RUN, "")


@pytest.mark.parametrize(
    ("gain", "spread", "verdict", "undecided"),
    [
        (0.0, 30.0, Verdict.REPRODUCED, False),
        (0.0, 300.0, Verdict.NOT_REPRODUCED, True),  # noise alone does not make the two alike
        (-0.3, 30.0, Verdict.NOT_REPRODUCED, False),
    ],
)
def test_no_difference_needs_a_narrow_interval(gain: float, spread: float, verdict: Verdict, undecided: bool):
    cells = [kept for size in SIZES for kept in pair("seaquest", size, gain, spread, count=4)]
    finding = CLAIMS[VANISHES].judged(evidence(cells))
    assert (finding.verdict, "open either way" in finding.note) == (verdict, undecided)
    failed = Verdict.UNDECIDED if undecided else Verdict.CONTRADICTED
    short = CLAIMS[VANISHES].judged(evidence(cells, scale="short"))
    assert short.verdict is (Verdict.SUPPORTED if verdict is Verdict.REPRODUCED else failed)


def test_the_figure_has_a_row_a_game_and_a_column_a_size():
    figure = EXPERIMENT.draw("fig30", PAPER)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert len(titles) == 6
    assert (titles[0], titles[-1]) == ("(a) Frostbite, batches of 32", "(f) Seaquest, batches of 128")
    assert series_of(figure) == {"plain", "structured"}


def test_a_third_arm_is_drawn():
    third = seeds("atari/seaquest", "sv-dqn-network", [500.0] * 3, batch_size=128)
    figure = EXPERIMENT.draw("fig30", evidence(pair("seaquest", 128, 0.1), third, scale="short"))
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["(a) Seaquest, batches of 128"]
    assert series_of(figure) == {"plain", "structured", "structured-valued-by-the-network"}


def test_sizes_that_no_game_has_are_no_column():
    some = found((0.3, None, 0.3), (-0.4, None, 0.0), "short")
    titles = [panel.get_title(loc="left")[4:] for panel in EXPERIMENT.draw("fig30", some).axes]
    assert titles == [f"{game}, batches of {size}" for game in ("Frostbite", "Seaquest") for size in (32, 128)]
    assert "Seaquest -40% at 32, +0% at 128. This budget has 4 of its 6 panels." in EXPERIMENT.got("fig30", some)


def test_missing_panels_are_said():
    some = found((0.3, 0.2), (0.1,), "laptop")
    figure = EXPERIMENT.draw("fig30", some)
    assert len(figure.axes) == 4
    assert figure.axes[-1].texts[0].get_text() == "not in this budget"
    words = EXPERIMENT.got("fig30", some)
    assert "Frostbite +30% at 32, +20% at 64; Seaquest +10% at 32" in words
    assert "3 of its 6 panels" in words


def test_sizes_change_the_training_and_nothing_else():
    cells = EXPERIMENT.budgets["full"].cells
    assert len(cells) == 2 * 2 * 3 * 3
    sizes = [cell.settings["overrides"].get("batch_size", 32) for cell in cells]
    assert {size: sizes.count(size) for size in SIZES} == dict.fromkeys(SIZES, 12)
