"""One look for all figures: small, quiet, readable in print and for the colour-blind; and what figures share.

matplotlib is loaded when something is drawn, not with this file: experiments import it to list and to judge, too.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.stats import interval_if_several

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8A8A8A"
MISSING = "#EDEDED"
MAP = "viridis"
SIGNED_MAP = "RdBu_r"
"""For inputs: white is zero."""
CYCLE = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9")
"""For several lines of one kind, told apart by the colour-blind (Okabe and Ito, 2008)."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PREFIX = "series--"
NAME_SIZE = 7
_NAME_LINE = 1.25 * NAME_SIZE / 72
"""Height of a name, inches."""
_MOST_UPRIGHT = 4
_LEGEND_LINE = 0.18
"""Height of a line of a legend, inches."""

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "svg.hashsalt": "svrl",
}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, inches, whose panels are laid out so that no words collide."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def empty_figure(words: str) -> Figure:
    """A figure with a sentence instead of panels."""
    figure = new_figure(5.6, 1.4)
    panel = figure.subplots()
    panel.set_axis_off()
    say(panel, words)
    return figure


def say(panel: Axes, words: str, height: float = 0.5) -> None:
    """Words in an empty panel, at a share of its height."""
    panel.annotate(words, (0.5, height), xycoords="axes fraction", ha="center", va="center", color=GREY, fontsize=8)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the ending decides the format."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure.savefig(path)


def svg_text(figure: Figure) -> str:
    """The figure as SVG on a white ground, without a date: the same figure is the same text.

    Panels are placed once and for all. Constrained layout places them anew whenever a figure is drawn, starting from
    where they are, and never comes to the very same numbers.
    """
    import matplotlib as mpl
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    text = io.StringIO()
    with mpl.rc_context(STYLE):
        if figure.get_layout_engine() is not None and not isinstance(
            figure.get_layout_engine(), PlaceHolderLayoutEngine
        ):
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def letter(panels: Sequence[Axes], titles: Sequence[str] | None = None) -> None:
    """(a), (b), ... before these titles, or before those that the panels have."""
    titles = [panel.get_title(loc="left") for panel in panels] if titles is None else titles
    for at, panel, title in zip(LETTERS, panels, titles, strict=False):  # letters end with z
        panel.set_title(f"({at}) {title}".rstrip(), loc="left")


def legend_below(figure: Figure, panels: Sequence[Axes], columns: int = 4) -> None:
    """One legend for all panels, below them, each name once; in fewer columns where the figure is too narrow for it."""
    found: dict[str, Artist] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    for count in range(min(columns, len(found)), 0, -1):
        legend = figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=count, fontsize=8)
        if count == 1 or legend.get_window_extent().width <= 0.93 * figure.bbox.width:  # fonts vary by format
            more_lines = -(-len(found) // count) - -(-len(found) // columns)
            figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * more_lines)
            break
        legend.remove()


def step_axis(panel: Axes) -> None:
    """Agent steps from 0 on, as 20k and 1M."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    panel.set_xlim(left=0.0)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_major_locator(MaxNLocator(4))


def whole_numbers(axis: Axis) -> None:
    """Ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True))


def in_percent(axis: Axis, decimals: int | None = None) -> None:
    """Shares as percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def tag(artists: Artist | Iterable[Artist], name: str) -> None:
    """Name artists after the series that they are parts of; the name becomes the id of their elements in the SVG.

    Every artist of a curve, line, band and markers, gets the same name, which is what a legend would call it.
    """
    found = list(artists) if isinstance(artists, Iterable) else [artists]
    for artist in found:
        artist.set_gid(PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"))


def draw_means(
    panel: Axes,
    places: Sequence[float],
    values: Sequence[Sequence[float]],
    name: str,
    *,
    least: float | None = None,
    **look: Any,
) -> None:
    """Means of some values each, with their 95% intervals, as one series.

    Args:
        panel: Where.
        places: One for each mean.
        values: What each is the mean of.
        name: Of the series.
        least: Where intervals are cut, as a share of the mean; for logarithms, which cannot show 0.
        look: Of the points and bars.
    """
    means = np.array([np.mean(some) for some in values])
    several = zip(values, means, strict=True)
    low, high = np.array([interval_if_several(some) or (mean, mean) for some, mean in several]).T
    low = low if least is None else np.maximum(low, least * means)
    bars = panel.errorbar(places, means, [means - low, high - means], **look)
    tag([artist for artist in bars.get_children() if artist is not None], name)


def spread(at: np.ndarray, gap: float) -> np.ndarray:
    """Places (n,) in the order of `at`, at least `gap` apart, with the least sum of squared distances from it."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(at, kind="stable")
    steps = gap * np.arange(len(at))
    places = np.empty(len(at))
    places[order] = isotonic_regression(at[order] - steps).x + steps
    return places


def name_points(panel: Axes, x: np.ndarray, y: np.ndarray, names: Sequence[str], height: float) -> None:
    """A name to the right of each point, moved up or down where others are in the way, with a line to its point.

    Args:
        panel: With its final limits.
        x: (n,).
        y: (n,).
        names: (n,).
        height: Of the panel, inches.
    """
    low, high = panel.get_ylim()
    left, right = panel.get_xlim()
    places = spread(np.asarray(y, float), (high - low) * _NAME_LINE / height)
    for point_x, point_y, place, name in zip(x, y, places, names, strict=True):
        panel.annotate(
            name,
            (point_x, point_y),
            xytext=(point_x + 0.06 * (right - left), place),
            fontsize=NAME_SIZE,
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 1, "shrinkB": 3},
        )


def name_columns(panel: Axes, names: Sequence[str]) -> None:
    """Names below columns 0, 1, ..., slanted where there are many."""
    panel.set_xlim(-0.6, max(len(names), 2) - 0.4)
    panel.set_xticks(range(len(names)), names, fontsize=NAME_SIZE)
    if len(names) > _MOST_UPRIGHT:
        for label in panel.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
