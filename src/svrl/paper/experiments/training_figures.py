"""Panels that several experiments draw: learning curves and ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.paper.claim import Evidence
from svrl.paper.experiments import trainings
from svrl.paper.experiments.gains import gain_of
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
from svrl.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"plain": BLUE, "structured": ORANGE, "structured, valued by the network": GREEN}
"""By the name of a series; the same in all figures."""
SCORE = "score, last 100 games"
DrawCurves = Callable[["Axes", Mapping[str, Sequence[Kept]]], None]
"""Draws curves of the trainings of one environment, by arm, in a panel."""
RANK = f"approximate rank, {ENERGY:.0%} of the energy"


def series_name(arm: str) -> str:
    """What a legend calls an arm beside its twin."""
    if arm.endswith("-network"):
        return "structured, valued by the network"
    return "structured" if arm.startswith("sv-") else "plain"


def draw_curves(panel: Axes, groups: Mapping[str, Sequence[Kept]]) -> None:
    """Mean score over seeds against agent steps, with a 95% interval of the mean where there are several seeds.

    Diamonds are the evaluations at the end, nearly without random actions.

    Args:
        panel: Where.
        groups: Trainings of one environment, by arm.
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


def draw_ranks(panel: Axes, groups: Mapping[str, Sequence[Kept]]) -> None:
    """Histogram of the rank for each arm, as bars; with row means taken out, as dashed outlines.

    Args:
        panel: Where.
        groups: Trainings of one environment, by arm.
    """
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
    upper: DrawCurves = draw_curves,
    upper_label: str = SCORE,
    measure: Measure = score_of,
) -> Figure:
    """Curves and ranks of each environment, and the probability that structure improves.

    Args:
        figure_id: The only one of an addition.
        evidence: What to read.
        envs: Environments, a column each of those that there are.
        arms: Plain DQN first, then the structured arms.
        upper: Draws the curves of one environment.
        upper_label: What they are curves of.
        measure: By which trainings are compared; more is better.
    """
    envs, (plain, *structured) = envs_of(evidence, envs, arms), arms
    figure = new_figure(2.5 * len(envs) + 3.0, 4.4)
    panels, last = draw_curves_above_ranks(figure, evidence, envs, arms, upper=upper, upper_label=upper_label)
    _draw_improvement(last, evidence, envs, plain, structured, measure)
    letter([*panels, last])
    legend_below(figure, [*panels, last], columns=3)
    return figure


def draw_curves_above_ranks(
    figure: Figure,
    evidence: Evidence,
    envs: Sequence[str],
    arms: Sequence[str],
    *,
    last_width: float = 1.0,
    upper: DrawCurves = draw_curves,
    upper_label: str = SCORE,
) -> tuple[list[Axes], Axes]:
    """A column an environment, curves above and ranks below.

    Returns:
        The panels, curves first, and an empty one at the right, over both rows and so many times as wide.
    """
    grid = figure.add_gridspec(2, len(envs) + 1, width_ratios=[*(1.0 for _ in envs), last_width])
    top, bottom = ([figure.add_subplot(grid[row, at]) for at in range(len(envs))] for row in (0, 1))
    for above, below, env in zip(top, bottom, envs, strict=True):
        groups = {arm: trainings.of(evidence, env=env, arm=arm) for arm in arms}
        upper(above, groups)
        above.set(title=title_of(env), xlabel="agent steps")
        draw_ranks(below, groups)
        below.set_title("rank")
        below.set_xlabel(RANK, fontsize=7)
    top[0].set_ylabel(upper_label)
    bottom[0].set_ylabel("share of batches")
    return [*top, *bottom], figure.add_subplot(grid[:, -1])


def _draw_improvement(
    panel: Axes, evidence: Evidence, envs: Sequence[str], plain: str, arms: Sequence[str], measure: Measure
) -> None:
    """Probability that a structured run beats a plain one, for each environment and over all, with 95% intervals."""
    groups = [*((title_of(env), (env,)) for env in envs), *([("all", tuple(envs))] if len(envs) > 1 else [])]
    for at, arm in enumerate(arms):
        name = series_name(arm)
        for row, (_, some) in enumerate(groups):
            gain = gain_of(evidence, plain, arm, some, measure=measure)
            place = row + 0.25 * (at - (len(arms) - 1) / 2)
            ends = gain.improvement_interval
            if ends is not None:
                tag(panel.hlines(place, *ends, color=COLOURS[name], linewidth=2.0), name)
            tag(panel.plot(gain.improvement, place, "o", color=COLOURS[name], markersize=5), name)
    panel.axvline(0.5, color=GREY, linewidth=0.8)
    panel.set(title="structured beats plain", xlabel="probability of improvement", xlim=(-0.03, 1.03))
    panel.set_yticks(range(len(groups)), [words for words, _ in groups])
    panel.set_ylim(len(groups) - 0.5, -0.5)
