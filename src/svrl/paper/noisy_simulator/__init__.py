"""Planning from a noisy simulator: where low rank pays most. Not in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.noisy_simulator.claims import CLAIMS, got
from svrl.paper.noisy_simulator.settings import BUDGETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.noisy_simulator.figure import draw

    return draw(figure_id, evidence)


EXPERIMENT = Experiment(
    name="noisy_simulator",
    title="planning from a noisy simulator",
    figures=("noise",),
    says={
        "noise": "The paper plans with exact backups, where exact planning needs no structure. Here every backup is a "
        "noisy sample, the actions have no order, and every method draws equally many samples."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    addition=True,
)
