from __future__ import annotations

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.atari_rank import ENVS, EXPERIMENT

from .hand_made_trainings import evidence, seeds, series_of

(CLAIM,) = EXPERIMENT.claims


def ranked(*ranks: float, scale: str = "full", count: int = 3) -> Evidence:
    """Plain DQN on the four games, with these mean ranks."""
    groups = [
        seeds(env, "dqn", [100.0] * count, ranks=(rank, rank, 9.0, 15.0)) for env, rank in zip(ENVS, ranks, strict=True)
    ]
    return evidence(*groups, scale=scale)


@pytest.mark.parametrize(
    ("ranks", "scale", "verdict"),
    [
        ((1.0, 2.0, 3.0, 3.2), "full", Verdict.REPRODUCED),
        ((1.0, 2.0, 3.0, 3.8), "full", Verdict.NOT_REPRODUCED),
        # Of Alien's batches 80% and 20% have a rank of 3 or less, in all seeds.
        ((1.0, 2.0, 3.0, 3.2), "short", Verdict.SUPPORTED),
        ((1.0, 2.0, 3.0, 3.8), "short", Verdict.CONTRADICTED),
        ((1.0, 2.0, 3.0, 3.2), "laptop", Verdict.NOT_RUN),
    ],
)
def test_the_game_with_the_fewest_low_ranks_decides(ranks: tuple[float, ...], scale: str, verdict: Verdict):
    finding = CLAIM.judged(ranked(*ranks, scale=scale))
    assert finding.verdict is verdict
    if verdict is not Verdict.NOT_RUN:
        share = "80% (0.80 to 0.80)" if ranks[-1] == 3.2 else "20% (0.20 to 0.20)"
        assert finding.ours == f"{share} of the batches in Alien, where they are fewest"
        assert ("Only the budget full settles it." in finding.note) == (scale == "short")
        assert "row means taken out it is 0%" in finding.note


def test_one_seed_is_not_enough():
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = CLAIM.judged(ranked(1.0, 1.0, 1.0, 1.0, scale=scale, count=1))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, 1.0, None)


def test_the_figure_has_a_panel_a_game_and_its_series():
    figure = EXPERIMENT.draw("fig4", ranked(1.0, 2.0, 3.0, 3.5))
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "(a) Frostbite",
        "(b) Krull",
        "(c) Zaxxon",
        "(d) Alien",
    ]
    assert series_of(figure) == {
        "histogram",
        "histogram-rows-centred",
        "cumulative",
        "cumulative-rows-centred",
    }


def test_the_caption_has_both_ranks_and_says_what_is_missing():
    cells = ranked(1.0, 2.0, 3.0, 3.5)
    assert "Krull 2.0 (9.0)" in EXPERIMENT.got("fig4", cells)
    some = Evidence(scale="laptop", words="", cells=cells.cells[:3])
    assert "This budget has 1 of the 4 games" in EXPERIMENT.got("fig4", some)


def test_the_games_have_18_actions_and_the_budgets_all_of_them():
    assert all(len(EXPERIMENT.budgets[scale].cells) == 4 * 3 for scale in ("short", "full"))
    assert {cell.settings["batches"] for cell in EXPERIMENT.budgets["full"].cells} == {10_000}
