"""Processes that carry out one call at a time each, and end well however the work ends.

Ctrl-C reaches all processes of a terminal, a signal from elsewhere one of them. Here the main process alone listens,
and tells each of the others once, whatever came and however often. An executor of the standard library can wait for
ever if a signal comes to its processes while they wait for work.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from svrl.runtime.stop_signals import Signals

Tag = TypeVar("Tag")


class Workers(Generic[Tag]):
    """A context in which calls are carried out elsewhere.

    If it ends with an `Exception`, calls that were begun are carried out to their end first. If it ends with `Stopped`
    or the like, `KeyboardInterrupt` is raised in them, unless they catch SIGTERM, and they are waited for. A second
    Ctrl-C waits for nobody.

    Args:
        count: Processes at most. They are started when they are needed.
        signals: What may interrupt, and does so only when it is known who is at work.
    """

    def __init__(self, count: int, signals: Signals) -> None:
        self._count = count
        self._signals = signals
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Tag]] = {}

    def __enter__(self) -> Workers[Tag]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        everybody = [*self._idle, *(worker for worker, _ in self._busy.values())]
        try:
            if error is not None and not isinstance(error, Exception):
                for worker, _ in self._busy.values():
                    worker.tell()
            for connection in self._busy:
                _received(connection)
            for worker in everybody:
                worker.connection.close()
            for worker in everybody:
                worker.process.join()
        except BaseException:
            for worker in everybody:
                worker.process.kill()
            raise

    @property
    def busy(self) -> int:
        """Calls under way."""
        return len(self._busy)

    @property
    def free(self) -> bool:
        """Whether one more can be given."""
        return len(self._busy) < self._count

    def give(self, tag: Tag, function: Callable[..., Any], *args: Any) -> None:
        """Let a free process carry out a call; all of it must be picklable."""
        with self._signals.put_off():  # a process that nobody knows of would not be told
            if not self._idle:
                self._idle.append(_Worker())
            self._idle[-1].connection.send((function, args))
            worker = self._idle.pop()  # only now: nobody shall wait for the answer to a call that could not be sent
            self._busy[worker.connection] = worker, tag

    def next(self) -> tuple[Tag, Any]:
        """Wait for a call: its tag and result.

        Raises:
            BaseException: What the call raised, with its traceback as a note.
            ValueError: If its process was killed.
        """
        connection = wait(list(self._busy))[0]
        assert isinstance(connection, Connection)
        with self._signals.put_off():  # an answer that was heard is not waited for again
            answer = _received(connection)
            worker, tag = self._busy.pop(connection)
            self._idle.append(worker)
        if answer is None:
            worker.process.join()
            raise ValueError(
                f"The process that computed {tag} was ended by {_reason(worker.process.exitcode)}; there may be too "
                "little memory. Lower --jobs. What is done is kept, and the same command goes on."
            )
        is_result, value = answer
        if not is_result:
            raise value
        return tag, value


class _Worker:
    """A process and the way to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs,))
        with _born_deaf():
            self.process.start()
        theirs.close()  # its death shall be the end of the connection

    def tell(self) -> None:
        """To stop what it does."""
        self.process.terminate()


class _Told:
    """SIGTERM interrupts a call, also if it came just before, and nothing else."""

    def __init__(self) -> None:
        self._came = self._may_interrupt = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        self._interrupt()

    def carry_out(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
        try:
            self._may_interrupt = True
            self._interrupt()
            result = function(*args)
            self._may_interrupt = False
        except BaseException as error:
            self._may_interrupt = False
            return False, _portable(error)
        return True, result

    def _interrupt(self) -> None:
        if self._came and self._may_interrupt:
            self._came = False
            raise KeyboardInterrupt


def _serve(connection: Connection) -> None:
    """Carry out calls until the other end is closed; born deaf, and for ever deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = _Told()
    signal.signal(signal.SIGTERM, told.hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while True:
        try:
            function, args = connection.recv()
            connection.send(told.carry_out(function, args))
        except (EOFError, BrokenPipeError):
            return


def _portable(error: BaseException) -> BaseException:
    """The error with its traceback as a note; another one with the same words if it cannot be sent."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.add_note(error.__notes__[-1])
        return told
    return error


def _received(connection: Connection) -> tuple[bool, Any] | None:
    """Whether it is a result, and the result or error; None if the process is gone."""
    try:
        answer: tuple[bool, Any] = connection.recv()
    except (EOFError, ConnectionResetError):
        return None
    return answer


def _reason(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@contextmanager
def _born_deaf() -> Iterator[None]:
    """A process that is started now does not hear signals, of which it would die with a traceback."""
    resource_tracker.ensure_running()  # first, because whoever starts it hears again
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
