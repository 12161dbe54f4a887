"""What structure adds to an update that another library makes, held against that library's own update.

One agent of each library that is installed updates in turns without and with its structure, on one thread of the CPU
(`libraries.py` says what one update is). What structure adds is

    100 * (structured / plain - 1)

of the lower quartiles of the processor's time of an update: what the process itself spent, because on a shared machine
waiting for others is larger than the share, and the lower quartile, because what others do to caches and clocks only
adds. Every other pair begins with the structured one. The interval is a bootstrap over pairs, 95%.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial

import numpy as np
import torch

from benchmarks.libraries import LIBRARIES, Library
from benchmarks.rows import Parts, Row, torch_threads, version

LIMIT = 5.0
"""Percent of an update that structure may add."""
WARM, PAIRS, QUICK_PAIRS = 3, 400, 5
RESAMPLES = 1_000


def parts(quick: bool, device: torch.device) -> Parts:
    """A part for each library; the device is the CPU."""
    if device.type != "cpu":
        raise ValueError(f"What structure adds is measured by the processor's time; got --device {device}. Use cpu.")
    pairs = QUICK_PAIRS if quick else PAIRS
    return {
        f"what structure adds to an update of {library.title}": partial(measure_share, library, pairs)
        for library in LIBRARIES.values()
    }


def measure_share(library: Library, pairs: int) -> Iterator[Row]:
    """What structure adds to an update of one library."""
    with torch_threads(1), redirect_stdout(sys.stderr):
        updates = library.updates()
        for _ in range(WARM):
            for update in updates:
                update()
        spent = np.array([_pair(updates, structured_first=bool(number % 2)) for number in range(pairs)])
    draws = np.random.default_rng(0).integers(pairs, size=(RESAMPLES, pairs))
    low, high = np.percentile([_added(spent[draw]) for draw in draws], (2.5, 97.5))
    plain, structured = 1e6 * np.median(spent, axis=0)
    yield Row(
        name=f"what structure adds to an update of {library.title}, Nature CNN, 18 actions, batch 32, CPU",
        unit="%",
        ours=_added(spent),
        peer=LIMIT,
        peer_name="limit",
        note={
            "library": f"{library.package} {version(library.package)}",
            "interval": [float(low), float(high)],
            "plain_us": float(plain),
            "structured_us": float(structured),
            "pairs": pairs,
        },
    )


def _added(spent: np.ndarray) -> float:
    """Percent that structure adds, from the seconds of pairs (n, 2)."""
    plain, structured = np.percentile(spent, 25, axis=0)
    return float(100 * (structured / plain - 1))


def _pair(updates: tuple[Callable[[], None], ...], *, structured_first: bool) -> list[float]:
    """Seconds of a plain and of a structured update; who comes first finds other things in the caches."""
    spent = [0.0, 0.0]
    for k in (1, 0) if structured_first else (0, 1):
        began = time.process_time()
        updates[k]()
        spent[k] = time.process_time() - began
    return spent
