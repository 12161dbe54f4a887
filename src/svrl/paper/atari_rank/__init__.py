"""Figure 4: how low the rank of a learned Q is, on four Atari games with 18 actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.atari_rank.claims import CLAIMS, got
from svrl.paper.atari_rank.settings import ARM, BUDGETS, ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.training_cells.reading import envs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.atari_rank.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="atari_rank",
    title="rank of the learned Q on Atari",
    figures=("fig4",),
    says={
        "fig4": "On four games with 18 actions the approximate rank of 32 x 18 matrices of learned values, over "
        "10,000 random batches of states, is small everywhere and mostly 3 or less."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    shows=lambda figure, evidence: bool(envs_of(evidence, ENVS, (ARM,))),
    notes=("The paper does not name its four games. Ours are Frostbite, Krull, Zaxxon and Alien.",),
)
