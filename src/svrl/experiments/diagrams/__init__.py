"""The diagrams of SVP and SV-RL, and checks of what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.experiments.diagrams.claims import CLAIMS, got
from svrl.experiments.diagrams.settings import BUDGETS
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.experiments.diagrams.figure import draw

    return draw(figure_id, evidence)


EXPERIMENT = Experiment(
    name="diagrams",
    title="diagrams of SVP and SV-RL",
    figures=("fig2", "fig5"),
    says={
        "fig2": "In each iteration SVP backs up a random part of the pairs and recovers the rest of Q by estimation.",
        "fig5": "SV-RL keeps a part of the batch's next-state values, completes the rest, and forms targets from it; "
        "nothing else changes.",
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=("Drawn anew from the description; the matrices in them are made up.",),
)
