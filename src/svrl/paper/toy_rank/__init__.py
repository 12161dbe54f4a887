"""The toy MDP of section 2: the rank of Q falls during value iteration, and half of the pairs are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.toy_rank.claims import CLAIMS, got
from svrl.paper.toy_rank.settings import BUDGETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.toy_rank.figure import draw

    return draw(figure_id, evidence)


EXPERIMENT = Experiment(
    name="toy_rank",
    title="rank and error on a toy MDP",
    figures=("fig1",),
    says={
        "fig1": "On a random deterministic MDP with 1000 states and 100 actions the rank of Q falls within a few "
        "iterations, and completing Q from half of the pairs in each iteration is comparable to value iteration."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=("How the rewards are drawn is not stated; U(0, 1) gives the paper's figure and N(0, 1) does not.",),
)
