from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.minatar_learning import ARMS, ENVS, EXPERIMENT
from svrl.paper.running import Computer
from svrl.paper.store import Store

from .hand_made_trainings import evidence, seeds, series_of

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
ALL_SERIES = {"plain", "structured", "structured-valued-by-the-network"}


def found(
    structured: float, network: float, rank: float = 2.0, scale: str = "laptop", envs: Sequence[str] = ENVS
) -> Evidence:
    """Ten seeds of each arm on these games; the structured arms are shifted by these numbers."""
    shifts = dict(zip(ARMS, (0.0, structured, network), strict=True))
    groups = [
        seeds(env, arm, [k + shift for k in range(10)], ranks=(rank, 3.0, 4.0, 5.0))
        for env in envs
        for arm, shift in shifts.items()
    ]
    return evidence(*groups, scale=scale)


@pytest.mark.parametrize("name", ["minatar-structure-improves", "minatar-structured-choice-improves"])
def test_an_improvement_is_decided_by_its_interval(name: str):
    claim = CLAIMS[name]
    better = claim.judged(found(4.0, 4.0))
    assert better.verdict is Verdict.REPRODUCED
    # Of 10 x 10 pairs of k and l, k + 4 > l in 79 and a tie in 6.
    assert better.value == pytest.approx(0.82)
    assert better.interval is not None
    assert 0.5 < better.interval[0] < 0.82 < better.interval[1]
    assert "moved the largest value of a row by +0.01" in better.note
    same = claim.judged(found(0.0, 0.0))
    assert (same.verdict, same.value) == (Verdict.NOT_REPRODUCED, 0.5)
    assert "open either way" in same.note
    assert claim.judged(found(4.0, 4.0, scale="smoke")).verdict is Verdict.NOT_RUN


def test_each_arm_is_judged_by_itself():
    cells = found(4.0, -4.0)
    assert CLAIMS["minatar-structure-improves"].judged(cells).verdict is Verdict.REPRODUCED
    assert CLAIMS["minatar-structured-choice-improves"].judged(cells).verdict is Verdict.NOT_REPRODUCED


def test_ranks():
    assert CLAIMS["minatar-low-rank"].judged(found(0.0, 0.0, rank=3.0)).verdict is Verdict.REPRODUCED
    high = CLAIMS["minatar-low-rank"].judged(found(0.0, 0.0, rank=3.9))
    assert (high.verdict, high.value) == (Verdict.NOT_REPRODUCED, pytest.approx(0.1))


@pytest.mark.parametrize("scale", ["laptop", "short", "full"])
def test_some_of_the_games_settle_nothing(scale: str):
    some = ENVS[:-1]
    claim = CLAIMS["minatar-structure-improves"]
    for shift, value, verdict in (
        (4.0, 0.82, Verdict.SUPPORTED),
        (0.0, 0.5, Verdict.UNDECIDED),
        (-4.0, 0.18, Verdict.CONTRADICTED),
    ):
        finding = claim.judged(found(shift, 0.0, scale=scale, envs=some))
        assert (finding.verdict, finding.value) == (verdict, pytest.approx(value))
    # The game that is not there may be the one of high rank.
    low, high = (
        CLAIMS["minatar-low-rank"].judged(found(0.0, 0.0, rank=rank, scale=scale, envs=some)) for rank in (3.0, 3.9)
    )
    assert (low.verdict, low.value, low.interval) == (Verdict.UNDECIDED, 1.0, (1.0, 1.0))
    assert low.ours.endswith("where they are fewest of 4 of 5 environments")
    assert (high.verdict, high.value) == (Verdict.CONTRADICTED, pytest.approx(0.1))


def test_the_figure_has_curves_ranks_and_the_improvement():
    figure = EXPERIMENT.draw("minatar", found(4.0, 1.0, envs=ENVS[:2]))
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "(a) Asterix",
        "(b) Breakout",
        "(c) rank",
        "(d) rank",
        "(e) structured beats plain",
    ]
    assert series_of(figure) >= ALL_SERIES
    assert [tick.get_text() for tick in figure.axes[-1].get_yticklabels()] == ["Asterix", "Breakout", "all"]


def test_budgets():
    assert len(EXPERIMENT.budgets["laptop"].cells) == 10 * 3
    assert len(EXPERIMENT.budgets["full"].cells) == 10 * 3 * 5
    assert {cell.settings["steps"] for cell in EXPERIMENT.budgets["full"].cells} == {1_000_000}


def test_smoke(tmp_path: Path):
    pytest.importorskip("minatar")
    store = Store(root=tmp_path)
    assert EXPERIMENT.evidence("smoke", (store,)) is None
    Computer(store=store).compute(EXPERIMENT.missing("smoke", (store,)))
    trained = EXPERIMENT.evidence("smoke", (store,))
    assert trained is not None
    assert series_of(EXPERIMENT.draw("minatar", trained)) >= ALL_SERIES
    assert "rows centred" in EXPERIMENT.got("minatar", trained)
