"""Our additions, which compare structured arms with plain DQN on small environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiment import Experiment
from svrl.paper.experiments.cartpole_learning import EXPERIMENT as CARTPOLE
from svrl.paper.experiments.control_learning import ARMS, over_the_end
from svrl.paper.experiments.control_learning import ENVS as TASKS
from svrl.paper.experiments.control_learning import EXPERIMENT as CONTROL
from svrl.paper.experiments.control_ways import AUTHORS, BOTH, CENTRED, CHANGED, HALF, PLAIN, WAYS, Way, by_way, way_of
from svrl.paper.experiments.control_ways import EXPERIMENT as WAYS_TO_ADD
from svrl.paper.experiments.minatar_learning import ENVS as GAMES
from svrl.paper.experiments.minatar_learning import EXPERIMENT as MINATAR
from svrl.paper.experiments.trainings import config_of
from svrl.runs.local import run_locally
from svrl.runs.store import Kept, Store

from .hand_made_trainings import evidence, seeds, series_of, training

CLAIMS = {claim.name: claim for experiment in (CARTPOLE, MINATAR, CONTROL, WAYS_TO_ADD) for claim in experiment.claims}
YES, NO, OPEN, NOTHING = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED, Verdict.NOT_RUN
SUPPORTED, AGAINST = Verdict.SUPPORTED, Verdict.CONTRADICTED
THREE = {"plain", "structured", "structured-valued-by-the-network"}


def cartpole(shift: float, rank: float = 1.0, scale: str = "laptop") -> Evidence:
    """Five seeds; the structured arm is shifted."""
    scores = [100.0, 200.0, 300.0, 400.0, 500.0]
    arms = {"dqn": 0.0, "sv-dqn": shift}
    groups = (
        seeds("CartPole-v1", arm, [score + more for score in scores], ranks=(rank, 2.0, 1.0, 1.0))
        for arm, more in arms.items()
    )
    return evidence(*groups, scale=scale)


def minatar(
    structured: float, network: float, rank: float = 2.0, scale: str = "laptop", envs: Sequence[str] = GAMES
) -> Evidence:
    """Ten seeds of each arm on these games; the structured arms are shifted by these numbers."""
    shifts = dict(zip(ARMS, (0.0, structured, network), strict=True))
    groups = [
        seeds(env, arm, [k + shift for k in range(10)], ranks=(rank, 3.0, 4.0, 5.0))
        for env in envs
        for arm, shift in shifts.items()
    ]
    return evidence(*groups, scale=scale)


def trained(env: str, arm: str, seed: int, loss: float, error: float = 0.1, rank: float = 2.0) -> Kept:
    """A training on a control task that ended at this policy loss: until the last quarter it was 1."""
    kept = training(env, arm, seed, score=1.0, ranks=(1.0, 3.0, rank, 5.0))
    row = {
        "what": "q_star",
        "steps": [1000 * k for k in range(1, 9)],
        "greedy_loss": [1.0] * 6 + [loss - 1 / 64, loss + 1 / 64],
        "value_error": [error] * 8,
    }
    return replace(kept, rows=[*kept.rows, row])


def control(
    structured: float, network: float, *, rank: float = 2.0, scale: str = "short", envs: Sequence[str] = TASKS
) -> Evidence:
    """Ten seeds of each arm on these tasks; the structured arms lose so many 64ths less, which do not round."""
    less = dict(zip(ARMS, (0.0, structured, network), strict=True))
    groups = [
        [trained(env, arm, k, (16 + k - less[arm]) / 64, error=(16 - less[arm]) / 64, rank=rank) for k in range(10)]
        for env in envs
        for arm in ARMS
    ]
    return evidence(*groups, scale=scale)


def of_way(env: str, way: Way, seed: int, loss: float) -> Kept:
    """A training with a way's changes."""
    kept = trained(env, way.arm, seed, loss)
    return replace(kept, settings={**kept.settings, "overrides": {"actions": 64, **way.changes}})


def ways(less: Mapping[str, int], some: Iterable[Way] = WAYS, scale: str = "short") -> Evidence:
    """Five seeds of these ways on all tasks; by name, so many 64ths less loss than plain DQN, which do not round."""
    groups = [
        [of_way(env, way, k, (16 + k - less.get(way.name, 0)) / 64) for k in range(5)] for env in TASKS for way in some
    ]
    return evidence(*groups, scale=scale)


M, C = "minatar-structure-improves", "control-structure-improves"
M_CHOICE, C_CHOICE = "minatar-structured-choice-improves", "control-structured-choice-improves"
OF_WAYS = {
    "centring-alone-improves-on-the-authors": ("rows centred", AUTHORS),
    "the-networks-value-alone-improves-on-the-authors": ("network's value", AUTHORS),
    "completed-values-improve": ("rows centred", PLAIN),
    "estimates-improve": ("rows centred + estimate", PLAIN),
    "fewer-entries-improve": ("rows centred + half observed", PLAIN),
    "less-shrinkage-improves": ("rows centred + less shrinkage", PLAIN),
}


@pytest.mark.parametrize(
    ("name", "found", "verdict", "value"),
    [
        ("cartpole-structure-improves", cartpole(500.0), YES, 1.0),
        ("cartpole-structure-improves", cartpole(0.0), NO, 0.5),
        ("cartpole-structure-improves", cartpole(-500.0), NO, 0.0),
        ("cartpole-rank-one", cartpole(0.0, rank=1.2), YES, 0.8),
        ("cartpole-rank-one", cartpole(0.0, rank=1.8), NO, 0.2),
        ("cartpole-rank-one", cartpole(0.0, scale="smoke"), NOTHING, None),
        # Of 10 x 10 pairs of k and l, k + 4 > l in 79 and a tie in 6.
        *((name, minatar(4.0, 4.0), YES, 0.82) for name in (M, M_CHOICE)),
        *((name, minatar(0.0, 0.0), NO, 0.5) for name in (M, M_CHOICE)),
        (M, minatar(4.0, -4.0), YES, 0.82),  # each arm is judged by itself
        (M_CHOICE, minatar(4.0, -4.0), NO, 0.18),
        (M, minatar(4.0, 4.0, scale="smoke"), NOTHING, None),
        ("minatar-low-rank", minatar(0.0, 0.0, rank=3.0), YES, 1.0),
        ("minatar-low-rank", minatar(0.0, 0.0, rank=3.9), NO, 0.1),
        # Some of the games settle nothing: the one that is not there may be the one of high rank.
        *(
            (M, minatar(shift, 0.0, scale=scale, envs=GAMES[:-1]), verdict, value)
            for scale in ("laptop", "short", "full")
            for shift, verdict, value in ((4.0, SUPPORTED, 0.82), (0.0, OPEN, 0.5), (-4.0, AGAINST, 0.18))
        ),
        ("minatar-low-rank", minatar(0.0, 0.0, rank=3.0, envs=GAMES[:-1]), OPEN, 1.0),
        ("minatar-low-rank", minatar(0.0, 0.0, rank=3.9, envs=GAMES[:-1]), AGAINST, 0.1),
        *((name, control(4, 4), YES, 0.82) for name in (C, C_CHOICE)),
        *((name, control(-4, -4), NO, 0.18) for name in (C, C_CHOICE)),
        (C_CHOICE, control(4, -4), NO, 0.18),
        (C, control(4, 4, scale="smoke"), NOTHING, None),
        (C, control(4, 0, envs=TASKS[:2]), SUPPORTED, 0.82),
        ("control-low-rank", control(0, 0, rank=5.0), YES, 1.0),
        ("control-low-rank", control(0, 0, rank=5.9), NO, 0.1),
        ("control-low-rank", control(0, 0, envs=TASKS[:2]), OPEN, 1.0),
        *(
            case
            for name, (way, other) in OF_WAYS.items()
            for case in (
                # Of 5 x 5 pairs of k and l, l - 3 < k in 22 and a tie in 2.
                (name, ways({way: 3}), YES, 0.92),
                # The one that it is compared with is just as good then, and every other way has nothing to do with it.
                (name, ways({way: 3, other.name: 3}), NO, 0.5),
                (name, ways({some.name: 3 for some in WAYS if some.name not in (way, other.name)}), NO, 0.5),
                (name, ways({}, (PLAIN, AUTHORS, BOTH)), NOTHING, None),
            )
        ),
    ],
)
def test_verdicts(name: str, found: Evidence, verdict: Verdict, value: float | None):
    finding = CLAIMS[name].judged(found)
    assert (finding.verdict, finding.value) == (verdict, None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("name", "found", "words"),
    [
        ("cartpole-structure-improves", cartpole(500.0), "difference +500"),
        (M, minatar(0.0, 0.0), "open either way"),
        ("minatar-low-rank", minatar(0.0, 0.0, rank=3.0, envs=GAMES[:-1]), "where they are fewest of 4 of 5 env"),
        # Plain DQN loses 16 to 25 of 64, 20.5 on average, the arm 4 less.
        (C, control(4, 4), f"difference +{4 / 20.5:.3f}"),
        ("control-low-rank", control(0, 0, rank=5.9), "With row means left in it is 100%"),
    ],
)
def test_findings_say_what_was_found(name: str, found: Evidence, words: str):
    finding = CLAIMS[name].judged(found)
    assert words in f"{finding.ours} {finding.note}"


def test_the_last_quarter_counts():
    assert over_the_end(trained("control/mountain-car", "dqn", 0, 0.3), "greedy_loss") == pytest.approx(0.3)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "short", "full"])
def test_a_way_changes_what_it_says_and_nothing_else(scale: str):
    for run in WAYS_TO_ADD.budgets[scale].runs:
        way = way_of(run.settings)
        base = PLAIN if way is PLAIN else AUTHORS if len(way.changes) < 2 else CENTRED
        plain = {k: v for k, v in run.settings["overrides"].items() if not any(k in some.changes for some in WAYS)}
        beside = config_of({**run.settings, "arm": base.arm, "overrides": plain | base.changes}).as_json()
        changed = {name: value for name, value in config_of(run.settings).as_json().items() if value != beside[name]}
        assert changed == dict(way.changes.items() - base.changes.items()) or way is BOTH
        assert len(changed) == (1 if way in CHANGED else 2 if way is BOTH else 0)


def test_ways_are_told_apart_and_share_the_runs_of_control_learning():
    named = by_way(ways({}))
    assert {kept.settings["arm"] for kept in named.runs} == {way.name for way in WAYS}
    assert len(named.where(arm=HALF.name)) == 5 * len(TASKS)
    mine, theirs = ({run.id for run in some.budgets["short"].runs} for some in (WAYS_TO_ADD, CONTROL))
    assert theirs < mine
    assert len(mine - theirs) == len(CHANGED) * len(TASKS) * 5
    with pytest.raises(LookupError, match="No way starts from sv-dqn"):
        way_of({"arm": "sv-dqn", "overrides": {"scale": "row", "p": 0.3}})


def test_a_column_an_environment_and_the_improvement_beside():
    figure = MINATAR.draw("minatar", minatar(4.0, 1.0, envs=GAMES[:2]))
    titles = ["Asterix", "Breakout", "rank", "rank", "structured beats plain"]
    assert [panel.get_title(loc="left")[4:] for panel in figure.axes] == titles
    assert series_of(figure) >= THREE
    assert [tick.get_text() for tick in figure.axes[-1].get_yticklabels()] == [*titles[:2], "all"]


def test_control_tasks_are_drawn_and_compared_by_losses():
    figure = CONTROL.draw("control", control(4, 1, envs=TASKS[:2]))
    assert figure.axes[0].get_ylabel() == "policy loss (less is better)"
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert lines["plain"][0] == 1.0
    assert lines["structured"][-1] == pytest.approx(lines["plain"][-1] - 4 / 64)
    dots = {float(line.get_xdata()[0]) for line in figure.axes[-1].get_lines() if line.get_marker() == "o"}
    assert sorted(dots) == pytest.approx([0.595, 0.82])  # by scores, which are all the same, all would be one half


def test_the_figure_of_ways_has_a_row_for_each_that_there_is():
    some = ways({CENTRED.name: 3}, (PLAIN, AUTHORS, CENTRED))
    figure = WAYS_TO_ADD.draw("ways", some)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["plain", "authors", "rows centred"]
    assert series_of(figure) == {"plain", "authors", "rows-centred"}
    dots = [line for line in figure.axes[-1].get_lines() if line.get_marker() == "o"]
    assert [(float(dot.get_xdata()[0]), dot.get_ydata()[0]) for dot in dots] == [(0.5, 1), (pytest.approx(0.92), 2)]
    losses = [float(line.get_xdata()[0]) for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert losses == pytest.approx([18 / 64, 18 / 64, 15 / 64])
    for few in ((AUTHORS, CENTRED), (PLAIN,)):
        (empty,) = WAYS_TO_ADD.draw("ways", ways({}, few)).axes
        assert empty.texts[0].get_text().startswith("no way")


@pytest.mark.parametrize(
    ("experiment", "series"),
    [
        (CARTPOLE, {"plain", "structured"}),
        (MINATAR, THREE),
        (CONTROL, THREE),
        (WAYS_TO_ADD, {"plain", "authors", "rows-centred-half-observed"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_smoke(experiment: Experiment, series: set[str], tmp_path: Path):
    if experiment is MINATAR:
        pytest.importorskip("minatar")
    store = Store(root=tmp_path)
    run_locally(experiment.missing("smoke", (store,)), store.address, here=True)
    found = experiment.evidence("smoke", (store,))
    assert found is not None
    (figure,) = experiment.says
    assert series_of(experiment.draw(figure, found)) >= series
