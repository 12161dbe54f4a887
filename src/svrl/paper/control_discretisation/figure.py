"""Policies of the pendulum on several grids, and Table 1 with our numbers beside the paper's."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.paper.control_cells import INPUTS, OPTIMUM, PLANNED
from svrl.paper.control_claims import with_interval
from svrl.paper.control_discretisation.claims import PRINTED, at, grids_of, of_masks, of_starts, optimum
from svrl.paper.control_discretisation.settings import BASELINES, TASK, size_of
from svrl.paper.control_svp.settings import PAPER_SVP
from svrl.paper.evidence import Evidence
from svrl.plots.planning import Map, draw_maps
from svrl.plots.style import BLUE, GREY, ORANGE, STYLE, letter, tag

HEAD = (
    "grid",
    "rank,\n99%",
    "rank,\n1 - 1e-6",
    "optimum,\nnorm (rad)",
    "SVP, p = .2,\nnorm (rad)",
    "SVP,\ndegrees",
    "svp (ours),\nnorm (rad)",
    "row-mean-update,\nnorm (rad)",
)
PLANS = {"SVP": PAPER_SVP, "svp (ours)": "svp"}
SOURCES = {"paper": "ours, paper's variant", "authors": "ours, authors' variant"}
COLOURS = dict(zip(("the paper", *SOURCES.values()), (GREY, BLUE, ORANGE), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The maps, or the table."""
    with mpl.rc_context(STYLE):
        return _table(evidence) if figure_id == "table1" else _maps(evidence)


def _maps(evidence: Evidence) -> Figure:
    grids = grids_of(evidence)
    names = optimum(evidence, grids[0], "paper")["axes"]
    figure = Figure(figsize=(3.0 * len(grids) + 0.8, 7.6), layout="constrained")
    panels = figure.subplots(1 + len(PLANS), len(grids), squeeze=False)
    used, titles = [], []
    for row, what in zip(panels, ("optimum", *PLANS), strict=True):
        maps = [found for grid in grids if (found := _map(evidence, grid, what)) is not None]
        draw_maps(figure, list(row[: len(maps)]), maps, (names[0], names[1], INPUTS[TASK]))
        titles += [found.title for found in maps]
        used += list(row[: len(maps)])
        for panel in row[len(maps) :]:  # not planned on the finest grid
            panel.axis("off")
    letter(used, titles)
    return figure


def _map(evidence: Evidence, grid: tuple[int, int], what: str) -> Map | None:
    """The optimum, or a plan with the first mask; None where it was not made."""
    best = evidence.only(OPTIMUM.name, **at(grid, "paper"))
    cells = [best]
    if what in PLANS:
        cells = evidence.where(PLANNED.name, seed=0, method=PLANS[what], **at(grid, "paper"))
    if not cells:
        return None
    title = f"{what}{', p = .2' if what in PLANS else ''}, {size_of(*grid)}"
    return Map(title=title, x=best.arrays["axis0"], y=best.arrays["axis1"], inputs=cells[0].arrays["policy"])


def _table(evidence: Evidence) -> Figure:
    """One line a grid and source, in the order of the paper's table.

    Intervals of the optimum are over sets of starts, those of SVP over masks.
    """
    lines: list[tuple[str, list[str]]] = []
    for grid in grids_of(evidence):
        if grid in PRINTED:
            rank, best, svp = PRINTED[grid]
            lines.append(("the paper", [size_of(*grid), str(rank), "", f"{best:.2f}", f"{svp:.2f}", "", "", ""]))
        lines += [(source, _ours(evidence, grid, variant)) for variant, source in SOURCES.items()]
    figure = Figure(figsize=(12.6, 0.9 + 0.32 * len(lines)), layout="constrained")
    _write(figure.subplots(), lines)
    return figure


def _ours(evidence: Evidence, grid: tuple[int, int], variant: str) -> list[str]:
    row = optimum(evidence, grid, variant)
    norms, degrees = (with_interval(of_masks(evidence, name, grid, variant)) for name in ("metric", "mean_degrees"))
    best = with_interval(of_starts(evidence, "metric", grid, variant))
    beside = [of_masks(evidence, "metric", grid, variant, method) for method in BASELINES]
    shown = [with_interval(values) if values else "" for values in beside]
    return [size_of(*grid), str(row["rank_99"]), str(row["rank_tight"]), best, norms, degrees, *shown]


def _write(panel: Axes, lines: list[tuple[str, list[str]]]) -> None:
    """Text in columns, a rule below the head and between grids, and the colour of its source before each line."""
    places = (0.18, 0.24, 0.295, 0.395, 0.535, 0.67, 0.8, 0.935)
    panel.set(xlim=(0.0, 1.0), ylim=(len(lines) + 0.2, -1.4))
    panel.axis("off")
    for place, text in zip(places, HEAD, strict=True):
        panel.text(place, -0.35, text, ha="center", va="bottom", fontweight="bold", fontsize=8.5)
    for at_line, (source, cells) in enumerate(lines):
        if at_line == 0 or lines[at_line - 1][1][0] != cells[0]:
            panel.axhline(at_line - 0.2, color=GREY, linewidth=0.8)
        shown = [panel.text(0.0, at_line + 0.3, source, va="center", color=COLOURS[source], fontsize=8.5)]
        for place, text in zip(places, cells, strict=True):
            shown.append(panel.text(place, at_line + 0.3, text, ha="center", va="center", fontsize=8.5))
        tag(shown, source)
