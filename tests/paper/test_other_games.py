"""A budget that grows game by game may have none of the games of a figure or claim: that is said, and nothing fails."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.claim import Claim, Evidence, Verdict
from svrl.paper.experiment import Experiment
from svrl.paper.experiments.atari_batch_size import EXPERIMENT as BATCH_SIZE
from svrl.paper.experiments.atari_diagnosis import EXPERIMENT as DIAGNOSIS
from svrl.paper.experiments.atari_learning import EXPERIMENT as LEARNING
from svrl.paper.experiments.atari_learning import FIG6
from svrl.paper.experiments.atari_rank import EXPERIMENT as RANK
from svrl.paper.experiments.trainings import TECHNIQUES
from svrl.plots.style import save_figure

from .hand_made_trainings import evidence, seeds, series_of

EXPERIMENTS = (RANK, LEARNING, DIAGNOSIS, BATCH_SIZE)
ARMS = ("dqn", "sv-dqn", "sv-dqn-network")
HIGH_RANK = (8.0, 9.0, 13.0, 15.0)
# Pong is in one of the four parts of all games, and in the figures of all games of DQN.
DRAWN = {"fig25": {"plain", "structured", "structured-valued-by-the-network"}, "values": set()}
TOLD = {
    "fig4": "This budget has 0 of the 4 games.",
    "fig7": "None of the 4 games is in this budget.",
    "fig25": "This budget has 1 of its 16 panels.",
    "fig30": "This budget has 0 of its 6 panels.",
    "values": "No training of this budget knows it.",
}


def pong(ranks: tuple[float, ...] = (2.0, 3.0, 9.0, 15.0), scores: Sequence[float] = (1.0, 2.0, 3.0)) -> Evidence:
    """Each arm of DQN on Pong, of the short budget: a seed a score."""
    return evidence(*(seeds("atari/pong", arm, scores, ranks=ranks) for arm in ARMS), scale="short")


@pytest.mark.parametrize(
    ("experiment", "figure"),
    [(experiment, figure) for experiment in EXPERIMENTS for figure in experiment.says],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_figure_without_its_games_says_so(experiment: Experiment, figure: str, tmp_path: Path):
    picture = experiment.draw(figure, pong())
    save_figure(picture, tmp_path / "figure.svg")
    assert series_of(picture) == DRAWN.get(figure, set())
    if figure not in DRAWN:
        (panel,) = picture.axes
        assert not panel.axison
        assert [text.get_text()[:8] for text in panel.texts] == ["none of "]
    expected = TOLD.get(figure, "None of its games is in this budget.")
    assert expected in experiment.got(figure, pong())
    # So it has no place on a page.
    assert experiment.drawn_from(figure, pong()) == (figure == "fig25")


@pytest.mark.parametrize(
    ("experiment", "claim"),
    [(experiment, claim) for experiment in EXPERIMENTS for claim in experiment.claims if not claim.printed],
    ids=lambda value: value.name,
)
def test_a_claim_without_its_games_is_not_judged(experiment: Experiment, claim: Claim):
    finding = claim.judged(pong())
    assert (finding.verdict, finding.ours, finding.value) == (Verdict.NOT_RUN, "", None)
    if "short" in claim.scales:
        assert "Nothing that could be compared yet; there is: made by hand." in finding.note
    else:
        assert finding.note == "short is too small"


def test_what_is_said_of_all_games_is_said_of_one():
    # The same scores of 1 to 3 with and without structure, where a random player has -20.7: no draw of the seeds
    # has a gain beyond 2 / 23.7, which is within the limits of comparable. Three seeds have no interval.
    claim = next(claim for claim in DIAGNOSIS.claims if claim.name == "high-rank-comparable-or-slightly-worse")
    few = claim.judged(pong(HIGH_RANK))
    assert (few.verdict, few.value, few.interval) == (Verdict.UNDECIDED, 0.0, None)
    assert few.note.endswith("Pong +0%. Too few seeds for an interval.")
    finding = claim.judged(pong(HIGH_RANK, scores=(1.0, 2.0, 2.0, 3.0)))
    assert (finding.verdict, finding.value) == (Verdict.SUPPORTED, 0.0)
    assert finding.interval is not None
    assert -2 / 23.7 <= finding.interval[0] < 0.0 < finding.interval[1] <= 2 / 23.7
    assert "Pong +0%" in finding.note


def of_these(games: Sequence[str], gain: float, rank: float, scale: str) -> Evidence:
    """Five seeds of each technique with and without structure, of scores around 1000 beyond a random player's."""
    groups = []
    for game, kind in itertools.product(games, TECHNIQUES):
        base = ALL_GAMES[game].random_score + 1000.0
        for arm, shift in ((kind, 0.0), (f"sv-{kind}", gain)):
            scores = [base + shift + step for step in range(5)]
            groups.append(seeds(f"atari/{game}", arm, scores, ranks=(rank, rank, 9.0, 15.0)))
    return evidence(*groups, scale=scale)


@pytest.mark.parametrize(
    "name",
    [
        *(f"{kind}-gains-across-time" for kind in TECHNIQUES),
        "gains-consistent-over-techniques",
        "games-of-fig6-are-low-rank",
    ],
)
def test_one_game_of_four_may_contradict_a_claim_and_cannot_support_it(name: str):
    claim = next(claim for claim in LEARNING.claims if claim.name == name)
    for games, gain, rank, so_far, verdict in (
        (FIG6, 300.0, 2.0, Verdict.SUPPORTED, Verdict.REPRODUCED),
        (FIG6[:1], 300.0, 2.0, Verdict.UNDECIDED, Verdict.NOT_REPRODUCED),
        (FIG6[:1], -300.0, 9.0, Verdict.CONTRADICTED, Verdict.NOT_REPRODUCED),
    ):
        short, full = (claim.judged(of_these(games, gain, rank, scale)) for scale in ("short", "full"))
        assert (short.verdict, full.verdict) == (so_far, verdict)
        assert short.interval is not None
