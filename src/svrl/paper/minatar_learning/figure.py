"""The addition on MinAtar: curves, ranks, and how often structure improves."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure

from svrl.paper.evidence import Evidence
from svrl.paper.minatar_learning.settings import ARMS, ENVS
from svrl.paper.training_cells.figure import draw_addition
from svrl.paper.training_cells.reading import envs_of
from svrl.plots.style import STYLE


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """All environments that there are."""
    with mpl.rc_context(STYLE):
        return draw_addition(evidence, envs_of(evidence, ENVS, ARMS), ARMS)
