"""Where runs are kept: a folder, on this machine or shared by several, with one folder a run.

```
STORE/runs/ID/spec.json       what the run is
STORE/runs/ID/run/            its run directory; result.json in it means: done
STORE/runs/ID/attempts.jsonl  who worked on it, with which svrl, and how that ended
STORE/runs/ID/log.txt         what the attempts printed
STORE/sweeps/NAME.json        which runs a sweep has
```

Nothing is kept anywhere else, so a later command, after a crash or on another machine, sees the same. Files appear
whole or not at all. The process that works on a run locks its folder; the system releases the lock however it ends.

Trainings and plans write run directories like those of `svrl train` and `svrl plan`. What other runs come to is rows in
result.json, and arrays.npz beside it if there are arrays.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from svrl import __version__
from svrl.runs.spec import SUBJECT, Result, RunSpec
from svrl.runtime.files import finite, read_object, write_json, writing
from svrl.runtime.provenance import commit
from svrl.runtime.rows import RowLog, last_rows, read_rows
from svrl.runtime.run_directory import RESULT, is_running, locked

SPEC, RUN, ATTEMPTS, LOG, SWEEPS, RUNS = "spec.json", "run", "attempts.jsonl", "log.txt", "sweeps", "runs"
ARRAYS = "arrays.npz"
HERE, SHIPPED = "here", "committed"
PROGRESS_ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl")

State = Literal["done", "running", "failed", "stopped", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
TO_DO: tuple[State, ...] = ("waiting", "stopped")
"""States of runs that can be begun or resumed."""
Attempts = Sequence[Mapping[str, Any]]


class BusyError(Exception):
    """Another process works on the run."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A finished run, as figures and claims read it.

    Attributes:
        kind: Name of its kind.
        id: Of the run.
        settings: Of the run.
        rows: What it came to.
        provenance: Versions of svrl, python, torch and numpy, machine, device, when it ended, seconds, command, and
            the commit where it is known.
        source: "here" or "committed".
        load: Reads its arrays.
    """

    kind: str
    id: str
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
    """What finished runs are read from: a store, or the table that ships with svrl."""

    def read(self, spec: RunSpec) -> Kept | None:
        """The run, or None if it is not there."""


@dataclass(frozen=True)
class Store:
    """A folder of runs; `open_store` opens one.

    Attributes:
        root: The folder.
    """

    root: Path

    @property
    def address(self) -> str:
        """The folder, for a person."""
        return str(self.root)

    def folder(self, run: str) -> Path:
        """The folder of a run, by its id."""
        return self.root / RUNS / run

    def keep_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        """Write sweeps/NAME.json."""
        (self.root / SWEEPS).mkdir(parents=True, exist_ok=True)
        write_json(self.root / SWEEPS / f"{name}.json", record)

    def sweep(self, name: str) -> dict[str, Any] | None:
        """What `keep_sweep` wrote, or None."""
        return _read_json(self.root / SWEEPS / f"{name}.json")

    def sweeps(self) -> list[str]:
        """Names of all sweeps."""
        return sorted(path.stem for path in (self.root / SWEEPS).glob("[!.]*.json"))

    def add(self, spec: RunSpec) -> None:
        """Make the folder of a run with its spec.json, unless it is there."""
        folder = self.folder(spec.id)
        if (folder / SPEC).exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        try:
            write_json(folder / SPEC, spec.as_json())
        except FileNotFoundError:  # another sweep added it at the same moment and cleared temporary files
            write_json(folder / SPEC, spec.as_json())
        except OSError as error:
            error.filename = error.filename or self.address
            raise

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Rows about the attempts at a run."""
        return read_rows(self.folder(run) / ATTEMPTS)

    def note(self, run: str, row: Mapping[str, Any]) -> None:
        """Append a row to the attempts at a run; only for the process that holds it."""
        with RowLog(self.folder(run) / ATTEMPTS) as log:
            log.append(row)

    def retry(self, run: str) -> None:
        """Allow a failed run to be retried."""
        self.note(run, {"retry": datetime.now(UTC).isoformat(timespec="milliseconds")})

    def result(self, run: str) -> dict[str, Any] | None:
        """result.json of a finished run, or None."""
        return _read_json(self.folder(run) / RUN / RESULT)

    def keep(self, spec: RunSpec, result: Result, provenance: Mapping[str, Any]) -> None:
        """Write what a run came to, its arrays first: with result.json it is done."""
        folder = self.folder(spec.id) / RUN
        folder.mkdir(parents=True, exist_ok=True)
        if result.arrays:
            with writing(folder / ARRAYS) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **result.arrays)  # type: ignore[arg-type]
        fields = {"settings": dict(spec.settings), "provenance": dict(provenance), "arrays": sorted(result.arrays)}
        write_json(folder / RESULT, {**fields, "rows": [finite(row) for row in result.rows]}, indent=None)

    def read(self, spec: RunSpec) -> Kept | None:
        """A finished run that `keep` wrote, or None.

        Raises:
            ValueError: If its file is damaged or was changed by hand.
        """
        path = self.folder(spec.id) / RUN / RESULT
        found = _read_json(path)
        if found is None:
            return None
        if found.get("settings") != json.loads(json.dumps(dict(spec.settings))) or "rows" not in found:
            raise ValueError(f"{path} does not hold what its name says. Delete it; it will be computed again.")
        arrays = path.with_name(ARRAYS)
        if found["arrays"] and not arrays.exists():
            raise ValueError(f"{arrays} is missing. Delete {path.name} beside it; it will be computed again.")
        return Kept(
            kind=spec.kind.name,
            id=spec.id,
            settings=found["settings"],
            rows=found["rows"],
            provenance=found["provenance"],
            source=HERE,
            load=lambda: _read_arrays(arrays) if found["arrays"] else {},
        )

    def kept(self) -> Iterator[tuple[dict[str, Any], Path]]:
        """Every run that `keep` wrote: what spec.json holds, and the run directory."""
        for path in sorted((self.root / RUNS).glob(f"*/{SPEC}")):
            folder = path.parent / RUN
            spec = _read_json(path)
            if spec is not None and spec["kind"] not in SUBJECT and (folder / RESULT).exists():
                yield spec, folder

    def rows(self, run: str, name: str, last: int | None = None) -> list[dict[str, Any]]:
        """Rows of a file of the run directory, such as episodes.jsonl, or the last of them."""
        path = self.folder(run) / RUN / name
        return read_rows(path) if last is None else last_rows(path, last)

    def log_tail(self, run: str, lines: int) -> list[str]:
        """The last lines that attempts printed, without reading a long log."""
        try:
            with (self.folder(run) / LOG).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 400 * lines))
                return file.read().decode("utf-8", "replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def is_running(self, run: str) -> bool:
        """Whether a process holds the run now."""
        try:
            return is_running(self.folder(run))
        except FileNotFoundError:
            return False

    def state(self, run: str) -> State:
        """Whether a run is done, running, failed, stopped (begun, to be resumed) or waiting."""
        if self.result(run) is not None:
            return "done"
        if self.is_running(run):  # it may have ended between the two looks
            return "done" if self.result(run) is not None else "running"
        if failure_of(self.attempts(run)) is not None:
            return "failed"
        return "stopped" if (self.folder(run) / RUN).exists() else "waiting"

    def steps(self, run: str) -> int:
        """Agent steps of a training so far, by its rows."""
        last = (row for name in PROGRESS_ROWS for row in self.rows(run, name, 1))
        return max((int(row.get("steps", 0)) for row in last), default=0)

    @contextmanager
    def working_on(self, run: str) -> Iterator[Path]:
        """Hold a run; its folder.

        Raises:
            BusyError: If another process holds it.
        """
        with ExitStack() as held:
            try:
                held.enter_context(locked(self.folder(run)))
            except ValueError:
                raise BusyError(run) from None
            yield self.folder(run)

    def notes_on_versions(self, runs: Iterable[str]) -> list[str]:
        """A note if finished runs were computed by another svrl than this one."""
        done = Counter(self.version_of(run) for run in runs if (self.folder(run) / RUN / RESULT).exists())
        listed = ", ".join(f"{count:,} by svrl {it}" for it, count in done.items() if it not in ("", this_version()))
        return [f"Note: not all results are of this svrl, {this_version()}: {listed}."] if listed else []

    def version_of(self, run: str) -> str:
        """Version and commit of the svrl of the last attempt at a run; empty if there was none."""
        begun: Mapping[str, Any] = next((row for row in reversed(self.attempts(run)) if "began" in row), {})
        return f"{begun.get('svrl', '')} {begun.get('commit', '')}".strip()


def open_store(address: str | Path) -> Store:
    """The store in a folder, which need not be there yet.

    Raises:
        ValueError: If a file is there, or if it is an address of an object store.
    """
    if "://" in str(address):
        raise ValueError(f"A store is a folder, which several machines may share; got {address}.")
    root = Path(address)
    if root.exists() and not root.is_dir():
        raise ValueError(f"{root} is a file, and a store is a folder. Give another place.")
    return Store(root)


def this_version() -> str:
    """Version and commit of the svrl that runs."""
    return f"{__version__} {commit()}".strip()


def label_in(folder: Path) -> str:
    """What the run in a folder of a store is called; empty if the folder holds none, or a damaged one."""
    try:
        spec = read_object(folder / SPEC)
    except (OSError, ValueError):
        return ""
    return str(spec.get("label", "")) if spec.get("id") == folder.name else ""


def read_first(spec: RunSpec, stores: Iterable[Reader]) -> Kept | None:
    """A finished run out of the first store that has it."""
    return next((kept for store in stores if (kept := store.read(spec)) is not None), None)


def failure_of(attempts: Attempts) -> Mapping[str, Any] | None:
    """The row of the attempt that made a run a failed one, or None; what came before a retry does not count."""
    ended = _ended(attempts)
    return ended[-1] if ended and ended[-1]["outcome"] == "failed" else None


def kills_of(attempts: Attempts) -> int:
    """How often the process of a run was killed since its last retry."""
    return sum(row["outcome"] == "killed" for row in _ended(attempts))


def _ended(attempts: Attempts) -> list[Mapping[str, Any]]:
    since = max((place for place, row in enumerate(attempts) if "retry" in row), default=-1)
    return [row for row in attempts[since + 1 :] if "outcome" in row]


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Remove it; its run then resumes or begins again.") from error
    return found if isinstance(found, dict) else None


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
