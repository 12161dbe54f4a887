"""The evidence that ships with svrl: one table for each kind of run.

    KIND.jsonl         one line a run, sorted by settings: key, version, settings, who made it, when, seconds, rows
    KIND.npz           the arrays of all these runs, each named KEY/NAME; absent where there are none
    provenance.json    machine, versions, command and commit by the number that the lines name

Lines are text, so that added runs are added lines in a diff. `results/collect.py` adds what `svrl paper run` computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from svrl.runs.spec import RunSpec
from svrl.runs.store import ARRAYS, SHIPPED, Kept, Store
from svrl.runtime.files import writing
from svrl.runtime.run_directory import RESULT

PROVENANCE = "provenance.json"
_OF_THE_RUN = ("ended", "seconds")
"""What differs from run to run of one command."""


@dataclass(frozen=True)
class Table:
    """A folder of tables. What it has read is kept in memory.

    Attributes:
        root: The folder.
        source: Always "committed".
    """

    root: Path
    source = SHIPPED

    def read(self, spec: RunSpec) -> Kept | None:
        """The run, or None if it is not there in this version."""
        line = self._lines(spec.kind.name).get(spec.id)
        if line is None or line["version"] != spec.kind.version:
            return None
        return Kept(
            kind=spec.kind.name,
            id=spec.id,
            settings=line["settings"],
            rows=line["rows"],
            provenance={**self._makers[line["made_by"]], **line["made"]},
            source=SHIPPED,
            load=lambda: self._arrays(spec.kind.name, f"{spec.id}/") if "arrays" in line else {},
        )

    def keys(self) -> set[str]:
        """Identities of all runs."""
        return {key for path in self.root.glob("*.jsonl") for key in self._lines(path.stem)}

    def add(self, store: Store) -> int:
        """Add the runs of a store that are not here yet; those that are here stay. How many were added."""
        makers = dict(self._makers)
        new: dict[str, list[tuple[dict[str, Any], Path]]] = {}
        for spec, folder in store.kept():
            if spec["id"] not in self._lines(spec["kind"]):
                new.setdefault(spec["kind"], []).append((spec, folder))
        for kind, runs in new.items():
            lines, arrays = dict(self._lines(kind)), self._arrays(kind)
            for spec, folder in runs:
                key, kept = spec["id"], json.loads((folder / RESULT).read_text(encoding="utf-8"))
                maker = {name: value for name, value in kept["provenance"].items() if name not in _OF_THE_RUN}
                number = hashlib.sha256(json.dumps(maker, sort_keys=True).encode()).hexdigest()[:8]
                makers[number] = maker
                made = {name: value for name, value in kept["provenance"].items() if name in _OF_THE_RUN}
                line = {"key": key, "version": spec["version"], "settings": kept["settings"]}
                line |= {"made_by": number, "made": made}
                if kept["arrays"]:
                    line["arrays"] = kept["arrays"]
                    with np.load(folder / ARRAYS, allow_pickle=False) as archive:
                        arrays |= {f"{key}/{name}": archive[name] for name in archive.files}
                lines[key] = {**line, "rows": kept["rows"]}
            self._write(kind, lines, arrays, makers)
        return sum(map(len, new.values()))

    def _write(
        self, kind: str, lines: Mapping[str, Any], arrays: Mapping[str, np.ndarray], makers: Mapping[str, Any]
    ) -> None:
        """Arrays and makers first: every line finds what it names."""
        self.root.mkdir(parents=True, exist_ok=True)
        if arrays:
            with writing(self.root / f"{kind}.npz") as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]
        with writing(self.root / PROVENANCE) as temporary:
            temporary.write_text(json.dumps(makers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        ordered = sorted(lines.values(), key=lambda line: json.dumps(line["settings"], sort_keys=True))
        with writing(self.root / f"{kind}.jsonl") as temporary:
            text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in ordered)
            temporary.write_text(text, encoding="utf-8")
        for name in ("_known", "_makers"):
            self.__dict__.pop(name, None)

    @cached_property
    def _known(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {}

    @cached_property
    def _makers(self) -> dict[str, dict[str, Any]]:
        path = self.root / PROVENANCE
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _lines(self, kind: str) -> dict[str, dict[str, Any]]:
        if kind not in self._known:
            self._known[kind] = {line["key"]: line for line in self._read_lines(self.root / f"{kind}.jsonl")}
        return self._known[kind]

    def _read_lines(self, path: Path) -> Iterator[dict[str, Any]]:
        if not path.exists():
            return
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                _ = (
                    [line[name] for name in ("key", "version", "settings", "made", "rows")],
                    self._makers[line["made_by"]],
                )
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(f"Line {number} of {path} is damaged. Restore the file.") from error
            yield line

    def _arrays(self, kind: str, prefix: str = "") -> dict[str, np.ndarray]:
        """Those whose names begin so, by the rest of their names."""
        path = self.root / f"{kind}.npz"
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as archive:
            return {name.removeprefix(prefix): archive[name] for name in archive.files if name.startswith(prefix)}


def committed_table() -> Table:
    """The evidence of a checkout, in results/paper, or what was installed with the package."""
    package = Path(__file__).parents[1]
    checkout = package.parents[1] / "results" / "paper"
    return Table(checkout if checkout.is_dir() else package / "committed")
