"""An S3 server on loopback, moto's, in a process of its own; a wire to it that can be cut; a file system that fails."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest

SECRET = "the-secret-of-this-test"
BUCKET = "runs"
REASON = "{} is not installed here; make test-integrations installs it"


@dataclass(frozen=True)
class ObjectStore:
    port: int
    process: subprocess.Popen

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def ask_for_rights(self) -> None:
        """From now on only users that the server knows may do anything; it knows none."""
        url, kind = f"http://127.0.0.1:{self.port}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urlopen(Request(url, data=b"0", headers=kind, method="POST")).read()


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server with one bucket, `BUCKET`."""
    for library in ("moto", "s3fs", "flask"):
        pytest.importorskip(library, reason=REASON.format(library))
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        threading.Thread(target=process.stderr.read, daemon=True).start()  # or the pipe fills
        urlopen(Request(f"http://127.0.0.1:{found[1]}/{BUCKET}", method="PUT")).read()
        yield ObjectStore(port=int(found[1]), process=process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextmanager
def wire(port: int, breaks_after: int | None = None) -> Iterator[tuple[int, threading.Event]]:
    """A port that leads to another. It is dead once the event is set, or so many bytes were sent to the server."""
    broken = threading.Event()
    sent = 0
    open_sockets: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def carry(source: socket.socket, target: socket.socket, counts: bool) -> None:
        nonlocal sent
        with suppress(OSError):
            while data := source.recv(4096):
                if counts:
                    sent += len(data)
                    if breaks_after is not None and sent > breaks_after:
                        broken.set()
                if broken.is_set():
                    break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client = server.accept()[0]
                if broken.is_set():
                    client.close()
                    continue
                there = socket.create_connection(("127.0.0.1", port))
                open_sockets.extend((client, there))
                threading.Thread(target=carry, args=(client, there, True), daemon=True).start()
                threading.Thread(target=carry, args=(there, client, False), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1], broken
    finally:
        for one in (server, *open_sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Watched:
    """A file system that counts what it writes, and fails from one write on.

    Args:
        fs: The real one.
        fails_at: The number of the first write that fails, counted from 1; None if none does.
        half: Whether that one has taken place all the same: only its answer got lost.
        only: Part of the names that count; all others work.
    """

    WRITES = ("pipe_file", "put_file", "rm_file", "mv")

    def __init__(self, fs: Any, fails_at: int | None = None, *, half: bool = False, only: str = "") -> None:
        self._fs, self.fails_at, self.half, self.only = fs, fails_at, half, only
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._fs, name)
        if name not in self.WRITES:
            return real

        def write(*arguments: Any, **options: Any) -> Any:
            path = str(arguments[1] if name in ("put_file", "mv") else arguments[0])
            if self.only not in path:
                return real(*arguments, **options)
            self.writes.append(f"{name} {path}")
            if self.fails_at is None or len(self.writes) < self.fails_at:
                return real(*arguments, **options)
            if self.half and len(self.writes) == self.fails_at:
                real(*arguments, **options)
            raise ConnectionResetError(f"secret={os.environ.get('AWS_SECRET_ACCESS_KEY', SECRET)}")

        return write
