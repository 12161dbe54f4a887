"""Files that are whole or absent, and reading none but regular ones.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move it there when the block ends without an exception.

    The temporary file keeps the ending of `path`, because many writers look at it. Entering the block creates it, so
    a folder that cannot be written to raises before any work. An OSError of the block that names no file, as that of
    a full disk, names `path`.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        _name(error, path)
        raise
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
    except OSError as error:
        if error.filename in (None, name):
            _name(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


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
        ValueError: If it holds none; the sentence names the file.
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


def _name(error: OSError, path: Path) -> None:
    """Let the error name the wanted file instead of the temporary one."""
    if error.errno is None:  # NumPy reports a full disk so
        error.strerror = str(error)
    error.filename = str(path)


def _synchronise(path: Path, mode: int) -> None:
    """Wait until the content is on the disk."""
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
