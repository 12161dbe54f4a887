"""The rank of what an agent has learned: histogram and cumulative distribution over many batches of states.

The paper's section 4.1: the approximate rank of B x A matrices of Q values. Beside it the same with the
mean of each row taken out: what is left is how the actions differ, and its rank is not hidden behind
the value of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from svrl.reporting.planning_figures import CYCLE
from svrl.reporting.style import ORANGE, STYLE

KINDS = {"histogram": ("as it is", "-"), "row_centred_histogram": ("rows centred", "--")}


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
