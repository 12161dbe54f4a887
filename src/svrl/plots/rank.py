"""The rank of what an agent has learned, and of a matrix that was completed.

`draw_ranks`: histogram and cumulative distribution over many batches of states. The paper's section 4.1: the
approximate rank of B x A matrices of Q values. Beside it the same with the mean of each row taken out: what is left is
how the actions differ, and its rank is not hidden behind the value of the state.

`draw_completion`: what was known, what was recovered, and the spectrum of the completed matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from svrl.matrix.rank import approximate_rank, spectrum
from svrl.plots.style import BLUE, CYCLE, GREY, MAP, MISSING, ORANGE, STYLE, save_figure

KINDS = {"histogram": ("as it is", "-"), "row_centred_histogram": ("rows centred", "--")}

ROUNDING = 1e-10
"""Singular values below this share of the largest are rounding, and are not drawn."""
_MOST_PIXELS = 1200
_MOST_ENTRIES = 4_000_000
"""Larger matrices are drawn, and their spectrum taken, from evenly spaced rows and columns."""


def draw_ranks(studies: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Histogram and CDF of the rank.

    Args:
        studies: For each agent what `svrl rank --json` prints: histogram and row_centred_histogram (counts of rank 0,
            1, ... A), energy, batch_size.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 3.0), layout="constrained")
        bars, steps = figure.subplots(1, 2)
        series = _series(studies)
        # A batch of 32 states has a rank of at most 32, however many actions there are.
        most = min(max(len(shares) for _, shares, _, _ in series), 1 + max(s["batch_size"] for s in studies.values()))
        width = 0.8 / len(series)
        for at, (label, shares, colour, style) in enumerate(series):
            places = np.arange(len(shares)) + (at - (len(series) - 1) / 2) * width
            hatch = None if style == "-" else "////"
            bars.bar(
                places, shares, width, color=colour, alpha=1.0 if hatch is None else 0.45, hatch=hatch, label=label
            )
            steps.step(
                np.arange(len(shares)), np.cumsum(shares), where="post", color=colour, linestyle=style, label=label
            )
        _finish(bars, steps, studies, most)
    return figure


def _series(studies: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, np.ndarray, str, str]]:
    """Label, shares, colour and line of every histogram; one study has a colour for each kind."""
    out = []
    for at, (name, study) in enumerate(studies.items()):
        for kind, (words, style) in KINDS.items():
            label = words if len(studies) == 1 else f"{name}, {words}"
            colour = CYCLE[at % len(CYCLE)] if len(studies) > 1 or style == "-" else ORANGE
            out.append((label, _shares(study[kind]), colour, style))
    return out


def _shares(counts: Sequence[int]) -> np.ndarray:
    numbers = np.asarray(counts, float)
    return numbers / max(numbers.sum(), 1.0)


def _finish(bars: Axes, steps: Axes, studies: Mapping[str, Mapping[str, Any]], most: int) -> None:
    study = next(iter(studies.values()))
    name = f"approximate rank at energy {study['energy']:g}"
    bars.set(title=f"batches of {study['batch_size']} states", xlabel=name, ylabel="share of batches")
    steps.set(title="cumulative", xlabel=name, ylim=(0, 1.03))
    for panel in (bars, steps):
        panel.set_xlim(-0.6, most - 0.4)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    bars.legend(fontsize=8)


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
        for axis, picture, title in zip(axes, (thin_before, thin_after), titles, strict=False):
            image = axis.imshow(
                picture,
                aspect="auto",
                cmap=colours,
                vmin=low,
                vmax=high,
                interpolation="nearest",
                extent=(0, before.shape[1], before.shape[0], 0),
            )
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
        share = values / values[0]
        share = share[share > ROUNDING]
        axis.loglog(
            np.arange(1, len(share) + 1),
            share,
            color=colour,
            marker=".",
            markersize=4,
            label=f"{label} (99% in {energy})",
        )
    axis.axvline(rank + 0.5, color=GREY, linewidth=0.9, linestyle=":")
    axis.annotate(
        f"rank {rank}",
        (rank + 0.5, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color=GREY,
    )
    axis.set(title="spectrum of the completed matrix", xlabel="index", ylabel="singular value / largest")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda index, _: f"{index:g}"))
    if axis.get_legend_handles_labels()[0]:
        # Right of the drop nothing is drawn up there.
        axis.legend(loc="center right", bbox_to_anchor=(1.02, 0.68), handlelength=0.9, fontsize=8)


def _thin(matrix: np.ndarray, most: int) -> np.ndarray:
    """Every k-th row and column, so that neither axis is longer than `most`."""
    rows, columns = (-(-size // most) for size in matrix.shape)
    return matrix[::rows, ::columns]
