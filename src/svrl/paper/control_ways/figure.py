"""Policy losses of each way on each task, and how often it loses less than plain DQN."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.paper.control_learning.claims import less_loss
from svrl.paper.control_learning.settings import ENVS
from svrl.paper.control_ways.claims import by_way, ways_of
from svrl.paper.control_ways.settings import AUTHORS, PLAIN, Way
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.figure import lettered
from svrl.paper.training_cells.gains import Interval, gain_of
from svrl.paper.training_cells.reading import envs_of, title_of, values
from svrl.plots.style import BLUE, GREEN, GREY, ORANGE, STYLE, tag
from svrl.stats import interval_if_several

_COLOURS = {PLAIN.name: BLUE, AUTHORS.name: ORANGE}
"""The others are all of one colour: their names stand beside them."""


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """A column a task, a row a way, with 95% intervals."""
    with mpl.rc_context(STYLE):
        named = by_way(evidence)
        ways = ways_of(named)
        envs = envs_of(named, ENVS, [way.name for way in ways])
        figure = Figure(figsize=(1.9 * len(envs) + 4.4, 0.32 * len(ways) + 1.5), layout="constrained")
        panels = list(figure.subplots(1, len(envs) + 1, sharey=True, squeeze=False)[0])
        for panel, env in zip(panels, envs, strict=False):
            _draw_losses(panel, named, env, ways)
        _draw_improvement(panels[-1], named, envs, ways)
        panels[0].set_yticks(range(len(ways)), [way.name for way in ways])
        panels[0].set_ylim(len(ways) - 0.5, -0.5)
        lettered(panels)
        return figure


def _draw_losses(panel: Axes, named: Evidence, env: str, ways: Sequence[Way]) -> None:
    for row, way in enumerate(ways):
        (found,) = values(named, way.name, (env,), lambda kept: -less_loss(kept))
        _dot(panel, way, row, float(found.mean()), interval_if_several(found))
    (plain,) = values(named, PLAIN.name, (env,), lambda kept: -less_loss(kept))
    panel.axvline(plain.mean(), color=GREY, linewidth=0.8)
    panel.set(title=title_of(env), xlabel="policy loss")


def _draw_improvement(panel: Axes, named: Evidence, envs: Sequence[str], ways: Sequence[Way]) -> None:
    for row, way in enumerate(ways):
        if way is not PLAIN:
            gain = gain_of(named, PLAIN.name, way.name, envs, measure=less_loss)
            _dot(panel, way, row, gain.improvement, gain.improvement_interval)
    panel.axvline(0.5, color=GREY, linewidth=0.8)
    panel.set(title="loses less than plain", xlabel="probability", xlim=(-0.03, 1.03))


def _dot(panel: Axes, way: Way, row: int, value: float, ends: Interval | None) -> None:
    colour = _COLOURS.get(way.name, GREEN)
    if ends is not None:
        tag(panel.hlines(row, *ends, color=colour, linewidth=2.0), way.name)
    tag(panel.plot(value, row, "o", color=colour, markersize=5)[0], way.name)
