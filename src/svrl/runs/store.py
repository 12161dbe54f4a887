"""Where sweeps keep their runs: a folder, on this machine or shared by several, with one folder a run.

```
STORE/sweeps/NAME.json        which runs a sweep has
STORE/runs/ID/spec.json       what the run is
STORE/runs/ID/run/            the run directory of svrl train or svrl plan; result.json in it means: done
STORE/runs/ID/attempts.jsonl  who worked on it, with which svrl, and how that ended
STORE/runs/ID/log.txt         what the attempts printed
```

Nothing is kept anywhere else, so a later command, after a crash or on another machine, sees the same. Files appear
whole or not at all. The process that works on a run locks its folder; the system releases the lock however it ends.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from svrl import __version__
from svrl.runs.run_spec import RunSpec
from svrl.runtime.files import read_object, writing
from svrl.runtime.provenance import commit
from svrl.runtime.rows import RowLog, last_rows, read_rows
from svrl.runtime.run_directory import RESULT, is_running, locked

SPEC, RUN, ATTEMPTS, LOG, SWEEPS, RUNS = "spec.json", "run", "attempts.jsonl", "log.txt", "sweeps", "runs"
PROGRESS_ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl")

State = Literal["done", "running", "failed", "stopped", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
TO_DO: tuple[State, ...] = ("waiting", "stopped")
"""States of runs that can be begun or resumed."""
Attempts = Sequence[Mapping[str, Any]]


class BusyError(Exception):
    """Another process works on the run."""


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
        _write_json(self.root / SWEEPS / f"{name}.json", record)

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
            _write_json(folder / SPEC, spec.as_json())
        except FileNotFoundError:  # another sweep added it at the same moment and cleared temporary files
            _write_json(folder / SPEC, spec.as_json())
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

    def result(self, run: str) -> dict[str, Any] | None:
        """result.json of a finished run, or None."""
        return _read_json(self.folder(run) / RUN / RESULT)

    def rows(self, run: str, name: str, last: int | None = None) -> list[dict[str, Any]]:
        """Rows of a file of the run directory, such as episodes.jsonl, or the last of them."""
        path = self.folder(run) / RUN / name
        return read_rows(path) if last is None else last_rows(path, last)

    def log_tail(self, run: str, lines: int) -> list[str]:
        """The last lines that attempts printed, without reading a long log."""
        path = self.folder(run) / LOG
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 400 * lines))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]

    def is_running(self, run: str) -> bool:
        """Whether a process holds the run now."""
        return self.folder(run).exists() and is_running(self.folder(run))

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
        held = locked(self.folder(run))
        try:
            held.__enter__()
        except ValueError:
            raise BusyError(run) from None
        try:
            yield self.folder(run)
        finally:
            held.__exit__(None, None, None)

    def notes_on_versions(self, runs: Iterable[str]) -> list[str]:
        """A note if finished runs were computed by another svrl than this one."""
        found: Counter[tuple[str, str]] = Counter()
        for run in runs:
            begun = [row for row in self.attempts(run) if "began" in row]
            if begun and self.result(run) is not None:
                found[str(begun[-1].get("svrl", "?")), str(begun[-1].get("commit", ""))] += 1
        others = {version: count for version, count in found.items() if version != this_version()}
        listed = ", ".join(f"{count:,} by svrl {_version(*version)}" for version, count in others.items())
        return [f"Note: not all results are of this svrl, {_version(*this_version())}: {listed}."] if others else []


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


def this_version() -> tuple[str, str]:
    """Version and commit of the svrl that runs."""
    return __version__, commit()


def read_spec(folder: Path) -> RunSpec:
    """Of the run in a folder."""
    return RunSpec.from_json(read_object(folder / SPEC))


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


def _version(version: str, commit: str) -> str:
    return f"{version} ({commit})" if commit else version


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with writing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged ({error}). Remove it; a run then resumes from its last checkpoint."
        ) from error
    return found if isinstance(found, dict) else None
