from __future__ import annotations

import pytest

from svrl.cli.paper_progress import CellProgress
from svrl.paper.cell import Cell, CellResult, Kind

KIND = Kind(name="square", version=1, compute=lambda settings, work: CellResult(rows=[]))
LONG, MIDDLE, BRIEF = (Cell(kind=KIND, settings={"x": weight}, weight=weight) for weight in (6.0, 3.0, 1.0))


def completed(progress: CellProgress) -> float:
    (task,) = progress._bar.tasks
    assert task.total == 10.0
    return task.completed


def test_cells_that_are_computed_at_once_count_by_their_weights():
    progress = CellProgress([LONG, MIDDLE, BRIEF])
    steps = [
        (LONG, 0.5, 3.0),
        (MIDDLE, 1 / 3, 4.0),
        (BRIEF, 0.25, 4.25),
        (MIDDLE, 2 / 3, 5.25),  # not added to what it had said before
        (LONG, 0.95, 7.95),
    ]
    progress.begins(LONG)
    assert completed(progress) == 0.0
    for cell, share, expected in steps:
        progress.goes_on(cell, share)
        assert completed(progress) == pytest.approx(expected)
    progress.ends(MIDDLE)
    assert completed(progress) == pytest.approx(5.7 + 3.0 + 0.25)
    progress.begins(LONG)  # its training is over, its study begins: what was done stays
    assert completed(progress) == pytest.approx(8.95)
    progress.ends(LONG)
    progress.ends(BRIEF)
    assert completed(progress) == pytest.approx(10.0)


def test_every_cell_that_ends_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]):
    progress = CellProgress([LONG, BRIEF])
    with progress.shown():
        progress.goes_on(BRIEF, 0.5)
        progress.ends(BRIEF)
        progress.ends(LONG)
    assert capsys.readouterr().err.splitlines() == ["1 of 2: square: x 1.0", "2 of 2: square: x 6.0"]
