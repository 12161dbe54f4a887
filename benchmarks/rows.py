"""What a benchmark reports, how it times, and on what."""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from svrl.runtime.provenance import commit

PEERS = (
    "fancyimpute", "scikit-learn", "quantecon", "mdpsolver", "stable-baselines3", "sb3-contrib", "tianshou", "torchrl",
    "ray",
)  # fmt: skip


Parts = dict[str, Callable[[], "Iterable[Row]"]]
"""The parts of a benchmark by what they measure. Each runs on its own, and needs one peer at most."""


class MissingPeerError(ImportError):
    """A peer is not installed; the message is the pip command to run."""


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


class Missing(NamedTuple):
    """A part that cannot be measured here, and which package to install for it."""

    name: str
    install: str

    def as_json(self) -> dict[str, Any]:
        """The row as a file keeps it."""
        return {"name": self.name, "missing": self.install}


def measured(parts: Parts) -> Iterator[Row | Missing]:
    """The rows of all parts; a part whose peer is not installed ends with a row that says what to install."""
    for name, part in parts.items():
        try:
            yield from part()
        except ImportError as error:
            yield Missing(name, str(error))


def document(rows: Sequence[Row | Missing], command: str) -> dict[str, Any]:
    """Rows with all that is needed to make them again."""
    return {
        "machine": machine(),
        "versions": {name: found for name in ("torch", "numpy", "numba", *PEERS) if (found := version(name))},
        "commit": commit() or None,
        "command": command,
        "rows": [row.as_json() for row in rows],
    }


def machine() -> str:
    """The machine, in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{name}, {os.cpu_count()} cores{gpu}, Python {platform.python_version()}"


def version(package: str) -> str | None:
    """Of a package that is installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peer(module: str, extra: str = "bench") -> Any:
    """A peer's module.

    Raises:
        MissingPeerError: With the pip command, if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPeerError(f"{module} is missing. Run: pip install 'svrl[{extra}]'") from error


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


def device_name(device: torch.device) -> str:
    """The GPU's name, or CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def wait(device: torch.device) -> None:
    """Until everything that was launched there is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def random_transitions(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random frames (count + 1, 4, 84, 84) of bytes, actions out of 18, rewards (count,) and ends (count,)."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(256, size=(count + 1, 4, 84, 84), dtype=np.uint8)
    return frames, rng.integers(18, size=count), rng.normal(size=count).astype(np.float32), rng.random(count) < 0.01
