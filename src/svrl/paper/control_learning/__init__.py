"""An addition: DQN with and without structure on control tasks with many actions, against the known best Q."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.control_learning.claims import CLAIMS, got
from svrl.paper.control_learning.settings import BUDGETS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.control_learning.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="control_learning",
    title="learning with many actions, where the best Q is known",
    figures=("control",),
    says={
        "control": "Games have few actions, nobody knows their best Q, and with row means taken out the values that "
        "are learned there are not of low rank. On these control tasks there are 64 actions, the best Q is known and "
        "of low rank without its row means too, and a policy's loss is computed exactly. It is where one would look "
        "for a gain first."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    addition=True,
)
