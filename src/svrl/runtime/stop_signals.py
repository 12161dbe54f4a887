"""Ctrl-C, SIGTERM and SIGHUP as requests: work continues until everything is on disk, and stops there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ONE_REQUEST = 0.1
"""Seconds within which signals count as one request: timeout(1) sends two, as do programs that pass a signal on."""


class Stopped(BaseException):
    """A signal came, and what was done is on disk.

    Attributes:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}; what was done is on disk")
        self.number = number


class Signals:
    """Whether Ctrl-C, SIGTERM or SIGHUP came. Several threads may share one.

    Attributes:
        came: The number of the signal, or None.
    """

    def __init__(self) -> None:
        self.came: int | None = None
        self._heard: float | None = None
        self._of_thread = threading.local()

    @property
    def at_once(self) -> bool:
        """Raise `Stopped` in the middle of this thread's work; set it while all finished work is on disk.

        The handler runs in the main thread and raises only there. Work in another thread must check `came`, or call
        `stop_if_safe`, now and then.
        """
        return getattr(self._of_thread, "at_once", False)

    @at_once.setter
    def at_once(self, value: bool) -> None:
        self._of_thread.at_once = value

    @contextmanager
    def held_back(self) -> Iterator[Signals]:
        """Record the first signal instead of ending the process; a second request is not held back.

        In any thread but the main one, nothing is held back.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
            numbers.append(signal.SIGHUP)
        earlier = {number: signal.signal(number, self._hold) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def stop_if_came(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.came is not None:
            raise Stopped(self.came)

    def stop_if_safe(self) -> None:
        """Raise `Stopped` if a signal has come and all that was done is on disk."""
        if self.at_once:
            self.stop_if_came()

    def _hold(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._heard is None:
            self._heard, self.came = now, number
            if self.at_once:
                raise Stopped(number)
        elif now - self._heard >= ONE_REQUEST and number != signal.SIGHUP:  # the shell and the system both send it
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
