"""numba's `njit`, for all kernels. Importing it from here lets svrl say when kernels are compiled.

Without a word, the first use on a machine would seem to hang. numba caches what it compiles, so later processes
begin at once and say nothing. The sentence is a warning of the logger `svrl`, which Python prints to stderr by default.
"""

from __future__ import annotations

import functools
import logging

from numba import njit
from numba.core.event import Event, Listener, register

__all__ = ["njit"]

SENTENCE = "svrl compiles its kernels for this machine. That takes up to half a minute, once."


class _Compiling(Listener):
    """Called by numba around each compilation, but not where the cache has the function."""

    def on_start(self, event: Event) -> None:
        if str(event.data["dispatcher"].py_func.__module__).startswith("svrl."):
            _say_once()

    def on_end(self, event: Event) -> None: ...


@functools.cache
def _say_once() -> None:
    logging.getLogger("svrl").warning(SENTENCE)


register("numba:compile", _Compiling())  # type: ignore[no-untyped-call] # numba is not typed
