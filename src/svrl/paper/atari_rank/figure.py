"""Figure 4: histogram and cumulative distribution of the rank, a panel a game."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from svrl.paper.atari_rank.settings import ARM, ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.figure import RANK, empty_figure, legend_below, lettered, rank_axis
from svrl.paper.training_cells.reading import envs_of, rank_shares, title_of, trainings
from svrl.plots.style import BLUE, ORANGE, STYLE, tag

_KINDS = (("", "-", False), (", rows centred", "--", True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The games that there are, side by side."""
    envs = envs_of(evidence, ENVS, (ARM,))
    if not envs:
        return empty_figure(Figure(figsize=(5.6, 1.4), layout="constrained"), "none of these games is in this budget")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.3 * len(envs) + 0.6, 2.7), layout="constrained")
        panels = list(figure.subplots(1, len(envs), squeeze=False)[0])
        for panel, env in zip(panels, envs, strict=True):
            _draw_game(panel, trainings(evidence, env=env, arm=ARM))
            panel.set_title(title_of(env))
            panel.set_xlabel(RANK, fontsize=8)
        panels[0].set_ylabel("share of batches")
        lettered(panels)
        legend_below(figure, panels)
    return figure


def _draw_game(panel: Axes, cells: list[Kept]) -> None:
    for words, style, centred in _KINDS:
        shares = rank_shares(cells, centred=centred)
        name, edges = f"histogram{words}", np.arange(len(shares) + 1) - 0.5
        bars = panel.stairs(shares, edges, fill=not centred, color=ORANGE, alpha=0.8, linestyle=style, label=name)
        tag(bars, name)
        name = f"cumulative{words}"
        line = panel.step(
            np.arange(len(shares)), np.cumsum(shares), where="post", color=BLUE, linestyle=style, label=name
        )
        tag(line, name)
    panel.set_ylim(0, 1.03)
    rank_axis(panel)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
