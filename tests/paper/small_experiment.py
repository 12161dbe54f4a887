"""An experiment whose cells take no time, with every part that a real one has."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from svrl.paper.cell import Cell, CellResult, Kind, Work
from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.store import COMMITTED, Store


class Committed(Store):
    """A store in the place of the table that ships with svrl."""

    source = COMMITTED


def square(settings: dict[str, Any], work: Work) -> CellResult:
    work.progress(0.5)
    value = settings["x"] ** 2
    return CellResult(rows=[{"value": value}], arrays={"ramp": np.arange(settings["x"])})


def interrupted(settings: dict[str, Any], work: Work) -> CellResult:
    """Goes on from what it left; is interrupted by the user the first time."""
    work.folder.mkdir(parents=True, exist_ok=True)
    mark = work.folder / "half"
    if not mark.exists():
        mark.write_text("done")
        raise KeyboardInterrupt
    return CellResult(rows=[{"value": mark.read_text()}])


def lacking(settings: dict[str, Any], work: Work) -> CellResult:
    raise ImportError("Games need more: pip install 'svrl[atari]'")


def broken(settings: dict[str, Any], work: Work) -> CellResult:
    raise ZeroDivisionError("a bug")


def first_halves(cells: Sequence[tuple[Mapping[str, Any], Work]], together: int) -> list[float]:
    """Leaves a mark for each; says that it took 1000 seconds times x."""
    for _, work in cells:
        work.folder.mkdir(parents=True, exist_ok=True)
        (work.folder / "half").write_text(f"{len(cells)} cells, {together} at a time")
        work.progress(0.75)
    return [1000.0 * settings["x"] for settings, _ in cells]


def second_half(settings: dict[str, Any], work: Work) -> CellResult:
    """Says how the first half was done."""
    mark = work.folder / "half"
    return CellResult(rows=[{"value": mark.read_text() if mark.exists() else "alone"}])


SQUARE = Kind(name="square", version=1, compute=square)
IN_HALVES = Kind(name="in-halves", version=1, compute=second_half, together=first_halves)


def cell(x: int, kind: Kind = SQUARE, **more: Any) -> Cell:
    return Cell(kind=kind, settings={"x": x, **more})


def judge(evidence: Evidence) -> Finding:
    values = [row["value"] for row in evidence.rows()]
    verdict = Verdict.REPRODUCED if sum(values) > 10 else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"{sum(values)}", value=float(sum(values)), interval=(1.0, 2.0))


def draw(figure: str, evidence: Evidence) -> Figure:
    picture = Figure()
    picture.subplots().plot([row["value"] for row in evidence.rows()])
    return picture


def experiment(**changes: Any) -> Experiment:
    claim = Claim(
        name="sum-is-large",
        figure="fig1",
        section="2",
        says="The sum is large.",
        paper="> 10",
        test="The sum is compared with 10.",
        judge=judge,
    )
    parts: dict[str, Any] = {
        "name": "toy_rank",
        "title": "Squares",
        "says": {"fig1": "Squares grow."},
        "budgets": {
            "smoke": Budget(cells=(cell(1),), words="one square"),
            "laptop": Budget(cells=(cell(1), cell(2), cell(3)), words="three squares"),
            "full": Budget(cells=(cell(1), cell(30)), words="a large square"),
        },
        "picture": draw,
        "got": lambda figure, evidence: "We got squares.",
        "claims": (claim,),
    }
    return Experiment(**{**parts, **changes})


def endless(settings: dict[str, Any], work: Work) -> CellResult:
    """Says that it has begun, goes on until somebody interrupts it, and takes its time to end."""
    work.folder.mkdir(parents=True, exist_ok=True)
    try:
        (work.folder / "begun").write_text("")
        while True:
            time.sleep(0.1)
    except KeyboardInterrupt:
        time.sleep(0.3)
        (work.folder / "ended").write_text("")
        raise
