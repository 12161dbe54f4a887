"""Names in pictures that do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

SIZE = 7
_LINE = 1.25 * SIZE / 72
"""Height of a line of text, inches."""
_MOST_UPRIGHT = 4


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
    places = spread(np.asarray(y, float), (high - low) * _LINE / height)
    for point_x, point_y, place, name in zip(x, y, places, names, strict=True):
        panel.annotate(
            name,
            (point_x, point_y),
            xytext=(point_x + 0.06 * (right - left), place),
            fontsize=SIZE,
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 1, "shrinkB": 3},
        )


def name_columns(panel: Axes, names: Sequence[str]) -> None:
    """Names below columns 0, 1, ..., slanted where there are many."""
    panel.set_xlim(-0.6, max(len(names), 2) - 0.4)
    panel.set_xticks(range(len(names)), names, fontsize=SIZE)
    if len(names) > _MOST_UPRIGHT:
        for label in panel.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
