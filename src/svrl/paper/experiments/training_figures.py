"""Panels that several experiments draw: learning curves and ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.paper.claim import Evidence
from svrl.paper.experiments.gains import Panels
from svrl.paper.experiments.trainings import ENERGY, Measure, curves, envs_of, rank_shares, row_of, score_of, title_of
from svrl.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    in_percent,
    legend_below,
    letter,
    new_figure,
    say,
    step_axis,
    tag,
    whole_numbers,
)
from svrl.runs.store import Kept
from svrl.stats import Interval, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"plain": BLUE, "structured": ORANGE, "structured, valued by the network": GREEN}
"""By the name of a series; the same in all figures."""
HEIGHT = 4.3
"""Of a figure of curves above ranks, inches."""
SCORE = "score, last 100 games"
Groups = Mapping[str, Sequence[Kept]]
"""Trainings of one environment by arm, plain first."""
DrawCurves = Callable[["Axes", Groups], None]
RANK = f"approximate rank, {ENERGY:.0%} of the energy"


def series_name(arm: str) -> str:
    """What a legend calls an arm beside its twin."""
    if arm.endswith("-network"):
        return "structured, valued by the network"
    return "structured" if arm.startswith("sv-") else "plain"


def groups_of(evidence: Evidence, env: str, arms: Sequence[str]) -> Groups:
    """Those of the arms that there are; none without the first two, a plain arm and its twin."""
    groups = {arm: runs for arm in arms if (runs := evidence.where(env=env, arm=arm))}
    return groups if groups.keys() >= set(arms[:2]) else {}


def draw_curves(panel: Axes, groups: Groups) -> None:
    """Mean score over seeds against agent steps, with a 95% interval of the mean where there are several seeds.

    Diamonds are the evaluations at the end, nearly without random actions.
    """
    for arm, runs in groups.items():
        name = series_name(arm)
        known = [mean for kept in runs if (mean := row_of(kept, "score")["evaluation"]) is not None]
        look: dict[str, Any] = {"markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.5}
        end, height = float(runs[0].settings["steps"]), float(np.mean(known)) if known else float("nan")
        tag(panel.plot(end, height, "D", color=COLOURS[name], clip_on=False, zorder=3, **look), name)
        draw_over_seeds(panel, name, *curves(runs))
    if not any(len(curves(runs)[0]) for runs in groups.values()):
        say(panel, "no game has ended yet", height=0.2)
    panel.plot([], [], "D", color=GREY, markersize=4, label="evaluation at the end")
    step_axis(panel)


def draw_over_seeds(panel: Axes, name: str, steps: np.ndarray, values: np.ndarray) -> None:
    """One series: the mean of values (seeds, points), and a 95% interval of it where there are several seeds."""
    if not len(steps):
        return
    # At most 100 points, the last among them: a page has many panels, and a panel a few hundred pixels.
    every = -(-len(steps) // 100)
    first = (len(steps) - 1) % every
    steps, values = steps[first::every], values[:, first::every]
    (line,) = panel.plot(steps, values.mean(0), color=COLOURS[name], label=name, linewidth=1.3)
    tag(line, name)
    if len(values) > 1:
        low, high = np.array([mean_interval(at) for at in values.T]).T
        tag(panel.fill_between(steps, low, high, color=COLOURS[name], alpha=0.2, linewidth=0), name)


def draw_grid(cells: Sequence[tuple[str, Groups, str]], columns: int) -> Figure:
    """Curves of a cell in each panel: its title, its trainings, none if they are not there, and words in its corner."""
    rows = -(-len(cells) // columns)
    figure = new_figure(2.35 * columns + 0.5, 1.95 * rows + 0.5)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(cells) :]:
        panel.set_axis_off()
    panels = panels[: len(cells)]
    for at, (panel, (title, groups, words)) in enumerate(zip(panels, cells, strict=True)):
        panel.set_title(title)
        panel.tick_params(labelsize=7)
        if groups:
            draw_curves(panel, groups)
        else:
            say(panel, "not in this budget")
            panel.set(xticks=[], yticks=[])
        if words:
            panel.annotate(words, (0.03, 0.98), xycoords="axes fraction", va="top", fontsize=6.5, color=GREY)
            panel.margins(y=0.3)
        if at % columns == 0:
            panel.set_ylabel(SCORE, fontsize=8)
        if at >= len(cells) - columns:
            panel.set_xlabel("agent steps")
    letter(panels)
    legend_below(figure, panels)
    return figure


def draw_ranks(panel: Axes, groups: Groups) -> None:
    """Histogram of the rank for each arm, as bars; with row means taken out, as dashed outlines."""
    width, highest = 0.8 / len(groups), 0
    for at, (arm, runs) in enumerate(groups.items()):
        name = series_name(arm)
        raw, centred = rank_shares(runs), rank_shares(runs, centred=True)
        places = np.arange(len(raw))
        highest = max(highest, *np.flatnonzero(raw + centred))
        shift = (at - (len(groups) - 1) / 2) * width
        tag(panel.bar(places + shift, raw, width, color=COLOURS[name], alpha=0.85, label=name).patches, name)
        outline = panel.stairs(centred, np.arange(len(centred) + 1) - 0.5, color=COLOURS[name], linestyle="--")
        tag(outline, f"{name}, rows centred")
        outline.set_label(f"{name}, rows centred")
    panel.set_ylim(0, 1.03)
    if places[-1] > 2 * highest:  # of many actions most ranks are met by no batch
        panel.set_xlim(-0.7, highest + 1.5)
    whole_numbers(panel.xaxis)
    in_percent(panel.yaxis)


def draw_addition(
    figure_id: str,
    evidence: Evidence,
    *,
    envs: Sequence[str],
    arms: Sequence[str],
    measure: Measure = score_of,
    **upper: Any,
) -> Figure:
    """Curves and ranks of each environment, and the probability that structure improves.

    Args:
        figure_id: The only one of an addition.
        evidence: What to read.
        envs: Environments, a column each of those that there are.
        arms: Plain DQN first, then the structured arms.
        measure: By which trainings are compared; more is better.
        **upper: As those of `draw_curves_above_ranks`.
    """
    envs = envs_of(evidence, envs, arms)
    improvement = partial(_draw_improvement, evidence=evidence, envs=envs, arms=arms, measure=measure)
    return draw_curves_above_ranks(evidence, envs, arms, improvement, **upper)


def draw_curves_above_ranks(
    evidence: Evidence,
    envs: Sequence[str],
    arms: Sequence[str],
    draw_last: Callable[[Axes], None],
    *,
    upper: DrawCurves = draw_curves,
    upper_label: str = SCORE,
) -> Figure:
    """A column an environment, curves above and ranks below, and at the right a panel over both rows.

    Args:
        evidence: What to read.
        envs: On which all arms were trained.
        arms: A series each.
        draw_last: Draws the panel at the right.
        upper: Draws the curves of one environment.
        upper_label: What they are curves of.
    """
    figure = new_figure(2.2 * len(envs) + 3.2, HEIGHT)
    grid = figure.add_gridspec(2, len(envs) + 1, width_ratios=[*(1.0 for _ in envs), 1.3])
    top, bottom = ([figure.add_subplot(grid[row, at]) for at in range(len(envs))] for row in (0, 1))
    for above, below, env in zip(top, bottom, envs, strict=True):
        groups = {arm: evidence.where(env=env, arm=arm) for arm in arms}
        upper(above, groups)
        above.set(title=title_of(env), xlabel="agent steps")
        draw_ranks(below, groups)
        below.set_title("rank")
        below.set_xlabel(RANK, fontsize=7)
    top[0].set_ylabel(upper_label)
    bottom[0].set_ylabel("share of batches")
    panels = [*top, *bottom, figure.add_subplot(grid[:, -1])]
    draw_last(panels[-1])
    letter(panels)
    legend_below(figure, panels, columns=3)
    return figure


def _draw_improvement(
    panel: Axes, *, evidence: Evidence, envs: Sequence[str], arms: Sequence[str], measure: Measure
) -> None:
    """Probability that a structured run beats a plain one, for each environment and over all, with 95% intervals."""
    groups = [*((title_of(env), (env,)) for env in envs), *([("all", tuple(envs))] if len(envs) > 1 else [])]
    plain, *structured = arms
    for at, arm in enumerate(structured):
        name, shift = series_name(arm), 0.25 * (at - (len(structured) - 1) / 2)
        for row, (_, some) in enumerate(groups):
            chance, ends = Panels.of(evidence, plain, arm, some, measure).improvement
            draw_dot(panel, row + shift, chance, ends, COLOURS[name], name)
    draw_even_chance(panel, "structured beats plain")
    panel.set_yticks(range(len(groups)), [words for words, _ in groups])
    panel.set_ylim(len(groups) - 0.5, -0.5)


def draw_dot(panel: Axes, height: float, value: float, ends: Interval | None, colour: str, name: str) -> None:
    """A number and its interval, beside others below each other."""
    if ends is not None:
        tag(panel.hlines(height, *ends, color=colour, linewidth=2.0), name)
    tag(panel.plot(value, height, "o", color=colour, markersize=5), name)


def draw_even_chance(panel: Axes, title: str) -> None:
    """The axis of probabilities of improvement."""
    panel.axvline(0.5, color=GREY, linewidth=0.8)
    panel.set(title=title, xlabel="probability of improvement", xlim=(-0.03, 1.03))
