"""A lease takes the place of a lock where there are no locks: a file that says who works, and until when.

    lease.json   {"owner": random, "host", "pid", "until": seconds since 1970}

Whoever works renews it every few seconds. One that has expired may be taken over. Whoever could not renew it in time,
or finds somebody else's name in it, has lost it for good.

What is guaranteed: where writes have conditions (S3), of several who take a free lease at once exactly one gets it,
and a renewal never overwrites another's. Elsewhere a lease is written, and read back after `settle` seconds; two may
hold it if a write takes longer than that, until the next renewal of the first finds it out. Clocks of machines may
differ by less than `expire` - `renew`. With clocks that differ more a lease is taken over too early; its former owner
finds that out and saves nothing more.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from svrl.sweeps.remote_files import ChangedError, RemoteFiles
from svrl.sweeps.store import BusyError


class LostLeaseError(OSError):
    """This process may not save the run any more."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds.

    Attributes:
        renew: Between two renewals.
        expire: How long a lease holds after a renewal; several times `renew`.
        settle: How long to wait before reading back, where writes have no conditions.
    """

    renew: float = 5.0
    expire: float = 30.0
    settle: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.renew < self.expire:
            raise ValueError(f"renew must be more than 0 and less than expire, got {self.renew:g} and {self.expire:g}.")


@contextmanager
def leased(files: RemoteFiles, name: str, timing: Timing) -> Iterator[Lease]:
    """Hold a lease, renewed by a thread of its own; BusyError if somebody else holds it."""
    lease = Lease(files, name, timing)
    lease.take()
    over = threading.Event()

    def keep() -> None:
        while not over.wait(timing.renew) and lease.lost is None:
            with suppress(OSError):  # tried again until it expires
                lease.renew()

    keeper = threading.Thread(target=keep, daemon=True, name="lease")
    keeper.start()
    try:
        yield lease
    finally:
        over.set()
        keeper.join(timing.expire)  # a network that hangs does not keep the process
        with suppress(OSError):  # then it expires
            lease.release()


def is_fresh(record: dict[str, Any] | None) -> bool:
    """Whether a lease holds at this moment."""
    return record is not None and float(record["until"]) > time.time()


def parsed_lease(content: bytes | None) -> dict[str, Any] | None:
    """The record in a file; None if there is none, or a damaged one."""
    with suppress(ValueError):
        record = json.loads(content or b"")
        if isinstance(record, dict) and isinstance(record.get("until"), int | float):
            return record
    return None


class Lease:
    """One lease, from one process's side.

    Attributes:
        owner: Who this is, for the store.
        lost: Why it is not held any more, in a phrase; None while it is.
    """

    def __init__(self, files: RemoteFiles, name: str, timing: Timing) -> None:
        self.owner = secrets.token_hex(8)
        self._files, self._name, self._timing = files, name, timing
        self._version: str | None = None
        self._lost: str | None = None
        # A machine that sleeps stops the one clock, and somebody may set the other.
        self._until, self._until_steady = 0.0, 0.0

    @property
    def lost(self) -> str | None:
        """Why it is not held any more."""
        if self._lost is None and (time.time() >= self._until or time.monotonic() >= self._until_steady):
            self._lost = f"it could not be renewed within {self._timing.expire:g} seconds"
        return self._lost

    def take(self) -> None:
        """Take it if it is free or has expired; BusyError if not."""
        version = self._files.version(self._name)
        if is_fresh(self._read()):
            raise BusyError(self._name)
        until, until_steady, content = self._renewed()
        try:
            self._version = self._files.write_if(self._name, content, version)
        except ChangedError:
            self._adopt()  # a put that was repeated after its answer got lost meets itself
        if not self._files.find_out_conditions(self._name, content):
            time.sleep(self._timing.settle)
            self._adopt()
        self._until, self._until_steady = until, until_steady

    def renew(self) -> None:
        """Put the end off; what stands in the way for good is in `lost`."""
        if self.lost is not None:
            return
        until, until_steady, content = self._renewed()
        try:
            if not self._files.conditional:
                self._adopt()
            self._write(content)
        except (BusyError, ChangedError):
            self._lost = "somebody else has taken the run over"
            return
        if self.lost is None:
            self._until, self._until_steady = until, until_steady

    def check(self) -> None:
        """Raise LostLeaseError if it is not held any more; where there are no conditions, look."""
        if self.lost is None and not self._files.conditional:
            try:
                self._adopt()
            except BusyError:
                self._lost = "somebody else has taken the run over"
        if self.lost is not None:
            raise self.error()

    def error(self) -> LostLeaseError:
        """What to say when it is lost."""
        why = self.lost or "somebody else has taken the run over"
        return LostLeaseError(
            errno.ESTALE,
            f"this process does not hold the run any more, as {why}; nothing was saved, and the same command goes on "
            "from the last save",
            f"{self._files.address}/{self._name.rpartition('/')[0]}",
        )

    def release(self) -> None:
        """Let others have it at once. It is not removed: that could not be made conditional."""
        if self.lost is None:
            with suppress(BusyError, ChangedError):
                if not self._files.conditional:
                    self._adopt()
                self._write(self._record(0.0))
                self._lost = "it was given back"

    def _write(self, content: bytes) -> None:
        """Over one's own lease, also if the answer to the last write got lost, and with it the version."""
        try:
            self._version = self._files.write_if(self._name, content, self._version)
        except ChangedError:
            self._adopt()
            self._version = self._files.write_if(self._name, content, self._version)

    def _read(self) -> dict[str, Any] | None:
        return parsed_lease(self._files.read(self._name))

    def _adopt(self) -> None:
        """Take up the version in the store if it is this owner's; BusyError if not."""
        version = self._files.version(self._name)
        if (self._read() or {}).get("owner") != self.owner:
            raise BusyError(self._name)
        self._version = version

    def _renewed(self) -> tuple[float, float, bytes]:
        until = time.time() + self._timing.expire
        return until, time.monotonic() + self._timing.expire, self._record(until)

    def _record(self, until: float) -> bytes:
        record = {"owner": self.owner, "host": socket.gethostname(), "pid": os.getpid(), "until": until}
        return json.dumps(record).encode() + b"\n"
