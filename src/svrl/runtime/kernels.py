"""Kernels on the CPU: numba's `njit`, and work shared over threads.

All kernels import `njit` from here, so that svrl says when it compiles them: otherwise the first use on a machine
would seem to hang. numba caches what it compiles, so later processes begin at once and say nothing. The sentence is a
warning of the logger `svrl`, which Python prints to stderr by default.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from numba import njit
from numba.core.event import Event, Listener, register

__all__ = ["njit", "share_out"]

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


def share_out(
    work: Callable[[int, int], object], size: int, threads: int, *, least: int = 1, pieces_each: int = 1
) -> None:
    """Call work(low, high) on pieces of 0..size, on `threads` threads including the caller's.

    Pieces are equal and depend on the numbers alone, so results do not depend on timing. The work must release the
    interpreter's lock, as compiled kernels do.

    Args:
        work: Called with both ends of a piece.
        size: Length of the whole range.
        threads: Most threads.
        least: The smallest piece worth a thread.
        pieces_each: Pieces for each thread, taken as they come: more than one where some take longer than others.
    """
    pieces = max(1, min(threads * pieces_each, size // max(least, 1)))
    if pieces == 1 or threads == 1:
        work(0, size)
        return
    bounds = [size * k // pieces for k in range(pieces + 1)]
    following = iter(range(pieces))  # next() on it is one step of the interpreter: no two threads get one piece

    def take() -> None:
        for k in following:
            work(bounds[k], bounds[k + 1])

    count = min(threads, pieces) - 1
    others = [_pool(os.getpid(), count).submit(take) for _ in range(count)]
    take()
    for other in others:
        other.result()


@functools.lru_cache(maxsize=8)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """A pool that sleeps between calls; the process id makes a forked child build its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="svrl-work")
