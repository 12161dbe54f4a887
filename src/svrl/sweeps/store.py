"""Where sweeps keep their runs: one folder a run, named by its configuration, below one a code version.

```
STORE/sweeps/NAME.json       which runs a sweep has
STORE/CODE/ID/spec.json      what the run is
STORE/CODE/ID/run/           the run directory of svrl train or svrl plan; result.json in it means: done
STORE/CODE/ID/attempts.jsonl who worked on it, and how that ended
STORE/CODE/ID/log.txt        what the attempts printed
```

Nothing is remembered anywhere else, so whoever comes later, after a crash or on another machine, sees the same. The
files appear whole or not at all. Whoever works on a run holds a lock on its folder, which the system takes back
however the process ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from svrl.runs.atomic import writing
from svrl.runs.regular_file import read_object
from svrl.runs.rows import RowLog, last_rows, read_rows
from svrl.runs.run_directory import RESULT
from svrl.runs.training_run import is_running, locked
from svrl.sweeps.code_version import code_version
from svrl.sweeps.run_spec import RunSpec

SPEC, RUN, ATTEMPTS, LOG, SWEEPS = "spec.json", "run", "attempts.jsonl", "log.txt", "sweeps"


class BusyError(Exception):
    """Somebody else works on the run."""


class Workplace(Protocol):
    """A run that this process may work on, for as long as it holds it."""

    @property
    def folder(self) -> Path:
        """Where its files are on this machine: spec.json, run/, log.txt."""
        ...

    def save(self) -> None:
        """Make what is in the folder outlive this machine."""
        ...


class Store(Protocol):
    """What engines and views need of a store; `open_store` opens one."""

    @property
    def address(self) -> str:
        """What opens it."""
        ...

    @property
    def code(self) -> str:
        """The code version whose runs are meant."""
        ...

    def keep_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        """Write sweeps/NAME.json."""
        ...

    def sweep(self, name: str) -> dict[str, Any] | None:
        """What `keep_sweep` kept, if there is any."""
        ...

    def sweeps(self) -> list[str]:
        """Names of all sweeps."""
        ...

    def codes(self) -> list[str]:
        """Code versions that have runs here."""
        ...

    def add(self, spec: RunSpec) -> None:
        """Make the folder of a run with its spec.json, unless it is there."""
        ...

    def spec(self, run: str) -> RunSpec:
        """What a run is, by its id; FileNotFoundError if it was never added."""
        ...

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Rows about the attempts of a run, by its id; none if there is nothing."""
        ...

    def note(self, run: str, row: Mapping[str, Any]) -> None:
        """Append a row to the attempts of a run; only by whoever holds it, or where nobody does."""
        ...

    def result(self, run: str) -> dict[str, Any] | None:
        """result.json of a finished run."""
        ...

    def rows(self, run: str, name: str, last: int | None = None) -> list[dict[str, Any]]:
        """Rows of a file of the run directory, such as episodes.jsonl, or the last of them."""
        ...

    def log_tail(self, run: str, lines: int) -> list[str]:
        """The last lines that attempts printed."""
        ...

    def has_begun(self, run: str) -> bool:
        """Whether there is something to go on with."""
        ...

    def is_running(self, run: str) -> bool:
        """Whether somebody works on it now."""
        ...

    def looked_at(self, runs: Sequence[str]) -> Store:
        """The same store for one look at many runs, what is small of all read at once where that is quicker."""
        ...

    def working_on(self, run: str) -> AbstractContextManager[Workplace]:
        """Hold a run; BusyError if somebody else does."""
        ...


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder of a local store that this process holds."""

    folder: Path

    def save(self) -> None:
        """Nothing is to be done: the folder is the store."""


@dataclass(frozen=True, kw_only=True)
class LocalStore:
    """A folder, on this machine or shared by several.

    Attributes:
        root: The folder.
        code: The code version whose runs are meant.
    """

    root: Path
    code: str

    @property
    def address(self) -> str:
        """What opens it."""
        return str(self.root)

    def folder(self, run: str) -> Path:
        """Of a run."""
        return self.root / self.code / run

    def keep_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        """Write sweeps/NAME.json."""
        (self.root / SWEEPS).mkdir(parents=True, exist_ok=True)
        _write_json(self.root / SWEEPS / f"{name}.json", record)

    def sweep(self, name: str) -> dict[str, Any] | None:
        """What `keep_sweep` kept, if there is any."""
        return _read_json(self.root / SWEEPS / f"{name}.json")

    def sweeps(self) -> list[str]:
        """Names of all sweeps."""
        return sorted(path.stem for path in (self.root / SWEEPS).glob("[!.]*.json"))

    def codes(self) -> list[str]:
        """Code versions that have runs here."""
        return sorted({path.parent.parent.name for path in self.root.glob(f"*/*/{SPEC}")})

    def add(self, spec: RunSpec) -> None:
        """Make the folder of a run with its spec.json, unless it is there."""
        folder = self.folder(spec.id)
        if not (folder / SPEC).exists():
            folder.mkdir(parents=True, exist_ok=True)
            _write_json(folder / SPEC, spec.as_json())

    def spec(self, run: str) -> RunSpec:
        """What a run is, by its id; FileNotFoundError if it was never added."""
        return read_spec(self.folder(run))

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Rows about the attempts of a run, by its id; none if there is nothing."""
        return read_rows(self.folder(run) / ATTEMPTS)

    def note(self, run: str, row: Mapping[str, Any]) -> None:
        """Append a row to the attempts of a run; only by whoever holds it, or where nobody does."""
        with RowLog(self.folder(run) / ATTEMPTS) as log:
            log.append(row)

    def result(self, run: str) -> dict[str, Any] | None:
        """result.json of a finished run."""
        return _read_json(self.folder(run) / RUN / RESULT)

    def rows(self, run: str, name: str, last: int | None = None) -> list[dict[str, Any]]:
        """Rows of a file of the run directory, such as episodes.jsonl, or the last of them."""
        path = self.folder(run) / RUN / name
        return read_rows(path) if last is None else last_rows(path, last)

    def log_tail(self, run: str, lines: int) -> list[str]:
        """The last lines that attempts printed."""
        return last_lines(self.folder(run) / LOG, lines)

    def has_begun(self, run: str) -> bool:
        """Whether there is something to go on with."""
        return (self.folder(run) / RUN).exists()

    def is_running(self, run: str) -> bool:
        """Whether somebody works on it now."""
        return self.folder(run).exists() and is_running(self.folder(run))

    def looked_at(self, runs: Sequence[str]) -> LocalStore:
        """Itself: files are near."""
        return self

    @contextmanager
    def working_on(self, run: str) -> Iterator[Place]:
        """Hold a run; BusyError if somebody else does."""
        try:
            held = locked(self.folder(run))
            held.__enter__()
        except ValueError:
            raise BusyError(run) from None
        try:
            yield Place(folder=self.folder(run))
        finally:
            held.__exit__(None, None, None)


def open_store(address: str | Path, code: str | None = None) -> Store:
    """The store at a folder, or at an address such as s3://bucket/prefix.

    Args:
        address: Where it is.
        code: The code version whose runs are meant; by default the one that runs now.

    Raises:
        ValueError: If a file is there.
    """
    code = code or code_version()
    if "://" not in str(address):
        root = Path(address)
        if root.exists() and not root.is_dir():
            raise ValueError(f"{root} is a file, and a store is a folder. Give another place.")
        return LocalStore(root=root, code=code)
    from svrl.sweeps.remote_store import RemoteStore

    return RemoteStore(address=str(address), code=code)


def read_spec(folder: Path) -> RunSpec:
    """Of the run in a folder."""
    return RunSpec.from_json(read_object(folder / SPEC))


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text, without reading a long one."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 400 * count))
        return file.read().decode("utf-8", "replace").splitlines()[-count:]


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
            f"{path} is damaged ({error}). Remove it; a run then goes on from its last checkpoint."
        ) from error
    return found if isinstance(found, dict) else None
