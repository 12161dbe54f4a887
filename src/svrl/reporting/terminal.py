"""Matrices in a terminal: coloured half blocks, or letters of ink where there is no colour."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from rich.color import Color
from rich.style import Style
from rich.text import Text

from svrl.plots.style import MAP

_MISSING = (60, 60, 60)
_INK = ".:-=+*#%@"


def heat_map(
    matrix: np.ndarray, *, low: float, high: float, width: int = 38, height: int = 32, colour: bool = True
) -> Text:
    """Draw (m, n), NaN where missing, in at most `width` x `height` / 2 characters.

    Args:
        matrix: (m, n). Larger ones are drawn from evenly spaced rows and columns.
        low: Value of the darkest colour.
        high: Value of the brightest colour.
        width: Most columns to draw.
        height: Most rows to draw, two to a line (every other one without colour).
        colour: Whether the terminal shows colours; a missing entry is grey, or else a blank.
    """
    rows = np.linspace(0, len(matrix) - 1, min(height, len(matrix))).round().astype(int)
    columns = np.linspace(0, matrix.shape[1] - 1, min(width, matrix.shape[1])).round().astype(int)
    picture = matrix[np.ix_(rows, columns)]
    if len(picture) % 2:
        picture = np.vstack([picture, picture[-1:]])
    level = np.clip((picture - low) / max(high - low, 1e-300), 0, 1)
    text = _coloured(level) if colour else _inked(level[::2])
    text.rstrip()
    return text


def _coloured(level: np.ndarray) -> Text:
    colours = (255 * colormaps[MAP](np.nan_to_num(level))[..., :3]).astype(int)
    colours[np.isnan(level)] = _MISSING
    text = Text()
    for upper, lower in zip(colours[::2], colours[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            text.append("\u2580", Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
        text.append("\n")
    return text


def _inked(level: np.ndarray) -> Text:
    steps = np.nan_to_num(level * (len(_INK) - 1)).round().astype(int)
    letters = np.where(np.isnan(level), " ", np.array(list(_INK))[steps])
    return Text("\n".join("".join(row) for row in letters))
