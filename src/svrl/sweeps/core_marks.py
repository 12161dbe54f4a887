"""Cores that sweeps of other commands on this machine have, told by locks on small files that end with their holder."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path


def marks_folder() -> Path:
    """Where all commands of a user look."""
    return Path(tempfile.gettempdir()) / f"svrl-cores-{os.getuid()}"


class CoreMarks:
    """Cores that this command has taken.

    Nothing depends on them but who waits for whom: where files cannot be written, every core counts as free.
    """

    def __init__(self) -> None:
        self._locks: dict[int, int] = {}

    def take(self, cores: Sequence[int], count: int) -> tuple[int, ...]:
        """So many of these cores: those that no other command has, as far as there are such."""
        mine: list[int] = []
        for core in cores:
            if len(mine) < count and self._mark(core):
                mine.append(core)
        others = [core for core in cores if core not in mine]
        return tuple(sorted([*mine, *others[: count - len(mine)]]))

    def give_back(self, cores: Iterable[int]) -> None:
        """They are no longer taken."""
        for core in cores:
            if core in self._locks:
                os.close(self._locks.pop(core))

    def _mark(self, core: int) -> bool:
        """Whether no other command has it."""
        file = None
        try:
            marks_folder().mkdir(mode=0o700, exist_ok=True)
            file = os.open(marks_folder() / str(core), os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if file is not None:
                os.close(file)
            return not isinstance(error, BlockingIOError)
        self._locks[core] = file
        return True
