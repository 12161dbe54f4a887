from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.control_learning import ENVS
from svrl.paper.experiments.control_ways import (
    AUTHORS,
    BOTH,
    CENTRED,
    CHANGED,
    EXPERIMENT,
    HALF,
    PLAIN,
    WAYS,
    Way,
    by_way,
    way_of,
)
from svrl.paper.running import Computer
from svrl.paper.store import Kept, Store
from svrl.paper.training_cells.compute import config_of

from .hand_made_trainings import evidence, series_of
from .test_control_learning import trained

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}


def push(way: Way) -> float:
    """What completion adds to a target, another number for each way."""
    return 0.1 * WAYS.index(way)


def of_way(env: str, way: Way, seed: int, loss: float) -> Kept:
    kept = trained(env, way.arm, seed, loss)
    rows = [{**row, "target_bias": [push(way), None]} if row["what"] == "learning" else row for row in kept.rows]
    return replace(kept, rows=rows, settings={**kept.settings, "overrides": {"actions": 64, **way.changes}})


def found(less: Mapping[str, int], ways: Iterable[Way] = WAYS, scale: str = "short") -> Evidence:
    """Five seeds of these ways on all tasks; by name, so many 64ths less loss than plain DQN, which do not round."""
    groups = [
        [of_way(env, way, k, (16 + k - less.get(way.name, 0)) / 64) for k in range(5)] for env in ENVS for way in ways
    ]
    return evidence(*groups, scale=scale)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "short", "full"])
def test_every_cell_has_one_way_and_is_what_it_says(scale: str):
    for cell in EXPERIMENT.budgets[scale].cells:
        way = way_of(cell.settings)
        config = config_of(cell.settings).as_json()
        base = PLAIN if way is PLAIN else AUTHORS if len(way.changes) < 2 else CENTRED
        settings = {**cell.settings, "arm": base.arm, "overrides": without(cell.settings["overrides"]) | base.changes}
        beside = config_of(settings).as_json()
        changed = {name: value for name, value in config.items() if value != beside[name]}
        assert changed == dict(way.changes.items() - base.changes.items()) or way is BOTH
        assert len(changed) == (1 if way in CHANGED else 2 if way is BOTH else 0)


def without(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What all ways change of the preset."""
    return {name: value for name, value in overrides.items() if not any(name in way.changes for way in WAYS)}


def test_other_changes_are_no_way():
    settings = {"arm": "sv-dqn", "overrides": {"scale": "row", "observe": 0.3}}
    with pytest.raises(LookupError, match="No way starts from sv-dqn"):
        way_of(settings)


def test_cells_of_the_experiment_before_are_shared():
    from svrl.paper.experiments.control_learning import EXPERIMENT as LEARNING

    mine = {cell.key for cell in EXPERIMENT.budgets["short"].cells}
    theirs = {cell.key for cell in LEARNING.budgets["short"].cells}
    assert theirs < mine
    assert len(mine - theirs) == len(CHANGED) * len(ENVS) * 5


def test_ways_that_share_an_arm_are_told_apart():
    named = by_way(found({}))
    assert {kept.settings["arm"] for kept in named.cells} == {way.name for way in WAYS}
    assert len(named.where(arm=HALF.name)) == 5 * len(ENVS)


@pytest.mark.parametrize(
    ("name", "way", "other"),
    [
        ("centring-alone-improves-on-the-authors", "rows centred", AUTHORS),
        ("the-networks-value-alone-improves-on-the-authors", "network's value", AUTHORS),
        ("completed-values-improve", "rows centred", PLAIN),
        ("estimates-improve", "rows centred + estimate", PLAIN),
        ("fewer-entries-improve", "rows centred + half observed", PLAIN),
        ("less-shrinkage-improves", "rows centred + less shrinkage", PLAIN),
    ],
)
def test_each_claim_is_about_its_way_and_what_it_is_compared_with(name: str, way: str, other: Way):
    # Of 5 x 5 pairs of k and l, l - 3 < k in 22 and a tie in 2.
    better = CLAIMS[name].judged(found({way: 3}))
    assert (better.verdict, better.value) == (Verdict.REPRODUCED, pytest.approx(0.92))
    mine = next(some for some in WAYS if some.name == way)
    assert f"a target on average by: Three Motor Pendulum {push(mine):+.2g}, Inverted" in better.note
    # The one that it is compared with is just as good then, and every other way has nothing to do with it.
    assert CLAIMS[name].judged(found({way: 3, other.name: 3})).value == pytest.approx(0.5)
    others = {some.name: 3 for some in WAYS if some.name not in (way, other.name)}
    same = CLAIMS[name].judged(found(others))
    assert (same.verdict, same.value) == (Verdict.NOT_REPRODUCED, pytest.approx(0.5))


def test_a_way_that_wins_outright_is_said_to_beat_the_one_that_it_is_compared_with():
    better = CLAIMS["centring-alone-improves-on-the-authors"].judged(found({"rows centred": 9}))
    assert "All runs of rows centred beat all of authors, of 5 seeds." in better.note


def test_without_plain_dqn_nothing_is_drawn():
    assert EXPERIMENT.shows("ways", found({}, (PLAIN, AUTHORS)))
    assert not EXPERIMENT.shows("ways", found({}, (AUTHORS, CENTRED)))
    assert not EXPERIMENT.shows("ways", found({}, (PLAIN,)))


def test_a_way_that_is_not_there_is_not_judged():
    some = found({}, (PLAIN, AUTHORS, BOTH))
    assert all(claim.judged(some).verdict is Verdict.NOT_RUN for claim in CLAIMS.values())


def test_the_figure_has_a_row_for_each_way_that_there_is():
    figure = EXPERIMENT.draw("ways", found({CENTRED.name: 3}, (PLAIN, AUTHORS, CENTRED)))
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles[0] == "(a) Three Motor Pendulum"
    assert titles[-1] == "(e) loses less than plain"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["plain", "authors", "rows centred"]
    assert series_of(figure) == {"plain", "authors", "rows-centred"}
    dots = [line for line in figure.axes[-1].get_lines() if line.get_marker() == "o"]
    assert [(float(dot.get_xdata()[0]), dot.get_ydata()[0]) for dot in dots] == [(0.5, 1), (pytest.approx(0.92), 2)]
    losses = [float(line.get_xdata()[0]) for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert losses == pytest.approx([18 / 64, 18 / 64, 15 / 64])


def test_the_words_have_every_way():
    words = EXPERIMENT.got("ways", found({CENTRED.name: 3}))
    assert "rows centred 0.92 (" in words
    assert "authors 0.50 (" in words
    assert "plain 0" not in words


def test_smoke(tmp_path: Path):
    store = Store(root=tmp_path)
    Computer(store=store).compute(EXPERIMENT.missing("smoke", (store,)))
    trained_agents = EXPERIMENT.evidence("smoke", (store,))
    assert trained_agents is not None
    assert series_of(EXPERIMENT.draw("ways", trained_agents)) == {"plain", "authors", "rows-centred-half-observed"}
    assert "rows centred + half observed" in EXPERIMENT.got("ways", trained_agents)
