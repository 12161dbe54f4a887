"""Losses under noise: all methods side by side, and what noise, the share sampled and the rank do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from svrl.paper.evidence import Evidence
from svrl.paper.noisy_simulator.claims import by_method, losses
from svrl.paper.noisy_simulator.run import KIND
from svrl.paper.noisy_simulator.settings import BARS, OURS
from svrl.plots.style import BLUE, CYCLE, GREEN, GREY, ORANGE, STYLE, letter, tag
from svrl.stats import interval_if_several

NAMES = {OURS: "structured average (ours)", "averaged": "plain average", "incumbent": "incumbent + 3"}
COLOURS = {OURS: BLUE, "averaged": ORANGE, "incumbent": GREEN}
DASHES: dict[float, Any] = dict(zip(BARS, ("-", "--", ":"), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Four panels."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.0), layout="constrained")
        panels = figure.subplots(2, 2, sharey=True)
        _methods(panels[0, 0], evidence)
        _against(panels[0, 1], evidence, "sigma", (OURS, "averaged", "incumbent"), None)
        _against(panels[0, 1], evidence, "sigma", (OURS, "averaged"), None, samples=4)
        panels[0, 1].set_xlabel("noise of one backup")
        for sigma in BARS:
            _against(panels[1, 0], evidence, "observe", (OURS, "averaged"), sigma)
            _against(panels[1, 1], evidence, "rank", (OURS,), sigma)
        panels[1, 0].set_xlabel("share of pairs sampled in an iteration")
        panels[1, 1].set_xlabel("fixed rank (lines: noise, as in c)")
        marks = [Line2D([], [], color=GREY, linestyle=DASHES[sigma], label=f"noise {sigma:g}") for sigma in BARS]
        panels[1, 0].legend(handles=marks, fontsize=7)
        for panel in panels.flat:
            panel.set_yscale("log")
        for panel in panels[:, 0]:
            panel.set_ylabel("policy loss / range of V*")
        panels[0, 0].legend(fontsize=7, title="noise", title_fontsize=7)
        panels[0, 1].legend(fontsize=7)
        letter(list(panels.flat), ["methods at equal samples", "noise", "share sampled", "rank"])
    return figure


def _methods(panel: Axes, evidence: Evidence) -> None:
    """One group of points a level of noise."""
    names: list[str] = []
    for at, (sigma, colour) in enumerate(zip(BARS, CYCLE[3:], strict=False)):
        found = by_method(evidence, sigma)
        names = list(found)
        places = [k + 0.18 * (at - 1) for k in range(len(names))]
        _points(panel, places, list(found.values()), f"noise {sigma:g}", color=colour, fmt="o", label=f"{sigma:g}")
    panel.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=7.5)


def _against(
    panel: Axes, evidence: Evidence, what: str, methods: Sequence[str], sigma: float | None, samples: int = 1
) -> None:
    """Loss against one setting; at a level of noise, or over all levels if that is what varies."""
    for method in methods:
        fixed: dict[str, Any] = {"challengers": 3 if method == "incumbent" else None}
        fixed |= {"observe": 1.0, "rank": None, "samples": samples, "sigma": sigma}
        del fixed[what]
        cells = evidence.where(KIND.name, method=method, **fixed)
        places = sorted({cell.settings[what] for cell in cells if cell.settings[what] is not None})
        if not places:
            continue
        found = [losses(evidence, **{**fixed, "method": method, what: place}) for place in places]
        name = NAMES[method]
        dashes = DASHES[sigma] if sigma is not None else "-" if samples == 1 else ":"
        label = name if samples == 1 else f"{name}, {samples} samples"
        _points(panel, places, found, name, label=label, color=COLOURS[method], linestyle=dashes, fmt="o")
    panel.set_xscale("log")
    ticks = sorted({cell.settings[what] for cell in evidence.where(KIND.name, method=OURS)} - {None})
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


def _points(panel: Axes, places: Sequence[float], values: Sequence[Sequence[float]], name: str, **look: Any) -> None:
    """Means with intervals, cut where a logarithm ends."""
    means = [float(np.mean(some)) for some in values]
    bounds = [interval_if_several(some) or (mean, mean) for some, mean in zip(values, means, strict=True)]
    below = [mean - max(low, 0.3 * mean) for (low, _), mean in zip(bounds, means, strict=True)]
    above = [high - mean for (_, high), mean in zip(bounds, means, strict=True)]
    bars = panel.errorbar(places, means, [below, above], markersize=4, capsize=2, linewidth=1.2, **look)
    tag([artist for artist in bars.get_children() if artist is not None], name)
