"""An addition: DQN with and without structure on CartPole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.cartpole_learning.claims import CLAIMS, got
from svrl.paper.cartpole_learning.settings import BUDGETS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.cartpole_learning.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="cartpole_learning",
    title="learning and rank on CartPole",
    figures=("cartpole",),
    says={
        "cartpole": "The smallest check of the whole way, in minutes and without extras. With two actions there is "
        "little structure to find, so a gain here would have another cause."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    addition=True,
)
