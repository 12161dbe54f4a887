"""How agents learn: score against agent steps.

A point of a curve is the mean score of the last 100 games that had ended by then, the paper's score.
Where an agent has several seeds, their curves are read at common steps, the line is their mean, and the
band is a 95% interval of that mean by resampling seeds (percentile bootstrap); thin lines are the seeds.
Diamonds are evaluations: games on separate environments, nearly without random actions. Where no games of training are
kept, the curves are those of the evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from svrl.plots.style import CYCLE, GREY, STYLE
from svrl.stats import bootstrap_interval

Rows = Sequence[Mapping[str, Any]]
WINDOW = 100
"""Games in a smoothed score."""
_POINTS = 400
_MOST_DOTS = 3000


def draw_learning(
    curves: Mapping[str, Sequence[Rows]],
    *,
    evaluations: Mapping[str, Sequence[Rows]] | None = None,
    title: str = "",
    window: int = WINDOW,
) -> Figure:
    """Learning curves of agents.

    Args:
        curves: For each agent its seeds, for each seed the rows of its episodes: steps and score.
        evaluations: The same with the rows of evaluations: steps and mean.
        title: Above the picture.
        window: Games in a smoothed score.
    """
    evaluations, ylabel = evaluations or {}, f"score, mean of the last {window} games"
    if not any(rows for seeds in curves.values() for rows in seeds):
        curves = {label: [_as_games(rows) for rows in seeds] for label, seeds in evaluations.items()}
        evaluations, window, ylabel = {}, 1, "score in evaluations"
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.3), layout="constrained")
        panel = figure.subplots()
        alone = sum(len(seeds) for seeds in curves.values()) == 1
        drawn = False
        for at, (label, seeds) in enumerate(curves.items()):
            colour = CYCLE[at % len(CYCLE)]
            drawn |= _draw_agent(panel, label, seeds, colour, window, dots=alone)
            drawn |= _draw_evaluations(panel, evaluations.get(label, ()), colour, named=at == 0)
        if not drawn:
            panel.annotate("no game has ended yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY)
            panel.set(xticks=[], yticks=[])
        panel.set(title=title, xlabel="agent steps", ylabel=ylabel)
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        if drawn:
            panel.legend(fontsize=8)
        if alone and drawn:
            _leave_out_outliers(panel)
    return figure


def smoothed(scores: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """(n,): mean of the last `window` scores (n,) at each, of fewer at the beginning."""
    sums = np.concatenate([[0.0], np.cumsum(scores, dtype=np.float64)])
    ends = np.arange(1, len(scores) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _as_games(evaluations: Rows) -> Rows:
    return [{"steps": row["steps"], "score": row["mean"]} for row in evaluations if row.get("mean") is not None]


def _draw_agent(panel: Axes, label: str, seeds: Sequence[Rows], colour: str, window: int, *, dots: bool) -> bool:
    games = [np.array([(row["steps"], row["score"]) for row in rows], float).T for rows in seeds if rows]
    if not games:
        return False
    lines = [(steps, smoothed(scores, window)) for steps, scores in games]
    if dots:
        steps, scores = games[0]
        thin = -(-len(steps) // _MOST_DOTS)
        panel.plot(steps[::thin], scores[::thin], ".", color=GREY, markersize=2, alpha=0.35, label="one game")
    if len(lines) == 1:
        panel.plot(*lines[0], color=colour, label=label)
        return True
    # Where all seeds have a score and none has ended yet.
    grid = np.linspace(max(steps[0] for steps, _ in lines), min(steps[-1] for steps, _ in lines), _POINTS)
    grid = grid if grid[-1] > grid[0] else grid[-1:]
    for line in lines:
        panel.plot(*line, color=colour, linewidth=0.6, alpha=0.5)
    values = np.stack([np.interp(grid, steps, scores) for steps, scores in lines])
    panel.fill_between(grid, *bootstrap_interval(values), color=colour, alpha=0.2, linewidth=0)
    panel.plot(grid, values.mean(0), color=colour, label=f"{label} ({len(lines)} seeds)")
    return True


def _leave_out_outliers(panel: Axes) -> None:
    """Heights that show lines and evaluations whole, and the dots but for the highest and lowest percent."""
    ends = []
    for line in panel.get_lines():
        heights = np.asarray(line.get_ydata(), float)
        heights = heights[np.isfinite(heights)]
        if len(heights):
            ends += list(np.quantile(heights, [0.01, 0.99] if line.get_marker() == "." else [0.0, 1.0]))
    if ends:
        room = 0.05 * (max(ends) - min(ends)) or 1.0
        panel.set_ylim(min(ends) - room, max(ends) + room)


def _draw_evaluations(panel: Axes, seeds: Sequence[Rows], colour: str, *, named: bool) -> bool:
    points = [(row["steps"], row["mean"]) for rows in seeds for row in rows if row.get("mean") is not None]
    if not points:
        return False
    look: dict[str, Any] = {"markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.6}
    panel.plot(*zip(*points, strict=True), "D", color=colour, label="evaluation" if named else None, **look)
    return True
