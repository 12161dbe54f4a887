"""The rank of what an agent has learned, and of a matrix that was completed.

`draw_ranks`: histogram and cumulative distribution over many batches of states. The paper's section 4.1: the
approximate rank of B x A matrices of Q values. Beside it the same with the mean of each row taken out: what is left is
how the actions differ, and its rank is not hidden behind the value of the state.

`draw_completion`: what was known, what was recovered, and the spectrum of the completed matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from svrl.matrix.rank import approximate_rank, spectrum
from svrl.plots.style import BLUE, GREY, MAP, MISSING, ORANGE, STYLE, save_figure

ROUNDING = 1e-10
"""Singular values below this share of the largest are rounding, and are not drawn."""
_MOST_PIXELS = 1200
_MOST_ENTRIES = 4_000_000
"""Larger matrices are drawn, and their spectrum taken, from evenly spaced rows and columns."""


def draw_ranks(study: Mapping[str, Any]) -> Figure:
    """Histogram and CDF of the rank.

    Args:
        study: What `svrl rank --json` prints: histogram and row_centred_histogram (counts of rank 0, 1, ... A), energy,
            batch_size.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 3.0), layout="constrained")
        bars, steps = figure.subplots(1, 2)
        # A batch of 32 states has a rank of at most 32, however many actions there are.
        places = np.arange(min(len(study["histogram"]), 1 + study["batch_size"]))
        kinds = (("histogram", "as it is", BLUE, "-"), ("row_centred_histogram", "rows centred", ORANGE, "--"))
        for at, (kind, label, colour, line) in enumerate(kinds):
            shares = np.asarray(study[kind], float)[: len(places)] / max(sum(study[kind]), 1)
            look: dict[str, Any] = {"alpha": 0.45, "hatch": "////"} if at else {}
            bars.bar(places + 0.4 * (at - 0.5), shares, 0.4, color=colour, label=label, **look)
            steps.step(places, np.cumsum(shares), where="post", color=colour, linestyle=line, label=label)
        name = f"approximate rank at energy {study['energy']:g}"
        bars.set(title=f"batches of {study['batch_size']} states", xlabel=name, ylabel="share of batches")
        steps.set(title="cumulative", xlabel=name, ylim=(0, 1.03))
        for panel in (bars, steps):
            panel.set_xlim(-0.6, len(places) - 0.4)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            panel.yaxis.set_major_formatter(PercentFormatter(1.0))
        bars.legend(fontsize=8)
    return figure


def draw_completion(before: np.ndarray, after: np.ndarray, path: Path, *, rank: int) -> None:
    """Draw a matrix with gaps (m, n), its completion and both spectra of the completion.

    Args:
        before: (m, n), NaN where missing.
        after: (m, n), complete.
        path: Where to; the ending decides the format.
        rank: Rank of the estimate, marked in the spectrum.
    """
    thin_before, thin_after = (_thin(a, _MOST_PIXELS) for a in (before, after))
    low, high = np.nanpercentile(thin_after, [0.5, 99.5])
    colours = colormaps[MAP].with_extremes(bad=MISSING)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.0), layout="constrained")
        axes = figure.subplots(1, 3, width_ratios=[1, 1, 1.25])
        share = float(np.isfinite(before).mean())
        titles = (f"observed ({share:.0%} of {before.shape[0]} x {before.shape[1]})", f"completed (rank {rank})")
        look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        look |= {"cmap": colours, "vmin": low, "vmax": high, "extent": (0, before.shape[1], before.shape[0], 0)}
        for axis, picture, title in zip(axes, (thin_before, thin_after), titles, strict=False):
            image = axis.imshow(picture, **look)
            axis.set(title=title, xlabel="column")
            axis.spines[:].set_visible(False)
        axes[0].set_ylabel("row")
        axes[1].set_yticklabels([])
        figure.colorbar(image, ax=axes[:2], shrink=0.9, pad=0.01, aspect=30)
        _draw_spectrum(axes[2], after, rank)
    save_figure(figure, path)


def _draw_spectrum(axis: Axes, matrix: np.ndarray, rank: int) -> None:
    part = _thin(matrix, int(_MOST_ENTRIES**0.5))
    for centred, colour, label in ((False, BLUE, "as it is"), (True, ORANGE, "rows centred")):
        values = np.asarray(spectrum(part, centre_rows=centred), float)
        if values[0] <= 0:
            continue
        energy = int(approximate_rank(part, centre_rows=centred))
        share = values[values > ROUNDING * values[0]] / values[0]
        look: dict[str, Any] = {"color": colour, "marker": ".", "markersize": 4}
        axis.loglog(np.arange(1, len(share) + 1), share, label=f"{label} (99% in {energy})", **look)
    axis.axvline(rank + 0.5, color=GREY, linewidth=0.9, linestyle=":")
    low = ("data", "axes fraction")
    axis.annotate(f"rank {rank}", (rank + 0.5, 0.02), (4, 0), xycoords=low, textcoords="offset points", color=GREY)
    axis.set(title="spectrum of the completed matrix", xlabel="index", ylabel="singular value / largest")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda index, _: f"{index:g}"))
    if axis.get_legend_handles_labels()[0]:
        # Right of the drop nothing is drawn up there.
        axis.legend(loc="center right", bbox_to_anchor=(1.02, 0.68), handlelength=0.9, fontsize=8)


def _thin(matrix: np.ndarray, most: int) -> np.ndarray:
    """Every k-th row and column, so that neither axis is longer than `most`."""
    rows, columns = (-(-size // most) for size in matrix.shape)
    return matrix[::rows, ::columns]
