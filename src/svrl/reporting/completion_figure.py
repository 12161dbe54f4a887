"""The picture of a completion: what was known, what was recovered, and how low its rank is."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from svrl.matrix.rank import approximate_rank, spectrum
from svrl.reporting.style import BLUE, GREY, MAP, MISSING, ORANGE, STYLE

ROUNDING = 1e-10
"""Singular values below this share of the largest are rounding, and are not drawn."""
_MOST_PIXELS = 1200
_MOST_ENTRIES = 4_000_000
"""Larger matrices are drawn, and their spectrum taken, from evenly spaced rows and columns."""


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
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.0), width_ratios=[1, 1, 1.25], layout="constrained")
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
        figure.savefig(path)
        plt.close(figure)


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
        axis.legend(
            loc="center right", bbox_to_anchor=(1.02, 0.68), handlelength=0.9, fontsize=8
        )  # right of the drop nothing is drawn up there


def _thin(matrix: np.ndarray, most: int) -> np.ndarray:
    """Every k-th row and column, so that neither axis is longer than `most`."""
    rows, columns = (-(-size // most) for size in matrix.shape)
    return matrix[::rows, ::columns]
