"""numba's `njit`, for all kernels; with it, svrl says so when they are compiled.

The first use on a machine waits for that, and would seem to hang.

numba keeps what it has compiled in its cache, so later processes begin at once. The sentence is a warning of the
logger `svrl`, which Python prints to stderr unless one sets up logging.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from numba import njit
from numba.core.event import Event, Listener, register

__all__ = ["njit"]

AFTER = 1.5
"""Seconds of compiling before anything is said; short waits need no explanation."""
SENTENCE = "svrl compiles its kernels for this machine. That takes up to half a minute, once."

_logger = logging.getLogger("svrl")


class _Teller(Listener):
    """Is told by numba what begins and what ends; functions that others call are compiled inside those."""

    def __init__(self) -> None:
        self._depth = 0
        self._said = threading.Event()
        self._timer: threading.Timer | None = None

    def on_start(self, event: Event) -> None:
        if not _is_ours(event):
            return
        self._depth += 1
        if self._depth == 1 and not self._said.is_set():
            self._timer = threading.Timer(AFTER, self._say)
            self._timer.daemon = True
            with suppress(RuntimeError):  # no thread is to be had, and nothing is said
                self._timer.start()

    def on_end(self, event: Event) -> None:
        if not _is_ours(event) or self._depth == 0:  # numba also tells the end of what it could not tell the start of
            return
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self) -> None:
        if not self._said.is_set():
            self._said.set()
            _logger.warning(SENTENCE)


def _is_ours(event: Event) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("svrl.")


register("numba:compile", _Teller())  # type: ignore[no-untyped-call] # numba is not typed
