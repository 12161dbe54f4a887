"""Figure 7: does the rank of Q tell how much structure gains?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.experiments.atari_diagnosis.claims import CLAIMS, got
from svrl.experiments.atari_diagnosis.settings import BUDGETS
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.experiments.atari_diagnosis.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="atari_diagnosis",
    title="rank against gain on Atari",
    figures=("fig7",),
    says={
        "fig7": "Structure gains on Frostbite and Krull, whose rank is about 2, gains a little on Alien, of about 5, "
        "and loses a little on Seaquest, of about 10: the lower the rank, the larger the gain."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    notes=(
        "The panel of rank against gain is ours. It has all games of DQN that the budget has, not only the four.",
        "Alien is slightly better in this figure and better in figure 23.",
    ),
)
