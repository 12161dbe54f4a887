"""What a benchmark reports, and how it times: competitors in turns, in one process."""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

Result = TypeVar("Result")
Parts = dict[str, Callable[[], "Iterable[Row]"]]
"""The parts of a benchmark by what they measure. Each runs on its own, and needs one peer at most."""


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
        """Peer / ours: above 1 means that ours is better; infinite where ours costs nothing that could be measured."""
        return self.peer / self.ours if self.ours > 0 else math.inf

    def as_json(self) -> dict[str, Any]:
        """The row as a file keeps it."""
        row = {"name": self.name, "unit": self.unit, "ours": self.ours, "peer": self.peer, "peer_name": self.peer_name}
        if math.isfinite(self.ratio):
            return {**row, "ratio": self.ratio, **self.note}
        why = "ours is not above 0: less than can be measured"
        return {**row, "ratio": None, "why_no_ratio": why, **self.note}


def version(package: str) -> str | None:
    """Of a package that is installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peer(module: str) -> Any:
    """A peer's module.

    Raises:
        ImportError: With the pip command, if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is missing. Run: pip install 'svrl[bench]'") from error


def timed(work: Callable[[], Result], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Result]:
    """Seconds of one call, and what it returned."""
    began = clock()
    result = work()
    return clock() - began, result


def in_turns(
    rounds: Sequence[Sequence[Callable[[], object]]],
    repeats: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> np.ndarray:
    """Seconds of each competitor in each round, (rounds, competitors): the best of a few repeats.

    A round holds a call of each competitor on the same input. They follow each other closely, so that whatever else the
    machine does falls on all of them. Every other round begins with the last one: who comes first finds other things in
    the caches.
    """
    found = np.empty((len(rounds), len(rounds[0])))
    for number, calls in enumerate(rounds):
        order = range(len(calls))
        for k in order if number % 2 == 0 else reversed(order):
            found[number, k] = min(timed(calls[k], clock)[0] for _ in range(repeats))
    return found


def median_seconds(rounds: Sequence[Sequence[Callable[[], object]]], repeats: int = 3) -> list[float]:
    """Of each competitor, the median over rounds of the best of a few repeats."""
    medians: list[float] = np.median(in_turns(rounds, repeats), axis=0).tolist()
    return medians


def device_name(device: torch.device) -> str:
    """The GPU's name, or CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def wait(device: torch.device) -> None:
    """Until everything that was launched there is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
