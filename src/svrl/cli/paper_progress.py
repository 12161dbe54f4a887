"""How an experiment goes, on stderr: a bar in a terminal, elsewhere a line for every cell that is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from svrl.paper.cell import Cell


class CellProgress:
    """One bar over all cells; each counts by how long it takes."""

    def __init__(self, cells: list[Cell]) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._shown = self._console.is_terminal
        self._weights = {cell.key: cell.weight for cell in cells}
        self._count, self._ended = len(cells), 0
        self._shares: dict[str, float] = {}
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._shown,
        )
        self._task = self._bar.add_task("", total=sum(self._weights.values()))

    @contextmanager
    def shown(self) -> Iterator[CellProgress]:
        """Show it for as long as the block lasts."""
        with self._bar:
            yield self

    def begins(self, cell: Cell) -> None:
        """Say what is being computed."""
        self._bar.update(self._task, description=self._described(cell))

    def goes_on(self, cell: Cell, share: float) -> None:
        """Move the bar inside a cell."""
        self._shares[cell.key] = share
        self._bar.update(self._task, completed=self._done())

    def ends(self, cell: Cell) -> None:
        """Count a cell."""
        self._ended += 1
        self._shares[cell.key] = 1.0
        self._bar.update(self._task, completed=self._done(), description=self._described(cell))
        if not self._shown:
            self._console.print(f"{self._ended} of {self._count}: {cell}", markup=False)

    def _done(self) -> float:
        return sum(share * self._weights[key] for key, share in list(self._shares.items()))

    def _described(self, cell: Cell) -> str:
        room = max(self._console.width - 70, 20)
        return f"{self._ended} of {self._count} cells; {str(cell)[:room]}"
