"""Atomic writes: a file is either the old one or the whole new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and move it there when the block ends without an exception.

    The temporary file keeps the ending of `path`, because many writers look at it. Entering the
    block already creates it, so a folder that cannot be written to is found out before any work.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files private; this is an ordinary one
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
