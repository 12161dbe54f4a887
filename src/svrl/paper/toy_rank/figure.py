"""Rank and error of Q_t: four panels, plain value iteration above and online reconstruction below."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.paper.evidence import Evidence
from svrl.paper.toy_rank.claims import curves
from svrl.paper.toy_rank.run import ONLINE, VANILLA
from svrl.plots.style import BLUE, GREEN, GREY, ORANGE, STYLE, letter, tag
from svrl.stats import interval_if_several

RANKS = (
    ("rank_99", "uniform", BLUE, "99% of the energy"),
    ("rank_tight", "uniform", ORANGE, "1 - 1e-6 of the energy"),
    ("rank_99_centred", "uniform", GREEN, "99%, row means taken out"),
    ("rank_99", "normal", GREY, "99%, N(0, 1) rewards"),
)
ERRORS = (("mse", "uniform", BLUE, "U(0, 1) rewards"), ("mse", "normal", GREY, "N(0, 1) rewards"))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The figure of section 2."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.2, 5.2), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey="col")
        for row, method in zip(panels, (VANILLA, ONLINE), strict=True):
            for panel, series in zip(row, (RANKS, ERRORS), strict=True):
                for name, reward, colour, label in series:
                    _band(panel, curves(evidence, name, reward=reward, method=method), colour, label)
            row[0].set_ylabel("approximate rank")
            row[1].set_ylabel("mean squared error against Q*")
            row[1].set_yscale("log")
        for panel in panels[1]:
            panel.set_xlabel("iteration")
        for panel in panels[0]:
            panel.legend(fontsize=8)
        titles = [
            f"{name}: {what}" for name in ("value iteration", "reconstruction, p = .5") for what in ("rank", "error")
        ]
        letter(list(panels.flat), titles)
    return figure


def _band(panel: Axes, values: np.ndarray, colour: str, label: str) -> None:
    """The mean over MDPs (seeds, T + 1), and its interval where there are several."""
    steps = np.arange(values.shape[1])
    tag(panel.plot(steps, values.mean(0), color=colour, label=label)[0], label)
    bounds = [interval_if_several(column) for column in values.T]
    low, high = (
        np.array([mean if b is None else b[k] for b, mean in zip(bounds, values.mean(0), strict=True)]) for k in (0, 1)
    )
    floor = values.min(0) * 0.5  # a t interval of few values may reach below 0, which a logarithm cannot show
    tag(panel.fill_between(steps, np.maximum(low, floor), high, color=colour, alpha=0.2, linewidth=0), label)
