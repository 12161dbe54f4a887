"""SVP on the four control tasks: policies, trajectories, work, and every baseline beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.control_svp.claims import CLAIMS, got
from svrl.paper.control_svp.settings import BUDGETS, PATHS, POLICIES
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.control_svp.figure import draw

    return draw(figure_id, evidence)


def _says(task: str) -> str:
    return (
        f"On the {task.replace('-', ' ')} SVP is run with several shares of observed pairs and as many iterations as "
        "value iteration; policy and metric stay close to the optimum's."
    )


EXPERIMENT = Experiment(
    name="control_svp",
    title="SVP on control tasks",
    figures=(*POLICIES.values(), *PATHS.values(), "baselines"),
    says={
        **{figure: _says(task) for task, figure in POLICIES.items()},
        **{
            figure: f"Policies of SVP at p = .6 and .2 move the {task.replace('-', ' ')} about as the optimal one does."
            for task, figure in PATHS.items()
        },
        "baselines": "The paper compares with value iteration only. Here are ways to plan from 20% of the pairs.",
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=(
        "Metrics of angles are norms in radians; the paper calls them degrees.",
        "Claims on trajectories test where starts end, not the way there.",
        "Trajectories are of the first three random starts; of angles, of those that the optimum holds upright.",
    ),
)
