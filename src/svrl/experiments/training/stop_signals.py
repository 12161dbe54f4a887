"""Ctrl-C and SIGTERM as wishes: work goes on to a point where everything is on disk, and stops there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """A signal came, and what was done is on disk.

    Attributes:
        number: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}; what was done is on disk")
        self.number = number


class Signals:
    """Whether Ctrl-C or SIGTERM came.

    Attributes:
        came: The number of the signal, or None.
        at_once: Raise `Stopped` from where the program is; set while all that was done is on disk.
    """

    def __init__(self) -> None:
        self.came: int | None = None
        self.at_once = False

    @contextmanager
    def held_back(self) -> Iterator[Signals]:
        """Take note of the first signal instead of ending; a second one is not held back.

        Only the main thread hears signals; in another one nothing is held back.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        earlier = {number: signal.signal(number, self._hold) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def stop_if_came(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.came is not None:
            raise Stopped(self.came)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.came = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.at_once:
            raise Stopped(number)
