"""Pictures of SVP on the control tasks: policies with the metric, trajectories, and all methods by their cost."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.paper.control_cells import INPUTS, METRICS, OPTIMUM, PLANNED, TASKS, values_of
from svrl.paper.control_svp.settings import BASELINES, BESIDE_PATHS, HIGH, LOW, PAPER_SVP, WITHOUT_SHARE
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.plots.planning import Map, Path, draw_maps, draw_methods, draw_paths, draw_shares
from svrl.plots.style import CYCLE, GREY, STYLE, letter, tag
from svrl.stats import interval_if_several

POLICIES = dict(zip(("fig3", "fig13", "fig17", "fig21"), TASKS, strict=True))
PATHS = dict(zip(("fig10", "fig14", "fig18", "fig22"), TASKS, strict=True))
FLOOR = 1e-7
"""Smaller losses are drawn here."""
SVP = "SVP (the paper's)"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the figures."""
    with mpl.rc_context(STYLE):
        if figure_id in POLICIES:
            return _policies(POLICIES[figure_id], evidence)
        if figure_id in PATHS:
            return _paths(PATHS[figure_id], evidence)
        return _baselines(evidence)


def _policies(task: str, evidence: Evidence) -> Figure:
    best = evidence.only(OPTIMUM.name, task=task, variant="paper")
    row = best.rows[0]
    figure = Figure(figsize=(9.4, 5.6), layout="constrained")
    parts: Any = figure.subfigures(2, 1)
    above, below = parts
    panels = above.subplots(1, 3)
    maps = [_map("optimum", best, best)]
    maps += [_map(f"SVP, p = {share:g}", best, _first(evidence, task, share)) for share in (HIGH, LOW)]
    draw_maps(above, list(panels), maps, (row["axes"][0], row["axes"][1], INPUTS[task]))
    shares, methods = below.subplots(1, 2, width_ratios=[1.0, 1.5], sharey=True)
    label = METRICS[row["metric_name"]]
    draw_shares(shares, metrics_by_share(evidence, task), row["metric"], label=label, name=SVP)
    found = {
        SVP: values_of(evidence, "metric", PLANNED.name, task=task, method=PAPER_SVP, observe=LOW, variant="paper")
    }
    for method in BASELINES:
        found[_label(method)] = values_of(evidence, "metric", PLANNED.name, task=task, method=method)
    draw_methods(methods, found, row["metric"])
    titles = [found_map.title for found_map in maps]
    letter([*panels, shares, methods], [*titles, "metric against p", f"beside other uses of p = {LOW:g}"])
    return figure


def metrics_by_share(evidence: Evidence, task: str, name: str = "metric") -> dict[float, list[float]]:
    """Share observed -> the metric of every mask, of the paper's variant."""
    chosen: dict[str, Any] = {"task": task, "method": PAPER_SVP, "variant": "paper"}
    shares = sorted({cell.settings["observe"] for cell in evidence.where(PLANNED.name, **chosen)})
    return {share: values_of(evidence, name, PLANNED.name, observe=share, **chosen) for share in shares}


def _first(evidence: Evidence, task: str, share: float, method: str = PAPER_SVP) -> Kept:
    """The plan with the first mask."""
    chosen: dict[str, Any] = {"task": task, "variant": "paper", "method": method, "observe": share, "seed": 0}
    return evidence.only(PLANNED.name, **chosen)


def _map(title: str, best: Kept, cell: Kept) -> Map:
    return Map(title=title, x=best.arrays["axis0"], y=best.arrays["axis1"], inputs=cell.arrays["policy"])


def _paths(task: str, evidence: Evidence) -> Figure:
    best = evidence.only(OPTIMUM.name, task=task, variant="paper")
    named = {"optimum": best} | {f"SVP, p = {share:g}": _first(evidence, task, share) for share in (HIGH, LOW)}
    named |= {f"{_label(method)}, p = {LOW:g}": _first(evidence, task, LOW, method) for method in BESIDE_PATHS}
    return draw_starts_of(named, best.rows[0], task)


def draw_starts_of(named: dict[str, Kept], row: dict[str, Any], task: str) -> Figure:
    """First coordinate and input of several policies from the same starts; `row` is the optimum's."""
    paths = [
        Path(label=label, coordinate=cell.arrays["states"][:, :, 0], inputs=cell.arrays["inputs"])
        for label, cell in named.items()
    ]
    starts = paths[0].coordinate.shape[1]
    figure = Figure(figsize=(3.0 * starts + 0.6, 4.4), layout="constrained")
    panels = figure.subplots(2, starts, sharex=True, sharey="row", squeeze=False)
    steps = task == "mountain-car"
    draw_paths(
        panels,
        paths,
        (row["axes"][0], INPUTS[task]),
        time_step=1.0 if steps else row["time_step"],
        unit="steps" if steps else "s",
        period=2 * np.pi if row["periodic"][0] else None,
    )
    letter(list(panels.flat), [f"start {k + 1}" for k in range(starts)] + [""] * starts)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=len(paths), fontsize=7)
    return figure


def _baselines(evidence: Evidence) -> Figure:
    """Policy loss against sweeps of backups, one panel a task, one marker a method."""
    figure = Figure(figsize=(9.4, 5.4), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True)
    for panel, task in zip(panels.flat, TASKS, strict=True):
        _costs(panel, evidence, task)
    for panel in panels[1]:
        panel.set_xlabel("backups (sweeps of all pairs)")
    for panel in panels[:, 0]:
        panel.set_ylabel("policy loss / range of V*")
    letter(list(panels.flat), [task.replace("-", " ") for task in TASKS])
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8)
    return figure


def _costs(panel: Axes, evidence: Evidence, task: str) -> None:
    look = dict(zip((PAPER_SVP, *BASELINES), zip("oDsv^<>P", (*CYCLE, "#333333", GREY), strict=True), strict=True))
    for method, (marker, colour) in look.items():
        rows = list(evidence.rows(PLANNED.name, task=task, method=method, variant="paper", observe=_share(method)))
        losses = [row["policy_loss_relative"] for row in rows]
        sweeps = float(np.mean([row["sweep_equivalents"] for row in rows]))
        low, high = interval_if_several(losses) or (losses[0], losses[0])
        mean = float(np.mean(losses))
        label = _label(method)
        face = colour if method == PAPER_SVP else "none"  # many lie on each other: open ones stay legible
        point = panel.plot(sweeps, max(mean, FLOOR), marker, color=colour, markerfacecolor=face, label=label)
        tag(point, label)
        # An interval of few masks may reach 0, which a logarithm cannot show: it is cut at a tenth of the mean.
        tag(panel.vlines(sweeps, max(low, 0.1 * mean, FLOOR), max(high, FLOOR), color=colour, linewidth=1.0), label)
    exact = evidence.only(OPTIMUM.name, task=task, variant="paper").rows[0]["exact_sweeps"]
    label = "modified policy iteration"
    tag(panel.axvline(exact, color=GREY, linestyle="--", linewidth=1.0, label=label), label)
    panel.axhline(FLOOR, color=GREY, linestyle=":", linewidth=0.6)
    panel.set(xscale="log", yscale="log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")


def _label(method: str) -> str:
    return {PAPER_SVP: SVP, "svp": "svp (ours)"}.get(method, method)


def _share(method: str) -> float | None:
    return None if method in WITHOUT_SHARE else LOW
