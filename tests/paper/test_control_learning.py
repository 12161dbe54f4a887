from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.control_learning import ARMS, ENVS, EXPERIMENT, over_the_end
from svrl.paper.running import Computer
from svrl.paper.store import Kept, Store

from .hand_made_trainings import evidence, series_of, training

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
ALL_SERIES = {"plain", "structured", "structured-valued-by-the-network"}


def trained(env: str, arm: str, seed: int, loss: float, error: float = 0.1, rank: float = 2.0) -> Kept:
    """A training that ended at this policy loss: until the last quarter it was 1."""
    kept = training(env, arm, seed, score=1.0, ranks=(1.0, 3.0, rank, 5.0))
    row = {
        "what": "q_star",
        "steps": [1000 * k for k in range(1, 9)],
        "greedy_loss": [1.0] * 6 + [loss - 1 / 64, loss + 1 / 64],
        "value_error": [error] * 8,
    }
    return replace(kept, rows=[*kept.rows, row])


def found(
    structured: float, network: float, *, rank: float = 2.0, scale: str = "short", envs: Sequence[str] = ENVS
) -> Evidence:
    """Ten seeds of each arm on these tasks; the structured arms lose so many 64ths less, which do not round."""
    less = dict(zip(ARMS, (0.0, structured, network), strict=True))
    groups = [
        [trained(env, arm, k, (16 + k - less[arm]) / 64, error=(16 - less[arm]) / 64, rank=rank) for k in range(10)]
        for env in envs
        for arm in ARMS
    ]
    return evidence(*groups, scale=scale)


def test_the_last_quarter_counts():
    assert over_the_end(trained("control/mountain-car", "dqn", 0, 0.3), "greedy_loss") == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["control-structure-improves", "control-structured-choice-improves"])
def test_less_loss_is_an_improvement(name: str):
    better = CLAIMS[name].judged(found(4, 4))
    assert better.verdict is Verdict.REPRODUCED
    # Of 10 x 10 pairs of k and l, l - 4 < k in 79 and a tie in 6.
    assert better.value == pytest.approx(0.82)
    # Plain DQN loses 16 to 25 of 64, 20.5 on average, the arm 4 less.
    assert f"difference +{4 / 20.5:.3f}" in better.ours
    assert "err less than plain DQN's with probability 1.00" in better.note
    worse = CLAIMS[name].judged(found(-4, -4))
    assert (worse.verdict, worse.value) == (Verdict.NOT_REPRODUCED, pytest.approx(0.18))
    assert CLAIMS[name].judged(found(0, 0, scale="smoke")).verdict is Verdict.NOT_RUN


def test_each_arm_is_judged_by_itself():
    cells = found(4, -4)
    assert CLAIMS["control-structure-improves"].judged(cells).verdict is Verdict.REPRODUCED
    assert CLAIMS["control-structured-choice-improves"].judged(cells).verdict is Verdict.NOT_REPRODUCED


def test_some_of_the_tasks_settle_nothing():
    finding = CLAIMS["control-structure-improves"].judged(found(4, 0, envs=ENVS[:2]))
    assert finding.verdict is Verdict.SUPPORTED
    assert CLAIMS["control-low-rank"].judged(found(0, 0, envs=ENVS[:2])).verdict is Verdict.UNDECIDED


def test_ranks_are_those_without_row_means():
    assert CLAIMS["control-low-rank"].judged(found(0, 0, rank=5.0)).verdict is Verdict.REPRODUCED
    high = CLAIMS["control-low-rank"].judged(found(0, 0, rank=5.9))
    assert (high.verdict, high.value) == (Verdict.NOT_REPRODUCED, pytest.approx(0.1))
    assert "With row means left in it is 100%" in high.note


def test_the_figure_has_losses_ranks_and_the_improvement():
    figure = EXPERIMENT.draw("control", found(4, 1, envs=ENVS[:2]))
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "(a) Three Motor Pendulum",
        "(b) Inverted Pendulum",
        "(c) rank",
        "(d) rank",
        "(e) structured beats plain",
    ]
    assert series_of(figure) >= ALL_SERIES
    assert figure.axes[0].get_ylabel() == "policy loss (less is better)"
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert lines["plain"][0] == 1.0
    assert lines["structured"][-1] == pytest.approx(lines["plain"][-1] - 4 / 64)
    dots = {float(line.get_xdata()[0]) for line in figure.axes[-1].get_lines() if line.get_marker() == "o"}
    # By losses: by scores, which are all the same, every dot would be at one half.
    assert sorted(dots) == pytest.approx([0.595, 0.82])


def test_the_words_have_losses_errors_and_ranks():
    words = EXPERIMENT.got("control", found(4, 0, envs=ENVS[:1]))
    assert "Three Motor Pendulum dqn 0.320 (0.292 to 0.348), sv-dqn 0.258 (" in words
    assert "dqn 0.250 (0.250 to 0.250), sv-dqn 0.188 (" in words
    assert words.endswith("Mean rank of DQN's values: Three Motor Pendulum 1.0, rows centred 2.0.")


def test_smoke(tmp_path: Path):
    store = Store(root=tmp_path)
    Computer(store=store).compute(EXPERIMENT.missing("smoke", (store,)))
    trained_agents = EXPERIMENT.evidence("smoke", (store,))
    assert trained_agents is not None
    assert series_of(EXPERIMENT.draw("control", trained_agents)) >= ALL_SERIES
    assert "Policy loss over the last quarter" in EXPERIMENT.got("control", trained_agents)
