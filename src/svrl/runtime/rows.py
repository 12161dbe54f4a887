"""Append-only files of rows: one JSON object per line.

Every row has "steps", its moment. A run that resumes from a checkpoint at step S repeats the steps after it, so a log
that is opened again drops the rows later than S, and a last line that a crash has cut off. Rows reach the disk every
few seconds, and whenever `flush` is called.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from svrl.runtime.files import finite, naming, open_regular, writing

SECONDS = 2.0
"""Seconds after which rows in memory are written, at the latest, while rows keep coming."""
_BLOCK = 1 << 16


class RowLog:
    """A file of rows to append to; the first row creates it.

    Args:
        path: The file.
        up_to: Keep the rows of an existing file up to this step; None keeps all whole rows.
    """

    def __init__(self, path: Path, *, up_to: int | None = None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._flushed = time.monotonic()
        if path.exists():
            _cut(path, up_to)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row. A number that is not finite becomes null, with the reason in a second field.

        Raises:
            OSError: If it cannot be written, with the name of the file.
        """
        line = json.dumps(finite(row), allow_nan=False).encode() + b"\n"
        with naming(self.path):
            if self._file is None:
                self._file = self.path.open("ab")
            self._file.write(line)
        if time.monotonic() - self._flushed >= SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand all rows to the system, so that they outlive this process.

        Raises:
            OSError: If they cannot be written, with the name of the file.
        """
        self._flushed = time.monotonic()
        if self._file is not None:
            with naming(self.path):
                self._file.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        file, self._file = self._file, None
        if file is not None:
            with naming(self.path):
                file.close()

    def __enter__(self) -> RowLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All whole rows of a file; none if there is no file."""
    try:
        with open_regular(path) as file:
            return [row for line in file if (row := _parsed(line)) is not None]
    except FileNotFoundError:
        return []


def last_rows(path: Path, count: int) -> list[dict[str, Any]]:
    """The last `count` whole rows, the newest last, without reading the rest of a long file."""
    try:
        opened = open_regular(path)
    except FileNotFoundError:  # no check before: another process may remove the file in between
        return []
    with opened as file:
        at = file.seek(0, os.SEEK_END)
        tail = b""
        # One line end more than rows: the first line found may have begun before the block. One more for a cut line.
        while at > 0 and tail.count(b"\n") < count + 2:
            at, length = max(0, at - _BLOCK), min(_BLOCK, at)
            file.seek(at)
            tail = file.read(length) + tail
    lines = tail.splitlines(keepends=True)[0 if at == 0 else 1 :]
    return [row for line in lines if (row := _parsed(line)) is not None][-count:] if count > 0 else []


def rows_mark(path: Path, size: int | None = None) -> tuple[int, int]:
    """Bytes of a file of rows, or the first `size` of them, and their CRC; (0, 0) if there is no file."""
    count = checksum = 0
    if path.exists():
        with open_regular(path) as file:
            while block := file.read(_BLOCK if size is None else min(_BLOCK, size - count)):
                count, checksum = count + len(block), zlib.crc32(block, checksum)
    return count, checksum


def _cut(path: Path, up_to: int | None) -> None:
    """Drop lines that are not rows, and the rows later than `up_to`."""

    def stays(line: bytes) -> bool:
        row = _parsed(line)
        return row is not None and (up_to is None or row.get("steps", 0) <= up_to)

    with open_regular(path) as file:
        kept = b"".join([line for line in file if stays(line)])
    if len(kept) < path.stat().st_size:
        with writing(path) as temporary:
            temporary.write_bytes(kept)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None if the line is not whole, or if its "steps" is not a whole number."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("steps", 0), int) else None
