"""The pendulum on three grids (appendix G.1): ranks, deviations and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.control_discretisation.claims import CLAIMS, got
from svrl.paper.control_discretisation.settings import BUDGETS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.control_discretisation.figure import draw

    return draw(figure_id, evidence)


EXPERIMENT = Experiment(
    name="control_discretisation",
    title="the pendulum on three grids",
    figures=("fig29", "table1"),
    says={
        "fig29": "On three grids, 400x100 to 10000x4000, SVP from 20% of the pairs finds almost the optimal policy.",
        "table1": "On the three grids the approximate rank is 4 to 8, and SVP's deviation is near the optimum's.",
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=("The grid of 10000x4000 is planned at full scale only: a plan takes a quarter of an hour on two cores.",),
)
