"""Atomic writes: a file is either the old one or the whole new one, never half of it.

That holds for a killed process and for a machine that loses its power: the new file is on the disk before it takes
the old one's place, and that it did is on the disk before the writer goes on, to remove what the file replaces, say.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move it there when the block ends without an exception.

    The temporary file keeps the ending of `path`, because many writers look at it. Entering the
    block already creates it, so a folder that cannot be written to is found out before any work.
    An OSError of the block that names no file, as that of a full disk, names `path`.
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


def _name(error: OSError, path: Path) -> None:
    """Say which file it was about; nobody has asked for the temporary one."""
    if error.errno is None:  # as NumPy says that a disk is full
        error.strerror = str(error)
    error.filename = str(path)


def _synchronise(path: Path, mode: int) -> None:
    """Wait until what was written is on the disk."""
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
