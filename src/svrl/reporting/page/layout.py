"""Figures that look the same however often they are drawn."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

from svrl.plots.style import STYLE


def settle(figure: Figure) -> None:
    """Place the panels once and for all.

    Constrained layout places them anew whenever a figure is drawn, starting from where they are, and never comes
    to the very same numbers; a page made twice from one figure would differ.
    """
    engine = figure.get_layout_engine()
    if engine is None or isinstance(engine, PlaceHolderLayoutEngine):
        return
    with mpl.rc_context(STYLE):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
