"""The addition on control tasks: policy losses while learning, ranks, and how often structure improves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from svrl.paper.control_learning.claims import less_loss
from svrl.paper.control_learning.settings import ARMS, ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.figure import draw_addition, draw_over_seeds, series_name, step_axis
from svrl.paper.training_cells.reading import envs_of, row_of
from svrl.plots.style import STYLE


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """All tasks that there are."""
    with mpl.rc_context(STYLE):
        return draw_addition(
            evidence,
            envs_of(evidence, ENVS, ARMS),
            ARMS,
            upper=_draw_losses,
            upper_label="policy loss (less is better)",
            measure=less_loss,
        )


def _draw_losses(panel: Axes, groups: Mapping[str, Sequence[Kept]]) -> None:
    for arm, cells in groups.items():
        rows = [row_of(kept, "q_star") for kept in cells]
        (steps,) = {tuple(row["steps"]) for row in rows}  # the same for all seeds of a budget
        losses = np.array([row["greedy_loss"] for row in rows], dtype=float)
        draw_over_seeds(panel, series_name(arm), np.array(steps, dtype=float), losses)
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    step_axis(panel)
