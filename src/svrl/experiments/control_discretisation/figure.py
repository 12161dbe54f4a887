"""Policies of the pendulum on several grids, and Table 1 with our numbers beside the paper's."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.experiments.control_cells import INPUTS, OPTIMUM, PLANNED
from svrl.experiments.control_claims import with_interval
from svrl.experiments.control_discretisation.claims import PRINTED, at, grids_of, of_masks, of_starts, optimum
from svrl.experiments.control_discretisation.settings import TASK, size_of
from svrl.experiments.paper.evidence import Evidence
from svrl.reporting.control_figures import Map, draw_maps, letter
from svrl.reporting.series import tag
from svrl.reporting.style import BLUE, GREY, ORANGE, STYLE

HEAD = ("grid", "rank,\n99%", "rank,\n1 - 1e-6", "optimum,\nnorm (rad)", "SVP, p = .2,\nnorm (rad)", "SVP,\ndegrees")
SOURCES = {"paper": "ours, paper's variant", "authors": "ours, authors' variant"}
COLOURS = dict(zip(("the paper", *SOURCES.values()), (GREY, BLUE, ORANGE), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The maps, or the table."""
    with mpl.rc_context(STYLE):
        return _table(evidence) if figure_id == "table1" else _maps(evidence)


def _maps(evidence: Evidence) -> Figure:
    grids = grids_of(evidence)
    figure = Figure(figsize=(3.0 * len(grids) + 0.8, 5.2), layout="constrained")
    panels = figure.subplots(2, len(grids), squeeze=False)
    titles = []
    for row, what in enumerate(("optimum", "SVP, p = .2")):
        maps = []
        for grid in grids:
            best = evidence.only(OPTIMUM.name, **at(grid, "paper"))
            cell = best if row == 0 else evidence.only(PLANNED.name, seed=0, **at(grid, "paper"))
            title = f"{what}, {size_of(*grid)}"
            found = Map(title=title, x=best.arrays["axis0"], y=best.arrays["axis1"], inputs=cell.arrays["policy"])
            maps.append(found)
        names = optimum(evidence, grids[0], "paper")["axes"]
        draw_maps(figure, list(panels[row]), maps, (names[0], names[1], INPUTS[TASK]))
        titles += [found.title for found in maps]
    letter(list(panels.flat), titles)
    return figure


def _table(evidence: Evidence) -> Figure:
    """One line a grid and source, in the order of the paper's table.

    Intervals of the optimum are over sets of starts, those of SVP over masks.
    """
    lines: list[tuple[str, list[str]]] = []
    for grid in grids_of(evidence):
        if grid in PRINTED:
            rank, best, svp = PRINTED[grid]
            lines.append(("the paper", [size_of(*grid), str(rank), "", f"{best:.2f}", f"{svp:.2f}", ""]))
        lines += [(source, _ours(evidence, grid, variant)) for variant, source in SOURCES.items()]
    figure = Figure(figsize=(9.2, 0.9 + 0.32 * len(lines)), layout="constrained")
    _write(figure.subplots(), lines)
    return figure


def _ours(evidence: Evidence, grid: tuple[int, int], variant: str) -> list[str]:
    row = optimum(evidence, grid, variant)
    norms, degrees = (with_interval(of_masks(evidence, name, grid, variant)) for name in ("metric", "mean_degrees"))
    best = with_interval(of_starts(evidence, "metric", grid, variant))
    return [size_of(*grid), str(row["rank_99"]), str(row["rank_tight"]), best, norms, degrees]


def _write(panel: Axes, lines: list[tuple[str, list[str]]]) -> None:
    """Text in columns, a rule below the head and between grids, and the colour of its source before each line."""
    places = (0.25, 0.335, 0.41, 0.54, 0.725, 0.91)
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
