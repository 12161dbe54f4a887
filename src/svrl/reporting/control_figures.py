"""Parts of the figures on control: maps of policies, a metric against the share observed, trajectories.

Each function draws into axes that it is given, from plain arrays and numbers, and tags what it draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from svrl.reporting.planning_figures import CYCLE, LETTERS, SIGNED_MAP
from svrl.reporting.series import tag
from svrl.reporting.style import BLUE, GREY
from svrl.stats import interval_if_several

OPTIMUM = "optimum"
MANY = (*CYCLE, "#333333", GREY)
"""For eight methods beside each other."""


@dataclass(frozen=True, kw_only=True)
class Map:
    """A policy over two coordinates.

    Attributes:
        title: Of its panel.
        x, y: Grid points of the two coordinates, (n,) and (m,).
        inputs: (n, m).
    """

    title: str
    x: np.ndarray
    y: np.ndarray
    inputs: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Path:
    """What one policy did from a few starts.

    Attributes:
        label: For the legend.
        coordinate: (T + 1, N), the coordinate that is shown.
        inputs: (T, N).
    """

    label: str
    coordinate: np.ndarray
    inputs: np.ndarray


def letter(panels: Sequence[Axes], titles: Sequence[str]) -> None:
    """(a), (b), ... before the titles."""
    for at, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        panel.set_title(f"({LETTERS[at]}) {title}".rstrip())


def draw_maps(figure: Figure, panels: Sequence[Axes], maps: Sequence[Map], labels: tuple[str, str, str]) -> None:
    """Maps of several policies on one scale of colours, which a bar beside the last panel explains.

    Args:
        figure: Where the colour bar goes.
        panels: One a map.
        maps: The policies.
        labels: Of the x axis, the y axis and the input.
    """
    limit = max(float(np.abs(found.inputs).max()) for found in maps) or 1.0
    image: ScalarMappable | None = None
    for panel, found in zip(panels, maps, strict=True):
        image = panel.pcolormesh(
            found.x,
            found.y,
            np.asarray(found.inputs, np.float32).T,
            cmap=SIGNED_MAP,
            vmin=-limit,
            vmax=limit,
            shading="nearest",
            rasterized=True,
        )
        panel.set_xlabel(labels[0])
    panels[0].set_ylabel(labels[1])
    for panel in panels[1:]:
        panel.tick_params(labelleft=False)
    if image is not None:
        figure.colorbar(image, ax=list(panels), label=labels[2], pad=0.02, aspect=25)


def draw_shares(panel: Axes, found: Mapping[float, Sequence[float]], optimum: float, *, label: str, name: str) -> None:
    """A number against the share observed: the mean over masks with its interval, each mask as a dot, and the optimum.

    Args:
        panel: Where to draw.
        found: Share observed -> one value a mask.
        optimum: The same number of the optimal policy.
        label: Of the y axis.
        name: Of the method, for the legend.
    """
    shares = sorted(found)
    means = [float(np.mean(found[share])) for share in shares]
    _points(panel, shares, [found[share] for share in shares], means, BLUE, name)
    tag(panel.plot(shares, means, color=BLUE, label=name)[0], name)
    tag(panel.axhline(optimum, color=GREY, linestyle="--", label=OPTIMUM), OPTIMUM)
    panel.set(xlabel="share of the pairs observed, p", ylabel=label, xlim=(0.0, 1.0))
    _above_zero(panel)
    panel.legend(fontsize=8)


def draw_methods(panel: Axes, found: Mapping[str, Sequence[float]], optimum: float) -> None:
    """The same number for several methods side by side; the first is the paper's."""
    for at, (name, values) in enumerate(found.items()):
        colour = MANY[at % len(MANY)]
        _points(panel, [at], [values], [float(np.mean(values))], colour, name)
    tag(panel.axhline(optimum, color=GREY, linestyle="--"), OPTIMUM)
    panel.set_xticks(range(len(found)), list(found), rotation=30, ha="right", fontsize=8)
    panel.margins(x=0.06)
    _above_zero(panel)


def _above_zero(panel: Axes) -> None:
    """Room above the points; an interval of few values may reach below 0, where no metric is."""
    panel.margins(y=0.2)
    panel.set_ylim(bottom=max(panel.get_ylim()[0], 0.0))


def _points(
    panel: Axes,
    places: Sequence[float],
    values: Sequence[Sequence[float]],
    means: Sequence[float],
    colour: str,
    name: str,
) -> None:
    """Means with intervals, and the values that they are of."""
    for place, some, mean in zip(places, values, means, strict=True):
        interval = interval_if_several(some)
        low, high = (mean, mean) if interval is None else interval
        bars = panel.errorbar(
            place, mean, [[mean - low], [high - mean]], color=colour, fmt="o", markersize=5, capsize=3
        )
        tag([artist for artist in bars.get_children() if artist is not None], name)
        dots = panel.plot([place] * len(some), some, ".", color=colour, alpha=0.45, markersize=4, linestyle="")
        tag(dots, name)


def draw_paths(
    panels: np.ndarray,
    paths: Sequence[Path],
    labels: tuple[str, str],
    *,
    time_step: float,
    unit: str,
    period: float | None,
) -> None:
    """A coordinate (first row) and the input (second row) over time, one column a start, one colour a policy.

    Args:
        panels: (2, N) axes.
        paths: The policies; the first is drawn below the others.
        labels: Of the coordinate and of the input.
        time_step: Between two states.
        unit: Of the time step.
        period: Of the coordinate, whose lines are cut where it wraps; None if it does not.
    """
    steps = max(_settled(path.coordinate) for path in paths)
    looks: list[dict[str, Any]] = [{"color": "#333333", "linewidth": 2.2, "alpha": 0.55}]
    looks += [{"color": colour, "linewidth": 1.2, "linestyle": (0, (4, 1))} for colour in CYCLE]
    for path, look in zip(paths, looks, strict=False):
        for start in range(panels.shape[1]):
            line = np.array(path.coordinate[: steps + 1, start], float)
            times = time_step * np.arange(len(line))
            if period is not None:
                cuts = np.flatnonzero(np.abs(np.diff(line)) > 0.5 * period) + 1
                line, times = (np.insert(array, cuts, math.nan) for array in (line, times))
            tag(panels[0, start].plot(times, line, label=path.label, **look)[0], path.label)
            moves = np.array(path.inputs[:steps, start], float)
            drawn = panels[1, start].plot(time_step * np.arange(len(moves)), moves, drawstyle="steps-post", **look)
            tag(drawn, path.label)
    for start in range(panels.shape[1]):
        panels[1, start].set_xlabel(f"time ({unit})")
        for row in panels[:, 1:] if start == 0 else ():
            for panel in row:
                panel.tick_params(labelleft=False)
    panels[0, 0].set_ylabel(labels[0])
    panels[1, 0].set_ylabel(labels[1])


def _settled(values: np.ndarray) -> int:
    """Steps worth showing of (T + 1, N): somewhat more than until the coordinate stays put."""
    values = np.asarray(values, float)
    away = (np.abs(values - values[-1]) > 0.03 * max(float(np.ptp(values)), 1e-9)).any(1)
    last = int(np.flatnonzero(away).max(initial=0))
    return min(len(values) - 1, max(20, int(1.3 * last)))
