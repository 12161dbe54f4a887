"""An addition: DQN with and without structure on MinAtar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.minatar_learning.claims import CLAIMS, got
from svrl.paper.minatar_learning.settings import BUDGETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.minatar_learning.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="minatar_learning",
    title="learning and rank on MinAtar",
    figures=("minatar",),
    says={
        "minatar": "Atari needs days of computing. MinAtar has five of its games on small grids, with 6 actions and "
        "random transitions, and ten seeds of it fit on a laptop: enough to tell whether structure helps there."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    addition=True,
)
