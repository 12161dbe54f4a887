"""The folder of this machine where a run of a remote store is worked on, and how it is copied there and back."""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from svrl.runs.run_directory import RESULT
from svrl.sweeps.frozen_run import FrozenFile, freeze, stamp_of
from svrl.sweeps.lease import Lease
from svrl.sweeps.remote_files import ChangedError, RemoteFiles
from svrl.sweeps.store import RUN, SPEC

MANIFEST, FILES = "manifest.json", "files"
FORMAT = 1
_LONGEST_ROW = 1 << 12
"""Bytes of a last row that a manifest repeats."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of a run: its object, and its size in bytes."""

    object: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The files of a run at one moment.

    Attributes:
        owner: Who wrote it.
        number: Of the save, counted over all owners.
        files: By their names below the folder of the run.
        result: What result.json holds, so that a look at many runs reads one object of each.
        last_rows: The last row of each file of rows, for the same reason.
    """

    owner: str
    number: int = 0
    files: Mapping[str, Entry] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    last_rows: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def objects(self) -> set[str]:
        """Names of all objects that it needs."""
        return {entry.object for entry in self.files.values()}

    def as_bytes(self) -> bytes:
        """For manifest.json."""
        files = {name: {"object": entry.object, "bytes": entry.size} for name, entry in sorted(self.files.items())}
        content = {
            "format": FORMAT,
            "owner": self.owner,
            "number": self.number,
            "saved": time.time(),
            "result": self.result,
            "last_rows": dict(self.last_rows),
            "files": files,
        }
        return json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def parsed(cls, content: bytes | None) -> Manifest | None:
        """Back from `as_bytes`; None if there is none.

        Raises:
            OSError: If it is damaged, or of another version.
        """
        if content is None:
            return None
        try:
            found = json.loads(content)
            assert found["format"] == FORMAT
            files = {name: Entry(object=one["object"], size=one["bytes"]) for name, one in found["files"].items()}
            assert all(_stays_below(name) and _stays_below(one.object) for name, one in files.items())
            return cls(
                owner=found["owner"],
                number=found["number"],
                files=files,
                result=found["result"],
                last_rows=found["last_rows"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise OSError(
                errno.EIO,
                "it is damaged or was written by another version of svrl; remove the run, or use that version",
                MANIFEST,
            ) from None


def _stays_below(name: str) -> bool:
    """Whether a name leads to a place below the folder that it is joined to, whoever has written it."""
    return not name.startswith("/") and ".." not in name.split("/")


def whole_rows(content: bytes) -> list[dict[str, Any]]:
    """Rows of a text of JSON lines; a line that was cut is left out."""
    rows = []
    for line in content.splitlines(keepends=True):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
    return rows


class RemotePlace:
    """A run that this process holds.

    Attributes:
        folder: Where its files are on this machine.
    """

    def __init__(self, files: RemoteFiles, name: str, lease: Lease, scratch: Path) -> None:
        self.folder = scratch / "work"
        self._files, self._name, self._lease = files, name, lease
        self._frozen = scratch / "frozen"
        self._manifest = Manifest(owner=lease.owner)
        self._version: str | None = None
        self._stamps: dict[str, tuple[int, int, int]] = {}
        self._written = 0
        self._one_at_a_time = threading.Lock()

    def fetch(self) -> None:
        """Make the run this owner's, and copy what the store has of it here."""
        self._claim()
        self.folder.mkdir()
        spec = self._files.read(f"{self._name}/{SPEC}")
        if spec is not None:
            (self.folder / SPEC).write_bytes(spec)
        entries = self._manifest.files.items()
        try:
            self._files.download((f"{self._name}/{FILES}/{one.object}", self.folder / name) for name, one in entries)
            damaged = [name for name, one in entries if (self.folder / name).stat().st_size != one.size]
        except FileNotFoundError as error:
            damaged = [Path(str(error.filename or error)).name]
        if damaged:
            raise self._files.error(
                errno.EIO, f"{damaged[0]} of {self._name} is missing or damaged there; remove the run to begin it anew"
            )
        self._stamps = {name: stamp_of(self.folder / name) for name, _ in entries}

    def save(self) -> None:
        """Copy the folder to the store as it is at this moment; nothing is written if nothing has changed.

        Raises:
            LostLeaseError: If somebody else may have taken the run over.
            OSError: If the store cannot be reached or written. It has the former moment, whole.
        """
        with self._one_at_a_time:
            self._lease.check()
            try:
                found = freeze(self.folder, self._frozen)
                if {name: file.stamp for name, file in found.items()} != self._stamps:
                    self._copy(found)
            finally:
                shutil.rmtree(self._frozen, ignore_errors=True)

    def _copy(self, found: Mapping[str, FrozenFile]) -> None:
        # Listed before the manifest is written: whoever takes the run over writes objects only after a manifest of
        # its own, with which the one below would fail. So what is removed in the end is never another's.
        there = set(self._files.names(f"{self._name}/{FILES}"))
        new = {name: file for name, file in found.items() if self._stamps.get(name) != file.stamp}
        entries = {name: self._manifest.files[name] for name in found if name not in new}
        rows = {name: row for name, row in self._manifest.last_rows.items() if f"{RUN}/{name}" in entries}
        for name, file in new.items():
            if not file.is_large:
                content = file.content()
                entries[name] = self._entry(name, len(content))
                self._files.write(self._place_of(entries[name]), content)
                rows |= _last_row(name, content)
        large = {name: file for name, file in new.items() if file.is_large}
        entries |= {name: self._entry(name, file.size) for name, file in large.items()}
        self._files.upload((file.path, self._place_of(entries[name])) for name, file in large.items())
        result = found.get(f"{RUN}/{RESULT}")
        manifest = replace(
            self._manifest,
            number=self._manifest.number + 1,
            files=entries,
            result=None if result is None else json.loads(result.content()),
            last_rows=rows,
        )
        former = self._manifest.objects
        self._lease.check()
        self._put(manifest)
        self._stamps = {name: file.stamp for name, file in found.items()}
        # Readers of the former manifest may go on for a while. Nobody waits for the checkpoints of a finished run.
        needed = manifest.objects | (former if result is None else set())
        self._files.remove(f"{self._name}/{FILES}/{name}" for name in sorted((there | former) - needed))

    def _entry(self, name: str, size: int) -> Entry:
        """A new object for a file. No other owner has objects of this name."""
        self._written += 1
        return Entry(object=f"{self._lease.owner}-{self._written:06d}-{Path(name).name}", size=size)

    def _place_of(self, entry: Entry) -> str:
        return f"{self._name}/{FILES}/{entry.object}"

    def _claim(self) -> None:
        """Write the manifest anew in this owner's name; from then on no other can."""
        for _ in range(8):
            self._version = self._files.version(f"{self._name}/{MANIFEST}")
            found = Manifest.parsed(self._files.read(f"{self._name}/{MANIFEST}")) or self._manifest
            mine = replace(found, owner=self._lease.owner)
            try:
                self._version = self._files.write_if(f"{self._name}/{MANIFEST}", mine.as_bytes(), self._version)
            except ChangedError:
                continue  # the former owner's last
            self._manifest = mine
            return
        raise self._lease.error()

    def _put(self, manifest: Manifest) -> None:
        name = f"{self._name}/{MANIFEST}"
        while True:
            try:
                self._version = self._files.write_if(name, manifest.as_bytes(), self._version)
            except ChangedError:
                # Another's, or one of this owner's that was written although its answer got lost.
                version = self._files.version(name)
                found = Manifest.parsed(self._files.read(name))
                if found is None or found.owner != self._lease.owner or version == self._version:
                    raise self._lease.error() from None
                self._version = version
            else:
                self._manifest = manifest
                return


def _last_row(name: str, content: bytes) -> dict[str, dict[str, Any]]:
    """By its name below the run directory, if it is a file of rows and the row is short."""
    folder, _, last = name.rpartition("/")
    if folder != RUN or not last.endswith(".jsonl"):
        return {}
    line = content[content.rfind(b"\n", 0, -1) + 1 :]
    rows = whole_rows(line) if len(line) <= _LONGEST_ROW else []
    return {last: rows[-1]} if rows else {}
