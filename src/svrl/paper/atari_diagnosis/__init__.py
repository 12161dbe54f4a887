"""Figure 7: does the rank of Q tell how much structure gains?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.atari_diagnosis.claims import CLAIMS, got
from svrl.paper.atari_diagnosis.settings import BUDGETS, ENVS
from svrl.paper.atari_diagnosis.value_claims import FIGURE, VALUE_CLAIMS, knows_values, told_of_values
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.training_cells.atari import PAIR
from svrl.paper.training_cells.reading import envs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.atari_diagnosis.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="atari_diagnosis",
    title="rank against gain on Atari",
    figures=("fig7", FIGURE),
    says={
        "fig7": "Structure gains on Frostbite and Krull, whose rank is about 2, gains a little on Alien, of about 5, "
        "and loses a little on Seaquest, of about 10: the lower the rank, the larger the gain.",
        FIGURE: "Why does structure gain or lose? Completion changes what the best action is thought to be worth, and "
        "which one it is. So values are held against returns, and estimates of hidden values against those values.",
    },
    budgets=BUDGETS,
    draw=_draw,
    got=lambda figure, evidence: told_of_values(evidence) if figure == FIGURE else got(figure, evidence),
    claims=(*CLAIMS, *VALUE_CLAIMS),
    shows=lambda figure, evidence: knows_values(evidence) if figure == FIGURE else bool(envs_of(evidence, ENVS, PAIR)),
    notes=(
        "The panel of rank against gain is ours. It has all games of DQN that the budget has, not only the four.",
        "Alien is slightly better in this figure and better in figure 23.",
    ),
)
