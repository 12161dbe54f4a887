from __future__ import annotations

from pathlib import Path

import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.cartpole_learning import ENV, EXPERIMENT
from svrl.paper.running import Computer
from svrl.paper.store import Store

from .hand_made_trainings import evidence, seeds, series_of

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}


def found(shift: float, rank: float = 1.0, scale: str = "laptop") -> Evidence:
    scores = [100.0, 200.0, 300.0, 400.0, 500.0]
    ranks = (rank, 2.0, 1.0, 1.0)
    return evidence(
        seeds(ENV, "dqn", scores, ranks=ranks),
        seeds(ENV, "sv-dqn", [score + shift for score in scores], ranks=ranks),
        scale=scale,
    )


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(500.0, Verdict.REPRODUCED), (0.0, Verdict.NOT_REPRODUCED), (-500.0, Verdict.NOT_REPRODUCED)],
)
def test_improvement(shift: float, verdict: Verdict):
    finding = CLAIMS["cartpole-structure-improves"].judged(found(shift))
    assert finding.verdict is verdict
    assert f"difference {shift:+.3g}" in finding.ours


def test_rank_one_of_two():
    assert CLAIMS["cartpole-rank-one"].judged(found(0.0, rank=1.2)).verdict is Verdict.REPRODUCED
    assert CLAIMS["cartpole-rank-one"].judged(found(0.0, rank=1.8)).verdict is Verdict.NOT_REPRODUCED
    assert CLAIMS["cartpole-rank-one"].judged(found(0.0, scale="smoke")).verdict is Verdict.NOT_RUN


def test_smoke(tmp_path: Path):
    store = Store(root=tmp_path)
    Computer(store=store).compute(EXPERIMENT.missing("smoke", (store,)))
    trained = EXPERIMENT.evidence("smoke", (store,))
    assert trained is not None
    figure = EXPERIMENT.draw("cartpole", trained)
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "(a) CartPole-v1",
        "(b) rank",
        "(c) structured beats plain",
    ]
    assert series_of(figure) >= {"plain", "structured"}
    assert "Mean rank of DQN's values: CartPole-v1" in EXPERIMENT.got("cartpole", trained)
