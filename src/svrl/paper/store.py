"""Where cells are kept: KIND/KEY.json with settings, provenance and rows, and KEY.npz with arrays if there are any.

The JSON file is written last and atomically, so a cell is kept whole or not at all. A store belongs to one version of
svrl. The evidence that ships with svrl is read beside it (`svrl.paper.table`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from svrl import __version__
from svrl.paper.cell import Cell, CellResult, Kind
from svrl.runtime.files import writing
from svrl.runtime.run_directory import finite

HERE, COMMITTED = "here", "committed"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A cell that was computed.

    Attributes:
        kind: Name of its kind.
        key: Of the cell.
        settings: Of the cell.
        rows: What it came to.
        provenance: Versions of svrl, python, torch and numpy, machine, device, when it ended, seconds, command, and
            the commit where it is known.
        source: "here" or "committed".
        load: Reads its arrays.
    """

    kind: str
    key: str
    settings: Mapping[str, Any]
    rows: list[dict[str, Any]]
    provenance: Mapping[str, Any]
    source: str
    load: Callable[[], dict[str, np.ndarray]] = field(repr=False)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """What was too long for rows; empty if there is nothing."""
        return self.load()


class Reader(Protocol):
    """What cells are read from: a store, or the table that ships with svrl."""

    @property
    def root(self) -> Path:
        """The folder."""

    @property
    def source(self) -> str:
        """Either "here" or "committed"."""

    def read(self, cell: Cell) -> Kept | None:
        """The cell, or None if it is not there."""

    def outdated(self, kinds: Mapping[str, Kind]) -> int:
        """Cells of these kinds that are not used, because another version made them."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder with cells.

    Attributes:
        root: The folder; it is made with the first cell.
        source: Always "here".
    """

    root: Path
    source = HERE

    def read(self, cell: Cell) -> Kept | None:
        """The cell as it was kept; None if it was not, or by another version of svrl.

        Raises:
            ValueError: If its file is damaged or was changed by hand.
        """
        path = self._file(cell)
        if not path.exists():
            return None
        text = _loaded(path)
        expected = json.loads(json.dumps(dict(cell.settings)))
        if text.get("settings") != expected or text.get("version") != cell.kind.version:
            raise ValueError(f"{path} does not hold what its name says. Delete it; it will be computed anew.")
        if text["provenance"].get("svrl") != __version__:
            return None
        arrays = path.with_suffix(".npz")
        if text.get("arrays") and not arrays.exists():
            raise ValueError(f"{arrays} is missing. Delete {path.name} beside it; it will be computed anew.")
        return Kept(
            kind=cell.kind.name,
            key=cell.key,
            settings=text["settings"],
            rows=text["rows"],
            provenance=text["provenance"],
            source=self.source,
            load=lambda: _read_arrays(arrays),
        )

    def write(self, cell: Cell, result: CellResult, provenance: Mapping[str, Any]) -> None:
        """Keep a cell, and let go of the folder that it was computed in."""
        path = self._file(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        if result.arrays:
            with writing(path.with_suffix(".npz")) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **result.arrays)  # type: ignore[arg-type]
        text = {
            "kind": cell.kind.name,
            "version": cell.kind.version,
            "settings": dict(cell.settings),
            "provenance": dict(provenance),
            "arrays": sorted(result.arrays),
            "rows": [finite(row) for row in result.rows],
        }
        with writing(path) as temporary:
            temporary.write_text(_written(text), encoding="utf-8")
        shutil.rmtree(self.work(cell), ignore_errors=True)

    def work(self, cell: Cell) -> Path:
        """The folder that a cell is computed in."""
        # Of this version: what another one has begun is not gone on with.
        return self.root / cell.kind.name / f"{cell.key}-{__version__}.work"

    def begun(self, cell: Cell) -> bool:
        """Whether a computation was interrupted and can be gone on with."""
        return self.work(cell).is_dir()

    def outdated(self, kinds: Mapping[str, Kind]) -> int:
        """Cells of these kinds, by name, that another version of the kind or of svrl left here; they are not used."""
        count = 0
        for name, kind in kinds.items():
            for path in sorted((self.root / name).glob("*.json")):
                text = _loaded(path)
                other = text["provenance"].get("svrl") != __version__
                count += bool(other or text.get("version") != kind.version)
        return count

    def _file(self, cell: Cell) -> Path:
        return self.root / cell.kind.name / f"{cell.key}.json"


def read_first(cell: Cell, stores: tuple[Reader, ...]) -> Kept | None:
    """The cell out of the first store that has it."""
    return next((kept for store in stores if (kept := store.read(cell)) is not None), None)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _loaded(path: Path) -> dict[str, Any]:
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        text = None
    if not isinstance(text, dict) or not {"settings", "rows", "provenance"} <= text.keys():
        raise ValueError(f"{path} is damaged. Delete it; it will be computed anew.")
    return text


def _written(text: Mapping[str, Any]) -> str:
    """JSON with one line a row: small changes make small differences in git."""
    head = {name: value for name, value in text.items() if name != "rows"}
    body = json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}")
    rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in text["rows"])
    return f'{body},\n "rows": [\n  {rows}\n ]\n}}\n'
