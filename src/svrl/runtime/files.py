"""Files that are whole or absent, JSON in them, and reading of regular files only.

`writing` is atomic: a file is either the old one or the whole new one, also if the process is killed or the machine
loses its power. The new file is on the disk before it replaces the old one, and the replacement is on the disk before
`writing` returns, so the caller can then remove what the file supersedes.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, and move it there when the block ends without an exception.

    The temporary file keeps the suffix of `path`, because many writers depend on it. Entering the block creates it, so
    a folder without write permission raises before any work.

    Raises:
        OSError: As in `naming`.
    """
    with naming(path):
        handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            mask = os.umask(0)
            os.umask(mask)
            _synchronise(temporary, os.O_RDWR)
            temporary.chmod(0o666 & ~mask)  # mkstemp makes files private; this is an ordinary one
            temporary.replace(path)
            with suppress(OSError):  # not every system can do it for a folder, and the file itself is safe
                _synchronise(path.parent, os.O_RDONLY)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError name `path` if it names no file, as that of a full disk, or the temporary file of `writing`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).name.startswith(_prefix(path)):
            if error.errno is None:  # NumPy reports a full disk so
                error.strerror = str(error)
            error.filename = str(path)
        raise


def _prefix(path: Path) -> str:
    return f".{path.stem}-"


def write_json(path: Path, value: object, *, indent: int | None = 2) -> None:
    """Write one JSON value.

    Raises:
        ValueError: If it has a number that JSON cannot hold; see `finite`.
    """
    text = json.dumps(value, indent=indent, allow_nan=False) + "\n"
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity in a row, also in lists, with None, and add a field with the reason for each."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            out |= {name: None, f"{name}_reason": f"not finite: {value}"}
        elif isinstance(value, list | tuple) and not all(math.isfinite(x) for x in value if isinstance(x, float)):
            shown = [None if isinstance(x, float) and not math.isfinite(x) else x for x in value]
            out |= {name: shown, f"{name}_reason": "some are not finite"}
        else:
            out[name] = value
    return out


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading bytes. A pipe would block, and a device has no end.

    Raises:
        ValueError: If it is a pipe, a folder or a device.
        OSError: If it cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # one look: another process may remove the file meanwhile
        raise ValueError(f"{path} is not a regular file, and nothing else is read.")
    return path.open("rb")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ValueError: If the file holds no JSON object; the message names the file.
        OSError: If it cannot be opened.
    """
    with open_regular(path) as file:
        text = file.read()
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object.")
    return value


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return float(text)


def _synchronise(path: Path, mode: int) -> None:
    """Wait until the content is on the disk."""
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
