"""Work on ranges, shared out over threads. The kernels release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache


def share_out(work: Callable[[int, int], object], size: int, threads: int, *, least: int = 1) -> None:
    """Call work(low, high) on pieces of 0..size, on `threads` threads, the caller's among them.

    Pieces are equal and depend on the numbers alone, so results do not depend on timing. `least`
    is the smallest piece worth a thread.
    """
    pieces = max(1, min(threads, size // max(least, 1)))
    if pieces == 1:
        work(0, size)
        return
    bounds = [size * k // pieces for k in range(pieces + 1)]
    others = [_pool(os.getpid(), pieces - 1).submit(work, bounds[k], bounds[k + 1]) for k in range(1, pieces)]
    work(bounds[0], bounds[1])
    for other in others:
        other.result()


@lru_cache(maxsize=8)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """A pool that sleeps between calls; the process id makes a forked child build its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="svrl-backup")
