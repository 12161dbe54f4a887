"""Evidence: the cells of one experiment at one scale, as figures and claims read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from svrl.paper.store import HERE, Kept


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All cells of an experiment at one scale.

    Attributes:
        scale: "smoke", "laptop", "full", or another budget of the experiment.
        words: What was spent: "2500x1000, p = .2 and .6, 3 masks".
        cells: In the order of the settings.
    """

    scale: str
    words: str
    cells: tuple[Kept, ...]

    def where(self, kind: str | None = None, **settings: Any) -> list[Kept]:
        """Cells of a kind with these settings; a tuple matches the list that JSON made of it."""
        wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return [
            cell
            for cell in self.cells
            if kind in (None, cell.kind) and all(cell.settings.get(name) == value for name, value in wanted.items())
        ]

    def only(self, kind: str | None = None, **settings: Any) -> Kept:
        """The one cell with these settings.

        Raises:
            LookupError: If there is none or more than one.
        """
        found = self.where(kind, **settings)
        if len(found) != 1:
            raise LookupError(f"{len(found)} cells have {settings}, and one was expected.")
        return found[0]

    def rows(self, kind: str | None = None, **settings: Any) -> Iterator[dict[str, Any]]:
        """Rows of these cells, each with the settings of its cell."""
        for cell in self.where(kind, **settings):
            for row in cell.rows:
                yield {**cell.settings, **row}

    @property
    def source(self) -> str:
        """Whether it was computed here, or comes with svrl in whole or in part."""
        sources = {cell.source for cell in self.cells}
        return "here" if sources <= {HERE} else "committed" if HERE not in sources else "here and committed"
