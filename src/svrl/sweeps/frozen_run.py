"""The files of a run at one moment, while the run goes on: a set that `--resume` goes on from exactly.

What the run promises (`svrl.agents.checkpoint`, `svrl.training.session`, `svrl.runs.run_directory`):

1. Files that end in .npz, .pt, .json or .png appear whole, and are replaced whole. All others only grow.
2. A checkpoint appears after the segments that it needs, and after all rows up to its step.
3. Segments and older checkpoints are removed only when a newer checkpoint has appeared, or at the end.
4. At the end result.json appears after everything else, and before the checkpoints are removed.
5. A run that goes on drops the rows after its checkpoint.

So: look which checkpoints there are and whether there is a result.json; take hold of every file; look again. If both
looks are the same, then by 3 and 4 nothing was removed that the checkpoints of the first look need, and by 2 the rows
that were taken reach at least as far as each of them; rows beyond are harmless by 5. A set with a result.json has
everything, by 4. A result.json that was not there at the first look is not taken. If the looks differ, begin again.

Taking hold is a hard link, which outlives replacing and removing, and the size at that moment: of a file that grows,
the bytes up to it never change.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from svrl.runs.run_directory import RESULT
from svrl.runs.training_run import STATE
from svrl.sweeps.store import ATTEMPTS, RUN, SPEC

_TRIES, _PAUSE = 40, 0.05
_LARGE = (".npz", ".pt")
"""Files that are never read into memory here; they appear whole."""


@dataclass(frozen=True, kw_only=True)
class FrozenFile:
    """A file as it was at the moment.

    Attributes:
        path: Where it is held.
        size: Bytes of it that count.
        stamp: Equal stamps of one name mean equal content.
    """

    path: Path
    size: int
    stamp: tuple[int, int, int]

    @property
    def is_large(self) -> bool:
        """Whether it is to be copied as a file; it does not grow."""
        return self.path.suffix in _LARGE

    def content(self) -> bytes:
        """All that counts; of rows, the whole ones."""
        with self.path.open("rb") as file:
            found = file.read(self.size)
        return found[: found.rfind(b"\n") + 1] if self.path.suffix == ".jsonl" else found


def freeze(folder: Path, into: Path) -> dict[str, FrozenFile]:
    """Take hold of all files of a run, by their names below its folder.

    Args:
        folder: With run/ and log.txt. What the store keeps itself, spec.json and attempts.jsonl, is left out, as are
            temporary files, whose names begin with a dot.
        into: A folder to hold them in, on the same disk; what was in it goes.

    Raises:
        OSError: If there was no quiet moment, or the disk is full.
    """
    for _ in range(_TRIES):
        shutil.rmtree(into, ignore_errors=True)
        before = _look(folder)
        try:
            found = {name: _hold(folder / name, into / name) for name in _names(folder, with_result=before[0])}
        except FileNotFoundError:
            found = None  # removed in between
        if found is not None and _look(folder) == before:
            return found
        time.sleep(_PAUSE)
    raise OSError(errno.EBUSY, "the run writes its files faster than they can be looked at; save it later", str(folder))


def stamp_of(path: Path) -> tuple[int, int, int]:
    """Which file it is, its size in bytes and its time in nanoseconds."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _look(folder: Path) -> tuple[bool, tuple[str, ...]]:
    checkpoints = folder / RUN / STATE[0]
    return (folder / RUN / RESULT).exists(), tuple(sorted(path.name for path in checkpoints.glob("[!.]*")))


def _names(folder: Path, *, with_result: bool) -> Iterator[str]:
    aside = {SPEC, ATTEMPTS} | (set() if with_result else {f"{RUN}/{RESULT}"})
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(files):
            path = Path(place, file)
            name = path.relative_to(folder).as_posix()
            if not file.startswith(".") and name not in aside and not path.is_symlink():
                yield name


def _hold(path: Path, held: Path) -> FrozenFile:
    held.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, held)
        stamp = stamp_of(held)
    except FileNotFoundError:
        raise
    except OSError:  # a disk without hard links
        stamp = stamp_of(path)
        shutil.copyfile(path, held)
        if stamp_of(path)[0] != stamp[0]:
            raise FileNotFoundError(path) from None  # it is another file now
    return FrozenFile(path=held, size=stamp[1], stamp=stamp)
