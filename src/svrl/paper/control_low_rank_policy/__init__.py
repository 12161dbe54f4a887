"""Policies from a part of the converged Q of the four control tasks: is the structure in Q*?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.control_low_rank_policy.claims import CLAIMS, got
from svrl.paper.control_low_rank_policy.settings import BUDGETS, PATHS, POLICIES
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure_id: str, evidence: Evidence) -> Figure:
    # matplotlib is loaded only when something is drawn.
    from svrl.paper.control_low_rank_policy.figure import draw

    return draw(figure_id, evidence)


EXPERIMENT = Experiment(
    name="control_low_rank_policy",
    title="policies from a part of Q*",
    figures=(*POLICIES.values(), *PATHS.values()),
    says={
        **{
            figure: f"Half of the entries of the {task.replace('-', ' ')}'s converged Q, completed by matrix "
            "estimation, give a policy that looks and performs like the optimal one."
            for task, figure in POLICIES.items()
        },
        **{
            figure: f"That policy moves the {task.replace('-', ' ')} nearly as the optimal one does, with nearly the "
            "same inputs."
            for task, figure in PATHS.items()
        },
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=("Claims on trajectories test where starts end, not the way there.",),
)
