"""Our figure and claims on values: against returns, and against what estimation makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from svrl.paper.claim import Evidence, Finding, Verdict
from svrl.paper.experiments.atari_diagnosis import EXPERIMENT
from svrl.paper.store import Kept
from svrl.plots.style import save_figure

from .hand_made_trainings import evidence, seeds, series_of, training

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims if claim.figure == "values"}
PLAIN, STRUCTURED, NETWORK = "dqn", "sv-dqn", "sv-dqn-network"
OPTIMISM = {STRUCTURED: "structure-lowers-optimism", NETWORK: "structured-choice-lowers-optimism"}
ESTIMATION = {"minmax": "estimation-beats-row-means", "row": "estimation-of-centred-rows-beats-row-means"}
ARM_SERIES = {"plain", "structured", "structured-valued-by-the-network"}
SCALING_SERIES = {"completed-with-the-authors-scaling", "completed-with-rows-centred"}
STUDENT = 12.7062
"""97.5% of Student's t with one degree of freedom."""


def optimistic(game: str, arm: str, beyond: Sequence[float | None], gained: float = 2.0, **more: int) -> list[Kept]:
    """A training a number: so much more is expected than the return of `gained`; None does not know it."""
    return [
        training(f"atari/{game}", arm, seed, 9.0, optimism=None if one is None else (gained + one, gained), **more)
        for seed, one in enumerate(beyond)
    ]


def estimated(game: str, errors: dict[str, Sequence[float | None]], kept: float = 0.5, arm: str = PLAIN) -> list[Kept]:
    """A training a seed, with these errors beyond the row's mean by scaling."""
    count = max(len(found) for found in errors.values())
    return [
        training(
            f"atari/{game}", arm, seed, 9.0, estimation={scale: (found[seed], kept) for scale, found in errors.items()}
        )
        for seed in range(count)
    ]


def judged(name: str, *groups: list[Kept], scale: str = "full") -> Finding:
    return CLAIMS[name].judged(evidence(*groups, scale=scale))


@pytest.mark.parametrize("arm", OPTIMISM)
@pytest.mark.parametrize(
    ("ours", "ends", "verdict", "so_far"),
    [
        ([0.25, 0.25], (-0.75, -0.75), Verdict.REPRODUCED, Verdict.SUPPORTED),
        ([1.5, 1.5], (0.5, 0.5), Verdict.NOT_REPRODUCED, Verdict.CONTRADICTED),
        # The plain arm does not vary, so the freedom is that of two seeds; the error of their mean is 1.
        ([0.0, 2.0], (-STUDENT, STUDENT), Verdict.NOT_REPRODUCED, Verdict.UNDECIDED),
        ([1.0, 1.0], (0.0, 0.0), Verdict.NOT_REPRODUCED, Verdict.UNDECIDED),
    ],
)
def test_optimism_of_an_arm_against_that_of_plain_dqn(
    arm: str, ours: list[float], ends: tuple[float, float], verdict: Verdict, so_far: Verdict
):
    groups = optimistic("krull", PLAIN, [1.0, 1.0]), optimistic("krull", arm, ours, gained=7.0)
    for scale, expected in (("full", verdict), ("short", so_far)):
        finding = judged(OPTIMISM[arm], *groups, scale=scale)
        assert finding.verdict is expected
        assert finding.value == pytest.approx(np.mean(ours) - 1.0)
        assert finding.interval == pytest.approx(ends, abs=1e-4)
        assert ("The interval covers 0: open either way." in finding.note) == (ends[0] <= 0.0 <= ends[1])
        assert ("Only the budget full settles it." in finding.note) == (scale == "short")
    assert f"Krull {np.mean(ours):+.2g} against +1" in finding.note
    assert judged(OPTIMISM[arm], *groups, scale="laptop").verdict is Verdict.NOT_RUN


def test_games_count_alike_and_each_arm_is_judged_by_itself():
    groups = [
        *(optimistic(game, PLAIN, [1.0] * 3) for game in ("krull", "alien")),
        optimistic("krull", STRUCTURED, [0.5] * 2),
        optimistic("alien", STRUCTURED, [-0.5] * 4),
        *(optimistic(game, NETWORK, [4.0] * 3) for game in ("krull", "alien")),
    ]
    lower, higher = (judged(OPTIMISM[arm], *groups) for arm in (STRUCTURED, NETWORK))
    # The mean of -0.5 and -1.5, whatever the numbers of seeds.
    assert (lower.verdict, lower.value, lower.interval) == (Verdict.REPRODUCED, -1.0, (-1.0, -1.0))
    assert "mean of 2 games" in lower.ours
    assert (higher.verdict, higher.value) == (Verdict.NOT_REPRODUCED, 3.0)


def test_trainings_that_do_not_know_their_returns_are_left_out():
    groups = [
        *(optimistic(game, PLAIN, [1.0, 1.0]) for game in ("krull", "alien")),
        optimistic("krull", STRUCTURED, [None, 0.5, 0.5]),
        optimistic("alien", STRUCTURED, [None, None]),
        # Larger batches are another training.
        optimistic("krull", STRUCTURED, [9.0, 9.0], batch_size=128),
        optimistic("alien", STRUCTURED, [9.0, 9.0], batch_size=64),
    ]
    finding = judged(OPTIMISM[STRUCTURED], *groups)
    assert (finding.value, finding.interval) == (-0.5, (-0.5, -0.5))
    assert finding.ours.endswith("Krull")
    assert "Alien" not in finding.note


def test_one_seed_has_no_interval():
    groups = optimistic("krull", PLAIN, [1.0, 1.0]), optimistic("krull", STRUCTURED, [0.0, None])
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = judged(OPTIMISM[STRUCTURED], *groups, scale=scale)
        assert (finding.verdict, finding.value, finding.interval) == (verdict, -1.0, None)
        assert "Too few seeds for an interval." in finding.note


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("scale", ["short", "full"])
def test_where_no_training_knows_it_nothing_is_compared(name: str, scale: str):
    older = [seeds("atari/krull", arm, [9.0, 9.0]) for arm in (PLAIN, STRUCTURED, NETWORK)]
    for groups in ([], older, [optimistic("krull", NETWORK, [1.0, 1.0])]):
        finding = judged(name, *groups, scale=scale)
        assert (finding.verdict, finding.ours, finding.value) == (Verdict.NOT_RUN, "", None)
        assert "Nothing that could be compared yet" in finding.note


@pytest.mark.parametrize("scaling", ESTIMATION)
@pytest.mark.parametrize(
    ("errors", "ends", "verdict", "so_far"),
    [
        ([0.5, 0.5], (0.5, 0.5), Verdict.REPRODUCED, Verdict.SUPPORTED),
        ([1.25, 1.25], (1.25, 1.25), Verdict.NOT_REPRODUCED, Verdict.CONTRADICTED),
        # Half the distance of two seeds is the error of their mean.
        ([0.5, 1.25], (0.875 - 0.375 * STUDENT, 0.875 + 0.375 * STUDENT), Verdict.NOT_REPRODUCED, Verdict.UNDECIDED),
    ],
)
def test_estimation_against_the_mean_of_the_row(
    scaling: str, errors: list[float], ends: tuple[float, float], verdict: Verdict, so_far: Verdict
):
    (other,) = set(ESTIMATION) - {scaling}
    # Neither the other scaling nor another arm has a say.
    groups = (
        estimated("krull", {scaling: errors, other: [7.0, 7.0]}, kept=0.75),
        estimated("krull", {scaling: [7.0, 7.0]}, arm=STRUCTURED),
    )
    for scale, expected in (("full", verdict), ("short", so_far)):
        finding = judged(ESTIMATION[scaling], *groups, scale=scale)
        assert (finding.verdict, finding.value) == (expected, pytest.approx(np.mean(errors)))
        assert finding.interval == pytest.approx(ends, abs=1e-4)
        assert "The best action stays the best in 75% of the rows." in finding.note
        assert ("The interval covers 1: open either way." in finding.note) == (ends[0] <= 1.0 <= ends[1])


def test_errors_that_have_nothing_to_be_held_against_are_left_out():
    # A row whose entries are equal leaves no error of its mean.
    groups = (
        estimated("krull", {"row": [None, 0.5, 0.5]}),
        estimated("alien", {"row": [None, None]}),
        estimated("hero", {"row": [0.75, 0.75]}),
    )
    finding = judged(ESTIMATION["row"], *groups)
    assert (finding.verdict, finding.value, finding.interval) == (Verdict.REPRODUCED, 0.625, (0.625, 0.625))
    assert "mean of 2 games" in finding.ours
    assert "Alien" not in finding.note


FEW = "too few games"


def measured(*games: str) -> list[list[Kept]]:
    """Every arm of these games, three seeds each: values 3, 3.5 and 4, returns 2; errors and shares by scaling."""
    known = {"minmax": (1.2, 0.5), "row": (0.6, 0.9)}
    return [
        [
            training(f"atari/{game}", arm, seed, 9.0, optimism=(3.0 + 0.5 * seed, 2.0), estimation=known)
            for seed in range(3)
        ]
        for game in games
        for arm in (PLAIN, STRUCTURED, NETWORK)
    ]


def drawn(found: Evidence, folder: Path) -> Figure:
    figure = EXPERIMENT.draw("values", found)
    save_figure(figure, folder / "values.svg")
    assert (folder / "values.svg").stat().st_size < 200_000
    return figure


def names_in_legend(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.parametrize("games", [("frostbite",), ("alien", "frostbite", "pong")])
def test_the_figure_has_a_column_a_game_and_its_series(games: tuple[str, ...], tmp_path: Path):
    figure = drawn(evidence(*measured(*games), scale="short"), tmp_path)
    assert [panel.get_title(loc="left")[:4] for panel in figure.axes] == ["(a) ", "(b) ", "(c) ", "(d) "]
    related = len(games) >= 3
    assert series_of(figure) == ARM_SERIES | SCALING_SERIES | ({"one-game"} if related else set())
    returns, relation, errors, kept = figure.axes
    assert {text.get_text() for text in relation.texts} == ({game.title() for game in games} if related else {FEW})
    for panel in (returns, errors, kept):
        assert [tick.get_text() for tick in panel.get_xticklabels()] == [game.title() for game in games]
    assert EXPERIMENT.drawn_from("values", evidence(*measured(*games), scale="short"))
    assert len(names_in_legend(figure)) == len(set(names_in_legend(figure))) == 5 + related
    # A bar from the return up to the mean of the values.
    assert [bar.get_segments()[0][:, 1].tolist() for bar in returns.collections] == [[2.0, 3.5]] * 3 * len(games)
    assert [bar.get_height() for bar in errors.patches] == pytest.approx([1.2] * len(games) + [0.6] * len(games))
    assert [bar.get_height() for bar in kept.patches] == pytest.approx([0.5] * len(games) + [0.9] * len(games))


def test_games_of_older_trainings_leave_gaps_and_take_nothing_from_the_legend(tmp_path: Path):
    # Alien comes first, and only plain DQN knows its returns there; nobody knows its estimates.
    older = [
        optimistic("alien", PLAIN, [1.0, 1.0]),
        *(optimistic("alien", arm, [None, None]) for arm in (STRUCTURED, NETWORK)),
    ]
    figure = drawn(evidence(*older, *measured("frostbite"), scale="short"), tmp_path)
    assert series_of(figure) == ARM_SERIES | SCALING_SERIES
    assert len(names_in_legend(figure)) == len(set(names_in_legend(figure))) == 5
    assert len(figure.axes[0].collections) == 4
    assert len(figure.axes[2].patches) == 2


def test_negative_values_and_returns_are_seen(tmp_path: Path):
    cells = [kept for arm in (PLAIN, STRUCTURED) for kept in optimistic("pong", arm, [0.5, 0.5], gained=-3.0)]
    returns, *_ = drawn(evidence(cells, scale="short"), tmp_path).axes
    assert returns.get_ylim()[0] < -3.0


def test_without_values_the_figure_says_so(tmp_path: Path):
    older = [seeds("atari/krull", arm, [9.0, 9.0]) for arm in (PLAIN, STRUCTURED)]
    for groups in ([], older):
        figure = drawn(evidence(*groups, scale="short"), tmp_path)
        assert series_of(figure) == set()
        assert [text.get_text() for text in figure.axes[0].texts] == ["too few steps to know returns"]
        assert not EXPERIMENT.drawn_from("values", evidence(*groups, scale="short"))


def test_the_caption_has_optimism_and_errors():
    words = EXPERIMENT.got("values", evidence(*measured("frostbite", "alien"), scale="short"))
    assert "Best values less discounted returns: dqn Alien +1.5, Frostbite +1.5; sv-dqn Alien +1.5" in words
    assert "scale minmax: Alien 1.20, Frostbite 1.20; scale row: Alien 0.60, Frostbite 0.60." in words
    returns = EXPERIMENT.got("values", evidence(optimistic("krull", PLAIN, [0.25])))
    assert returns.strip() == "Best values less discounted returns: dqn Krull +0.25."
    errors = EXPERIMENT.got("values", evidence(estimated("krull", {"row": [0.5]})))
    assert errors == "Error on hidden entries of DQN's values, where the row's mean has 1: scale row: Krull 0.50."
    assert EXPERIMENT.got("values", evidence()) == "No training of this budget knows it."
