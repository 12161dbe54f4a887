"""Threads of this process: work on ranges shared out over them, and how many torch uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache


def share_out(
    work: Callable[[int, int], object], size: int, threads: int, *, least: int = 1, pieces_each: int = 1
) -> None:
    """Call work(low, high) on pieces of 0..size, on `threads` threads, the caller's among them.

    Pieces are equal and depend on the numbers alone, so results do not depend on timing. The work must release the
    interpreter's lock, as compiled kernels do.

    Args:
        work: What is done.
        size: Of the whole range.
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


@lru_cache(maxsize=8)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """A pool that sleeps between calls; the process id makes a forked child build its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="svrl-work")


@contextmanager
def torch_threads(count: int | None = 1) -> Iterator[None]:
    """CPU threads of torch for a block; None leaves them."""
    import torch

    earlier = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        if count is not None:
            torch.set_num_threads(earlier)
