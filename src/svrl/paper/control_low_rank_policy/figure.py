"""Pictures of policies from a part of Q*: maps with the metric against the share, and trajectories."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from svrl.paper.control_cells import INPUTS, METRICS, OPTIMUM, TASKS, values_of
from svrl.paper.control_low_rank_policy.run import KIND
from svrl.paper.control_low_rank_policy.settings import HALF, PATHS, POLICIES
from svrl.paper.control_svp.figure import draw_starts_of
from svrl.paper.evidence import Evidence
from svrl.plots.planning import Map, draw_maps, draw_shares
from svrl.plots.style import STYLE, letter

NAME = "low-rank policy"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the figures."""
    with mpl.rc_context(STYLE):
        for task in TASKS:
            if figure_id == POLICIES[task]:
                return _policies(task, evidence)
            if figure_id == PATHS[task]:
                return _paths(task, evidence)
    raise ValueError(f"There is no figure {figure_id!r} of low-rank policies: choose one of {[*POLICIES.values()]}.")


def _policies(task: str, evidence: Evidence) -> Figure:
    best = evidence.only(OPTIMUM.name, task=task)
    half = evidence.only(KIND.name, task=task, observe=HALF, seed=0)
    row = best.rows[0]
    figure = Figure(figsize=(9.4, 2.9), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=[1.9, 1.0])
    left, right = parts
    panels = left.subplots(1, 2)
    x, y = best.arrays["axis0"], best.arrays["axis1"]
    maps = [
        Map(title=title, x=x, y=y, inputs=cell.arrays["policy"])
        for title, cell in (("optimum", best), (f"from p = {HALF:g} of Q*", half))
    ]
    draw_maps(left, list(panels), maps, (row["axes"][0], row["axes"][1], INPUTS[task]))
    shares = sorted({cell.settings["observe"] for cell in evidence.where(KIND.name, task=task)})
    found = {share: values_of(evidence, "metric", KIND.name, task=task, observe=share) for share in shares}
    metric = right.subplots()
    draw_shares(metric, found, row["metric"], label=METRICS[row["metric_name"]], name=NAME)
    letter([*panels, metric], [*(picture.title for picture in maps), "metric against p"])
    return figure


def _paths(task: str, evidence: Evidence) -> Figure:
    best = evidence.only(OPTIMUM.name, task=task)
    half = evidence.only(KIND.name, task=task, observe=HALF, seed=0)
    return draw_starts_of({"optimum": best, f"from p = {HALF:g} of Q*": half}, best.rows[0], task)
