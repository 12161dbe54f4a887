"""Figures 6 and 23 to 28: scores against agent steps on Atari, with and without structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.atari_learning.claims import CLAIMS, got, has_panels
from svrl.paper.atari_learning.settings import BUDGETS, FIGURES
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.atari_learning.figure import draw

    return draw(figure, evidence)


_PART = "Structure raises the score of DQN in most games, and each panel has a label that says so. Part {} of four."

EXPERIMENT = Experiment(
    name="atari_learning",
    title="learning curves on Atari",
    figures=FIGURES,
    says={
        "fig6": "On Breakout, Frostbite, Krull and Zaxxon, all of low rank, structure gives higher scores throughout "
        "training, for DQN, double DQN and dueling DQN alike.",
        **{figure: _PART.format(letter) for figure, letter in zip(FIGURES[1:5], "ABCD", strict=True)},
        "fig27": "The same for double DQN on 16 games: structure helps where the rank is low.",
        "fig28": "The same for dueling DQN on 16 games.",
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    shows=has_panels,
    notes=(
        "The paper's budget takes the preset authors: the figures come from the authors' program, and its settings "
        "are complete. The text differs in loss, exploration and target copies, see the departures.",
        "The paper has no panel for Surround. Ours is the last of figure 26.",
    ),
)
