"""Where structure pays under noise: policy loss against noise, share observed and rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.reporting.style import BLUE, GREEN, GREY, ORANGE, STYLE

Rows = Sequence[Mapping[str, Any]]
NAMES = {"averaged-svp": "averaged, low-rank part", "averaged": "averaged", "incumbent": "incumbent + 3"}
COLOURS = {"averaged-svp": BLUE, "averaged": ORANGE, "incumbent": GREEN}


def draw_noise(rows: Rows) -> Figure:
    """Three panels from rows with method, sigma, mean and the method's own settings.

    (a) loss against the noise of one backup, one and four samples a pair; (b) loss against the share
    of pairs sampled in an iteration; (c) loss against a fixed rank, beside the rank that held-out samples chose.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.9), layout="constrained")
        noise, share, rank = figure.subplots(1, 3, sharey=True)
        _against_noise(noise, rows)
        _against_share(share, rows)
        _against_rank(rank, rows)
        for letter, panel in zip("abc", (noise, share, rank), strict=True):
            panel.set_title(f"({letter})")
            panel.set_yscale("log")
        noise.set_ylabel("policy loss / span of V*")
    return figure


def _line(panel: Axes, points: list[tuple[float, float]], **look: Any) -> None:
    points.sort()
    panel.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, **look)


def _against_noise(panel: Axes, rows: Rows) -> None:
    for name, colour in COLOURS.items():
        for samples, style in ((1, "-"), (4, ":")):
            points = [
                (row["sigma"], row["mean"])
                for row in rows
                if row["method"] == name and row["samples"] == samples and row["observe"] == 1.0 and row["chosen"]
            ]
            label = NAMES[name] if samples == 1 else None
            _line(panel, points, color=colour, linestyle=style, label=label)
    panel.set_xscale("log")
    panel.set_xlabel("noise of one backup (dotted: 4 samples)")
    panel.legend(fontsize=7)


def _against_share(panel: Axes, rows: Rows) -> None:
    for sigma, style in ((0.1, "-"), (0.3, "--"), (1.0, ":")):
        for name in ("averaged-svp", "averaged"):
            points = [
                (row["observe"], row["mean"])
                for row in rows
                if row["method"] == name and row["sigma"] == sigma and row["samples"] == 1 and row["chosen"]
            ]
            label = f"noise {sigma:g}" if name == "averaged-svp" else None
            _line(panel, points, color=COLOURS[name], linestyle=style, label=label)
    panel.set_xscale("log")
    panel.set_xlabel("share of pairs sampled in an iteration")
    panel.legend(fontsize=7)


def _against_rank(panel: Axes, rows: Rows) -> None:
    for sigma, style in ((0.1, "-"), (0.3, "--"), (1.0, ":")):
        ours = [row for row in rows if row["method"] == "averaged-svp" and row["sigma"] == sigma]
        fixed = [(row["rank"], row["mean"]) for row in ours if not row["chosen"]]
        chosen = [row for row in ours if row["chosen"] and row["samples"] == 1 and row["observe"] == 1.0]
        _line(panel, fixed, color=BLUE, linestyle=style, label=f"noise {sigma:g}")
        if chosen:
            panel.axhline(chosen[0]["mean"], color=GREY, linestyle=style, linewidth=0.9)
    panel.set_xscale("log")
    ticks = sorted({row["rank"] for row in rows if not row["chosen"]})
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel("fixed rank (grey: chosen by held-out samples)")
    panel.legend(fontsize=7)
