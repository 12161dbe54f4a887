"""What a process that works on runs arranges for itself: whose child it is, which cores it has, where its words go."""

from __future__ import annotations

import ctypes
import io
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PR_SET_PDEATHSIG = 1
_REMEMBERED = 1 << 16
"""Bytes of the last words that are kept in memory."""


def end_with(parent: int | None) -> None:
    """Be told to stop, by SIGTERM, when the parent process ends, however it ends.

    The system tells, on Linux only, when the process ends that has forked this one. Where that is a server of
    multiprocessing, it outlives whoever asked it for as long as this process lives; so a thread waits for that one too.

    Args:
        parent: The number of the process that has forked this one, as it was seen before; it may be gone already.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
    asker = multiprocessing.parent_process()
    if asker is not None:

        def wait() -> None:
            asker.join()
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, daemon=True, name="waits for the end of the parent").start()


def leave_the_terminal() -> None:
    """Ctrl-C reaches whoever started the sweep alone: a run that heard it twice would not save."""
    with suppress(OSError):
        os.setsid()


def stay_on(cores: Sequence[int]) -> None:
    """Run on these cores only, where the system can do that."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def see_only(card: str | None) -> None:
    """Let CUDA see one card, which it then calls the first; before it is asked for any."""
    if card is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = card


class Told:
    """Whether this process was told to stop, and whether that may interrupt what it does."""

    def __init__(self) -> None:
        self._came = False  # no event: its lock could be held when a handler runs in the same thread
        self._may_interrupt = self._has_interrupted = False

    def came(self) -> bool:
        """Whether it was told."""
        return self._came

    def note(self) -> None:
        """That it was told, without interrupting anything."""
        self._came = True

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """To be told raises KeyboardInterrupt in here, once, also if it came before; elsewhere it is only noted.

        So nothing comes between the end of a run and what is written about it. The exception may come from the last
        line too: catch it around this.
        """
        self._may_interrupt = True
        try:
            if self._came:
                self._interrupt()
            yield
        finally:
            self._may_interrupt = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT."""
        self._came = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self._may_interrupt and not self._has_interrupted:
            self._has_interrupted = True
            raise KeyboardInterrupt


@contextmanager
def told_once() -> Iterator[Told]:
    """SIGTERM does what Ctrl-C does, the first time that it comes.

    Commands save at the first Ctrl-C and end at once at the second. Yet SIGTERM may come from several sides for one
    reason: from the sweep, from the system because the sweep is gone, from whoever stops all processes of a service.
    So it is blocked, a thread waits for it, and only the first is passed on. In another thread than the main one
    nothing is changed.
    """
    told, over, may_end = Told(), threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    main = threading.main_thread().ident
    assert main is not None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    earlier = signal.signal(signal.SIGINT, told.hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # whoever forked this one may be deaf to it

    def wait() -> None:
        while signal.sigwait({signal.SIGTERM}) and not over.is_set():
            if not told.came():
                told.note()
                signal.pthread_kill(main, signal.SIGINT)
        may_end.wait()  # a signal to a thread that has ended goes nobody knows where

    waiter = threading.Thread(target=wait, daemon=True, name="waits for SIGTERM")
    waiter.start()
    try:
        yield told
    finally:
        over.set()
        assert waiter.ident is not None
        signal.pthread_kill(waiter.ident, signal.SIGTERM)
        may_end.set()
        waiter.join()
        while signal.SIGTERM in signal.sigpending():  # others say so too; unblocked, they would end the process
            signal.sigwait({signal.SIGTERM})
        signal.signal(signal.SIGINT, earlier)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Words(io.RawIOBase):
    """Goes to a file and stays in memory: on a full disk a run can still say what was wrong.

    Args:
        path: The file; it is appended to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._before = os.fstat(self.file).st_size
        self._remembered = b""
        self._lost = False

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Of the file."""
        return self.file

    def write(self, text: ReadableBuffer) -> int:
        """All of it; what the disk does not take is in memory."""
        said = bytes(text)
        self._remembered = (self._remembered + said)[-_REMEMBERED:]
        left = memoryview(said)
        try:
            while left and not self._lost:
                left = left[os.write(self.file, left) :]
        except OSError:
            self._lost = True
        return len(said)

    def lines(self) -> list[str]:
        """What was said since it was opened, also by libraries that write to the file themselves."""
        said = self._remembered
        if not self._lost:
            with suppress(OSError), self.path.open("rb") as file:
                file.seek(self._before)
                said = file.read()
        return said.decode("utf-8", "replace").splitlines()


@contextmanager
def words_to(path: Path) -> Iterator[Words]:
    """Append everything that is printed, by Python or by libraries below it, to a file."""
    streams = sys.stdout, sys.stderr
    for stream in streams:
        stream.flush()
    earlier = [os.dup(number) for number in (1, 2)]
    words = Words(path)
    try:
        for number in (1, 2):
            os.dup2(words.file, number)
        spoken = [io.TextIOWrapper(cast(Any, words), "utf-8", "backslashreplace", write_through=True) for _ in streams]
        sys.stdout, sys.stderr = spoken
        yield words
    finally:
        sys.stdout, sys.stderr = streams
        for number, copy in zip((1, 2), earlier, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(words.file)
