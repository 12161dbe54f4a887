"""An addition: which setting of structure matters, on control tasks with many actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.control_ways.claims import CLAIMS, got, shows
from svrl.paper.control_ways.settings import BUDGETS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.control_ways.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="control_ways",
    title="ways to add structure, one setting at a time",
    figures=("ways",),
    says={
        "ways": "The authors' way and ours differ in two settings, and with the network's value no estimate enters a "
        "target at all. Here each setting is changed alone: the scaling and the value from the authors' way, and, with "
        "rows centred and the completed matrix's value, the output, the share of observed entries and the shrinkage."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    shows=shows,
    addition=True,
)
