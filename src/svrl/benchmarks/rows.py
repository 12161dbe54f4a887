"""What a benchmark reports, and how it times."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement beside a peer's.

    Attributes:
        name: What was measured.
        unit: Of ours and peer.
        ours, peer: The two numbers; smaller is better.
        peer_name: Who, or which limit, ours is held against.
        note: Anything a reader needs to believe it (how exact each was, say).
    """

    name: str
    unit: str
    ours: float
    peer: float
    peer_name: str
    note: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Above 1 means that ours is better; infinite where ours costs nothing that could be measured."""
        return self.peer / self.ours if self.ours > 0 else math.inf

    def as_json(self, command: str) -> dict[str, Any]:
        """The row as the command line prints it with --json."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "ratio": self.ratio if math.isfinite(self.ratio) else None,
            **({} if math.isfinite(self.ratio) else {"why_no_ratio": "ours is not above 0: less than can be measured"}),
            "command": command,
            **self.note,
        }


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_seconds(calls: Sequence[tuple[Callable[[], object], ...]], repeats: int = 3) -> list[float]:
    """Median over inputs of the best of a few repeats, for each of several competitors.

    Every entry of `calls` holds one call of each competitor on the same input. Their repeats follow each
    other closely, so that whatever else the machine does falls on all of them.
    """
    best = [[min(seconds(call) for _ in range(repeats)) for call in turn] for turn in calls]
    return [statistics.median(times) for times in zip(*best, strict=True)]


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch on one thread for a while."""
    import torch

    earlier = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(earlier)


def machine() -> str:
    """The machine, in words."""
    import os

    import torch

    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{name}, {os.cpu_count()} cores{gpu}, Python {platform.python_version()}, torch {torch.__version__}"
