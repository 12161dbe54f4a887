"""Ctrl-C, SIGTERM and SIGHUP as requests: work continues until everything is on disk, and stops there.

Python runs signal handlers in the main thread only. Work in other threads polls a view of them, `of_one_run`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ONE_REQUEST = 0.1
"""Seconds within which signals are one request: timeout(1) sends two, as do programs that pass a signal on."""


class Stopped(BaseException):
    """A signal came, and what was done is on disk.

    Attributes:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}; what was done is on disk")
        self.number = number


class Signals:
    """Whether Ctrl-C, SIGTERM or SIGHUP came.

    Args:
        heard_by: Those that this is a view of; see `of_one_run`.

    Attributes:
        at_once: Raise `Stopped` from where the program is; set while all that was done is on disk.
    """

    def __init__(self, heard_by: Signals | None = None) -> None:
        self._heard_by = heard_by
        self._came: int | None = None
        self._heard: float | None = None
        self.at_once = False

    @property
    def came(self) -> int | None:
        """The number of the signal, or None."""
        if self._came is None and self._heard_by is not None:
            return self._heard_by.came
        return self._came

    @came.setter
    def came(self, number: int | None) -> None:
        self._came = number

    def of_one_run(self) -> Signals:
        """A view for one of several threads: the same signals, and an `at_once` of its own.

        The handler cannot raise in that thread, so it has to look at `came` now and then.
        """
        return Signals(heard_by=self)

    @contextmanager
    def held_back(self) -> Iterator[Signals]:
        """Record the first signal instead of ending the process; a second request is not held back.

        In another thread than the main one nothing is held back.
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
        elif now - self._heard >= ONE_REQUEST and number != signal.SIGHUP:  # a shell and the system both send that one
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
