"""Figures 6 and 23 to 28: a panel a game, or a game and a technique."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.paper.atari_learning.judges import label_of
from svrl.paper.atari_learning.settings import FIG6, GAMES_OF, TECHNIQUES_OF
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.atari import ARMS_OF, TECHNIQUES, env_names
from svrl.paper.training_cells.figure import (
    SCORE,
    draw_curves,
    empty_figure,
    legend_below,
    lettered,
    say,
)
from svrl.paper.training_cells.gains import gain_of, percent
from svrl.paper.training_cells.reading import envs_of, mean_rank, title_of, trainings
from svrl.plots.style import GREY, STYLE

COLUMNS = 4
_NOTHING = "none of the games of this figure is in this budget"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the seven figures, with the panels that there are."""
    with mpl.rc_context(STYLE):
        if figure_id == "fig6":
            return _draw_techniques(evidence)
        (kind,) = TECHNIQUES_OF[figure_id]
        envs = envs_of(evidence, env_names(GAMES_OF[figure_id]), (kind, f"sv-{kind}"))
        if not envs:
            return _empty()
        return _draw_games(evidence, kind, envs)


def _empty() -> Figure:
    return empty_figure(Figure(figsize=(5.6, 1.4), layout="constrained"), _NOTHING)


def _draw_techniques(evidence: Evidence) -> Figure:
    """A row a technique, a column a game; what is missing is said."""
    envs = [env for env in env_names(FIG6) if trainings(evidence, env=env)]
    if not envs:
        return _empty()
    kinds = [kind for kind in TECHNIQUES if envs_of(evidence, envs, (kind, f"sv-{kind}"))]
    size = 2.2 * len(envs) + 0.8, 1.8 * len(kinds) + 0.6
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(kinds), len(envs), squeeze=False)
    for row, kind in zip(panels, kinds, strict=True):
        for panel, env in zip(row, envs, strict=True):
            panel.set_title(f"{title_of(env)}, {kind}")
            _draw_pair(panel, evidence, kind, env)
        row[0].set_ylabel(SCORE, fontsize=8)
    for panel in panels[-1]:
        panel.set_xlabel("agent steps")
    lettered(list(panels.flat))
    legend_below(figure, list(panels.flat))
    return figure


def _draw_games(evidence: Evidence, kind: str, envs: Sequence[str]) -> Figure:
    """A panel a game, with its rank, its gain and the paper's label."""
    columns = min(COLUMNS, len(envs))
    rows = -(-len(envs) // columns)
    figure = Figure(figsize=(2.35 * columns + 0.5, 1.95 * rows + 0.5), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(envs) :]:
        panel.set_axis_off()
    shown = panels[: len(envs)]
    for at, (panel, env) in enumerate(zip(shown, envs, strict=True)):
        panel.set_title(title_of(env))
        _draw_pair(panel, evidence, kind, env)
        panel.annotate(
            _beside(evidence, kind, env), (0.03, 0.98), xycoords="axes fraction", va="top", fontsize=6.5, color=GREY
        )
        panel.margins(y=0.3)
        if at % columns == 0:
            panel.set_ylabel(SCORE, fontsize=8)
        if at >= len(envs) - columns:
            panel.set_xlabel("agent steps")
    lettered(shown)
    legend_below(figure, shown)
    return figure


def _draw_pair(panel: Axes, evidence: Evidence, kind: str, env: str) -> None:
    groups = {arm: found for arm in ARMS_OF[kind] if (found := trainings(evidence, env=env, arm=arm))}
    if {kind, f"sv-{kind}"} <= groups.keys():
        draw_curves(panel, groups)
    else:
        say(panel, "not in this budget")
        panel.set(xticks=[], yticks=[])
    panel.tick_params(labelsize=7)


def _beside(evidence: Evidence, kind: str, env: str) -> str:
    """Rank of the plain agent, gain of the structured one, and what the paper says of it."""
    rank = float(np.mean([mean_rank(kept) for kept in trainings(evidence, env=env, arm=kind)]))
    gain = float(gain_of(evidence, kind, f"sv-{kind}", (env,)).relative[0])
    return f"rank {rank:.1f}, gain {percent(gain)}\npaper: {label_of(env, kind) or 'no label'}"
