"""A store at any address that fsspec knows, such as s3://bucket/prefix.

```
STORE/sweeps/NAME.json          which runs a sweep has
STORE/CODE/ID/spec.json         what the run is
STORE/CODE/ID/attempts.jsonl    who worked on it, and how that ended
STORE/CODE/ID/lease.json        who works on it now, see svrl.sweeps.lease
STORE/CODE/ID/manifest.json     the files of the run at one moment: name, object, bytes
STORE/CODE/ID/files/OBJECT      their contents; written once, never changed
```

Whoever works on a run does so in a folder of its own machine, which `save` copies: it freezes the folder
(svrl.sweeps.frozen_run), writes the objects that are new, and then the one manifest. Whenever the machine disappears,
the store has the former moment or the new one. An object goes when neither the manifest nor the one before needs it.

On S3 the manifest is written on condition that it is still the one that this process wrote last, and whoever takes a
run over begins by writing it anew. So of two processes that both believe that they hold a run, because one was asleep
or the clocks differ, only the later one can save. Where there are no conditions the lease is read before the write.

How S3 is reached is not in the address. s3fs takes it from the usual places: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
and AWS_SESSION_TOKEN, or AWS_PROFILE with ~/.aws, or the role of the machine; AWS_DEFAULT_REGION; AWS_MAX_ATTEMPTS.
The endpoint of a compatible service is AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or endpoint_url in ~/.aws/config.
fsspec's own settings come before: FSSPEC_S3_ENDPOINT_URL, FSSPEC_S3 as JSON, as in {"endpoint_url": "...",
"config_kwargs": {"s3": {"addressing_style": "path"}}}, or the same under "s3" in ~/.config/fsspec/*.json.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from svrl.sweeps.lease import Timing, is_fresh, leased, parsed_lease
from svrl.sweeps.remote_files import ChangedError, RemoteFiles
from svrl.sweeps.remote_place import FILES, MANIFEST, Manifest, RemotePlace, whole_rows
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import ATTEMPTS, LOG, RUN, SPEC, SWEEPS

LEASE = "lease.json"
T = TypeVar("T")
_TRIES = 8
_BLOCK = 1 << 16
_KEPT_BYTES = 64 << 20
"""Of objects that were read lately; they never change."""


@dataclass(frozen=True, kw_only=True)
class Glance:
    """What a store had of a run at one moment."""

    manifest: Manifest | None
    lease: dict[str, Any] | None
    attempts: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class RemoteStore:
    """A store that is no folder of this machine.

    Attributes:
        address: As in s3://bucket/prefix.
        code: The code version whose runs are meant.
        timing: Of the leases.
    """

    address: str
    code: str
    timing: Timing = Timing()  # noqa: RUF009 frozen
    _files: dict[int, RemoteFiles] = field(default_factory=dict, repr=False, compare=False)
    _glances: Mapping[str, Glance] = field(default_factory=dict, repr=False, compare=False)
    _read: OrderedDict[str, bytes] = field(default_factory=OrderedDict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.files  # noqa: B018 a library that is missing is told of at once

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(RemoteStore, address=self.address, code=self.code, timing=self.timing), ()

    @property
    def files(self) -> RemoteFiles:
        """Everything below the address; connections are not shared with processes that were forked."""
        process = os.getpid()
        if process not in self._files:
            self._files[process] = RemoteFiles(self.address)
        return self._files[process]

    def looked_at(self, runs: Iterable[str]) -> RemoteStore:
        """This store as it is now, for a view of many runs: what is small is read at once, and not again."""
        runs = list(dict.fromkeys(runs))
        names = [self._name(run, name) for run in runs for name in (MANIFEST, LEASE, ATTEMPTS)]
        found = iter(self.files.read_many(names))
        glances = {
            run: Glance(
                manifest=Manifest.parsed(next(found)),
                lease=parsed_lease(next(found)),
                attempts=whole_rows(next(found) or b""),
            )
            for run in runs
        }
        return replace(self, _glances=glances)

    def keep_sweep(self, name: str, record: Mapping[str, Any]) -> None:
        """Write sweeps/NAME.json."""
        self.files.write(f"{SWEEPS}/{name}.json", _json(record))

    def sweep(self, name: str) -> dict[str, Any] | None:
        """What `keep_sweep` kept, if there is any."""
        content = self.files.read(f"{SWEEPS}/{name}.json")
        found = None if content is None else json.loads(content)
        return found if isinstance(found, dict) else None

    def sweeps(self) -> list[str]:
        """Names of all sweeps."""
        return [name[:-5] for name in self.files.names(SWEEPS) if name.endswith(".json") and name[0] != "."]

    def codes(self) -> list[str]:
        """Code versions that have runs here."""
        return [code for code in self.files.names() if code != SWEEPS and self.files.names(code)]

    def add(self, spec: RunSpec) -> None:
        """Write the spec.json of a run, unless it is there."""
        name = self._name(spec.id, SPEC)
        if self.files.conditional is not False:  # one request; where it is ignored, the same is written again
            with suppress(ChangedError):
                self.files.write_if(name, _json(spec.as_json()), None)
        elif self.files.read(name) is None:
            self.files.write(name, _json(spec.as_json()))

    def spec(self, run: str) -> RunSpec:
        """What a run is, by its id; FileNotFoundError if it was never added."""
        name = self._name(run, SPEC)
        text = self.files.read(name)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.address}/{name}")
        return RunSpec.from_json(json.loads(text))

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Rows about the attempts of a run, by its id; none if there is nothing."""
        if run in self._glances:
            return self._glances[run].attempts
        return whole_rows(self.files.read(self._name(run, ATTEMPTS)) or b"")

    def note(self, run: str, row: Mapping[str, Any]) -> None:
        """Append a row to the attempts of a run; only by whoever holds it, or where nobody does."""
        name = self._name(run, ATTEMPTS)
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        for _ in range(_TRIES):
            version = self.files.version(name)
            before = self.files.read(name) or b""
            if before.endswith(line):
                return  # a put that was repeated after its answer got lost
            with suppress(ChangedError):
                self.files.write_if(name, before + line, version)
                return
        raise self.files.error(errno.EBUSY, f"{name} is written by others all the time; try again")

    def result(self, run: str) -> dict[str, Any] | None:
        """result.json of a finished run."""
        manifest = self._manifest(run)
        return None if manifest is None else manifest.result

    def rows(self, run: str, name: str, last: int | None = None) -> list[dict[str, Any]]:
        """Rows of a file of the run directory, such as episodes.jsonl, or the last of them."""

        def find(manifest: Manifest) -> list[dict[str, Any]]:
            if last == 1 and name in manifest.last_rows:
                return [manifest.last_rows[name]]
            entry = manifest.files.get(f"{RUN}/{name}")
            if entry is None or last == 0:
                return []
            start = 0 if last is None else entry.size
            found: list[dict[str, Any]] = []
            while True:
                start = max(0, start - _BLOCK)
                content = self._object(run, entry.object, start, entry.size)
                # Of a part, the first line may have begun before it.
                found = whole_rows(content if start == 0 else content.partition(b"\n")[2])
                if start == 0 or (last is not None and len(found) >= last):
                    return found if last is None else found[-last:]

        return self._through_manifest(run, find) or []

    def log_tail(self, run: str, lines: int) -> list[str]:
        """The last lines that attempts printed, up to the last save."""

        def find(manifest: Manifest) -> list[str]:
            entry = manifest.files.get(LOG)
            if entry is None:
                return []
            content = self._object(run, entry.object, max(0, entry.size - 400 * lines), entry.size)
            return content.decode("utf-8", "replace").splitlines()[-lines:]

        return self._through_manifest(run, find) or []

    def has_begun(self, run: str) -> bool:
        """Whether there is something to go on with."""
        manifest = self._manifest(run)
        return manifest is not None and any(name.startswith(f"{RUN}/") for name in manifest.files)

    def is_running(self, run: str) -> bool:
        """Whether somebody works on it now."""
        glance = self._glances.get(run)
        return is_fresh(parsed_lease(self.files.read(self._name(run, LEASE))) if glance is None else glance.lease)

    @contextmanager
    def working_on(self, run: str) -> Iterator[RemotePlace]:
        """Hold a run; BusyError if somebody else does.

        What the store has of it is copied into a folder of this machine, below TMPDIR, which goes at the end. It is
        saved once more then, also if an exception ends the block.
        """
        with (
            leased(self.files, self._name(run, LEASE), self.timing) as lease,
            tempfile.TemporaryDirectory(prefix="svrl-run-", ignore_cleanup_errors=True) as scratch,
        ):
            place = RemotePlace(self.files, self._name(run), lease, Path(scratch))
            place.fetch()
            try:
                yield place
            except BaseException:
                with suppress(OSError):
                    place.save()
                raise
            place.save()

    def _name(self, run: str, name: str = "") -> str:
        return f"{self.code}/{run}/{name}" if name else f"{self.code}/{run}"

    def _manifest(self, run: str) -> Manifest | None:
        if run in self._glances:
            return self._glances[run].manifest
        return Manifest.parsed(self.files.read(self._name(run, MANIFEST)))

    def _through_manifest(self, run: str, find: Callable[[Manifest], T]) -> T | None:
        """What `find` finds; again with the new manifest if an object has gone, because there is a new one."""
        manifest = self._manifest(run)
        for _ in range(_TRIES):
            if manifest is None:
                return None
            try:
                return find(manifest)
            except FileNotFoundError:
                manifest = Manifest.parsed(self.files.read(self._name(run, MANIFEST)))
        raise self.files.error(errno.EIO, f"{self._name(run)} lists files that are not there; it is damaged, remove it")

    def _object(self, run: str, name: str, start: int, end: int) -> bytes:
        """Some bytes of an object that never changes; FileNotFoundError if it has gone."""
        if start >= end:
            return b""
        key = f"{run}/{name}:{start}"
        content = self._read.get(key)
        if content is None:
            content = self.files.read(self._name(run, f"{FILES}/{name}"), start, end)
            if content is None:
                raise FileNotFoundError(name)
        self._read[key] = content
        with suppress(KeyError):  # several threads may look
            self._read.move_to_end(key)
            while sum(map(len, tuple(self._read.values()))) > _KEPT_BYTES and len(self._read) > 1:
                self._read.popitem(last=False)
        return content


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
