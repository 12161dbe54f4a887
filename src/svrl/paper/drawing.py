"""Figures as files."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from svrl.paper.evidence import Evidence
from svrl.paper.figure_map import PaperFigure
from svrl.runtime.files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALLER = {
    "smoke": "Made at smoke scale, in seconds: it shows that everything works, and proves nothing.",
    "laptop": "Made at laptop scale; full scale is larger.",
}
_LETTERS = 20
"""Of a caption in an inch: a longer line would widen the picture, with white on both sides of its panels."""


def caption(figure: PaperFigure, evidence: Evidence) -> str:
    """What was spent, and that it was less than the paper did where it was."""
    symbol = evidence.words[1:2] == " "  # p = .2 stays as it is
    words = evidence.words if symbol else evidence.words[:1].upper() + evidence.words[1:]
    if evidence.scale == "full":
        return f"{words}."
    small = _SMALLER.get(evidence.scale, f"Made with the budget '{evidence.scale}', smaller than the paper's.")
    return f"{words}. {small}" if not figure.is_addition else f"{words}. Made at {evidence.scale} scale."


def write_figure(picture: Figure, figure: PaperFigure, evidence: Evidence, folder: Path, ending: str) -> Path:
    """Write folder/fig1.svg; of a scale below the paper's as fig1-smoke.svg and with its caption in the picture.

    So nobody mistakes one for the other.

    Returns:
        Where it is.
    """
    from svrl.plots.style import save_figure

    scale = evidence.scale
    if scale != "full":
        below = _hold_legends(picture) - 0.02
        words = textwrap.fill(caption(figure, evidence), int(_LETTERS * picture.get_figwidth()))
        picture.text(0.5, below, words, ha="center", va="top", fontsize=6, color="#707070")

    folder.mkdir(parents=True, exist_ok=True)
    name = figure.id if scale == "full" else f"{figure.id}-{scale}"
    path = folder / f"{name}.{ending}"
    with writing(path) as temporary:
        save_figure(picture, temporary)
    return path


def _hold_legends(picture: Figure) -> float:
    """Tie legends below the panels to the first panel; the lower end of all that is drawn, where the figure's is 0.

    A figure that is cut to what is in it has its lower edge under the caption, and would take such legends along.
    """
    picture.draw_without_rendering()
    for legend in picture.legends:
        corner = legend.get_window_extent().p0
        frame = picture.axes[0].transAxes
        legend.borderaxespad = 0.0
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor(tuple(frame.inverted().transform(corner)), frame)
    picture.draw_without_rendering()
    return float(picture.get_tightbbox().y0 / picture.get_figheight())
