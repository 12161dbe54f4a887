from __future__ import annotations

import pytest

from svrl.envs.atari_games import GAMES
from svrl.experiments.atari_batch_size import EXPERIMENT
from svrl.experiments.atari_batch_size.settings import SIZES
from svrl.experiments.paper.claim import Verdict
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.paper.store import Kept

from ..hand_made_trainings import evidence, seeds, series_of

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}


def pair(game: str, size: int, gain: float, spread: float = 1.0) -> list[Kept]:
    env, base = f"atari/{game}", GAMES[game].random_score
    plain = 1000.0 * (1 - gain) if gain > 0 else 1000.0
    structured = 1000.0 if gain > 0 else 1000.0 * (1 + gain)
    steps = [-spread, 0.0, spread]
    return [
        *seeds(env, "dqn", [base + plain + step for step in steps], batch_size=size),
        *seeds(env, "sv-dqn", [base + structured + step for step in steps], batch_size=size),
    ]


def found(frostbite: tuple[float, ...], seaquest: tuple[float, ...], scale: str = "full") -> Evidence:
    games = {"frostbite": frostbite, "seaquest": seaquest}
    return evidence(
        *(pair(game, size, gain) for game, gains in games.items() for size, gain in zip(SIZES, gains, strict=False)),
        scale=scale,
    )


PAPER = found((0.3, 0.3, 0.3), (-0.4, -0.2, 0.0))
OPPOSITE = found((0.3, -0.1, 0.3), (0.2, 0.2, 0.4))


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_verdicts(name: str):
    assert CLAIMS[name].judged(PAPER).verdict is Verdict.REPRODUCED
    assert CLAIMS[name].judged(OPPOSITE).verdict is Verdict.NOT_REPRODUCED
    assert CLAIMS[name].judged(found((0.3,), (0.1,), "laptop")).verdict is Verdict.NOT_RUN


def test_the_gap_is_that_of_128_less_that_of_32():
    finding = CLAIMS["seaquest-gap-shrinks"].judged(PAPER)
    assert finding.value == pytest.approx(0.4)
    assert finding.interval is not None
    assert finding.interval[0] == pytest.approx(0.4, abs=0.01)


def test_a_gap_that_does_not_shrink_on_the_way_is_none():
    finding = CLAIMS["seaquest-gap-shrinks"].judged(found((0.3, 0.3, 0.3), (-0.4, -0.6, 0.0)))
    assert finding.verdict is Verdict.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("gain", "spread", "verdict", "undecided"),
    [
        (0.0, 30.0, Verdict.REPRODUCED, False),
        (0.0, 300.0, Verdict.NOT_REPRODUCED, True),  # noise alone does not make the two alike
        (-0.3, 30.0, Verdict.NOT_REPRODUCED, False),
    ],
)
def test_no_difference_needs_a_narrow_interval(gain: float, spread: float, verdict: Verdict, undecided: bool):
    cells = [kept for size in SIZES for kept in pair("seaquest", size, gain, spread)]
    finding = CLAIMS["seaquest-gap-vanishes"].judged(evidence(cells))
    assert (finding.verdict, "undecided" in finding.note) == (verdict, undecided)


def test_the_figure_has_a_row_a_game_and_a_column_a_size():
    figure = EXPERIMENT.draw("fig30", PAPER)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert len(titles) == 6
    assert (titles[0], titles[-1]) == ("(a) Frostbite, batches of 32", "(f) Seaquest, batches of 128")
    assert series_of(figure) == {"plain", "structured"}


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
