"""The diagrams of SVP and SV-RL. Nothing in them is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.evidence import Evidence
from svrl.paper.experiment import SCALES, Budget, Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.diagrams.figure import draw

    return draw(figure_id, evidence)


def _got(figure_id: str, evidence: Evidence) -> str:
    return "Drawn anew from the description; the matrices in it are made up."


EXPERIMENT = Experiment(
    name="diagrams",
    title="diagrams of SVP and SV-RL",
    figures=("fig2", "fig5"),
    says={
        "fig2": "In each iteration SVP backs up a random part of the pairs and recovers the rest of Q by estimation.",
        "fig5": "SV-RL keeps a part of the batch's next-state values, completes the rest, and forms targets from it; "
        "nothing else changes.",
    },
    budgets=dict.fromkeys(SCALES, Budget(cells=(), words="nothing to run")),
    draw=_draw,
    got=_got,
    claims=(),
)
