"""What structure costs in an update that another library makes, held against that library's own update.

One agent of the library updates in turns without and with its structure: Nature CNN, 84 x 84 x 4 bytes, 18
actions, batches of 32, on one thread of the CPU. What structure adds is

    100 * (structured / plain - 1)

of the lower quartiles of the processor's time of an update: what the process itself spent, because on a shared machine
waiting for others is larger than the share, and the lower quartile, because what others do to caches and clocks only
adds. Every other pair begins with the structured one. The interval is a bootstrap over pairs, 95%. Libraries that are
not installed are left out; `svrl.benchmarks.update_in_*` says what one update is.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from typing import NamedTuple

import numpy as np

from svrl.benchmarks.peers import MissingPeerError
from svrl.benchmarks.rows import Row, one_torch_thread
from svrl.integrations.versions import LIBRARIES

LIMIT = 5.0
"""Percent of an update that structure may add."""
WARM, PAIRS, QUICK_PAIRS = 3, 400, 5
RESAMPLES = 1_000
Updates = tuple[Callable[[], None], Callable[[], None]]
"""One update, plain and structured."""


class Peer(NamedTuple):
    """A library: how tables name it, what to install, and which file makes its updates."""

    title: str
    package: str
    module: str


PEERS = {
    "sb3": Peer("Stable-Baselines3's DQN", "stable-baselines3", "update_in_sb3"),
    "sb3-contrib": Peer("sb3-contrib's QR-DQN", "sb3-contrib", "update_in_sb3_contrib"),
    "cleanrl": Peer("a script in CleanRL's manner", "torch", "update_in_cleanrl"),
    "tianshou": Peer("Tianshou's DQN", "tianshou", "update_in_tianshou"),
    "torchrl": Peer("TorchRL's DQNLoss", "torchrl", "update_in_torchrl"),
    "rllib": Peer("RLlib's DQN learner", "ray", "update_in_rllib"),
}


def measure_integrations(quick: bool, only: Sequence[str] = ()) -> Iterator[Row]:
    """A row for each library that is installed.

    Args:
        quick: A few pairs of updates, to see that it runs.
        only: Names of `PEERS`; all if there are none.

    Raises:
        MissingPeerError: If one that was named is not installed, or none is.
        ValueError: If there is no such name.
    """
    unknown = [name for name in only if name not in PEERS]
    if unknown:
        raise ValueError(f"There is no integration {unknown[0]!r} to measure. Choose one of {', '.join(PEERS)}.")
    chosen = [name for name in only or PEERS if _version(PEERS[name].package) is not None]
    missing = [PEERS[name].package for name in only if name not in chosen]
    if missing or not chosen:
        package = (missing or ["stable-baselines3"])[0]
        raise MissingPeerError(f"The peer is missing: pip install 'svrl[{LIBRARIES[package].extra}]'")
    for name in chosen:
        with one_torch_thread():
            yield share_row(PEERS[name], QUICK_PAIRS if quick else PAIRS)


def share_row(peer: Peer, pairs: int) -> Row:
    """What structure adds to an update of one library."""
    with redirect_stdout(sys.stderr):  # libraries talk, and stdout is for the result
        return _measured(importlib.import_module(f"svrl.benchmarks.{peer.module}").updates(), peer, pairs)


def _measured(updates: Updates, peer: Peer, pairs: int) -> Row:
    for _ in range(WARM):
        for update in updates:
            update()
    spent = np.array([_pair(updates, structured_first=bool(number % 2)) for number in range(pairs)])
    draws = np.random.default_rng(0).integers(pairs, size=(RESAMPLES, pairs))
    low, high = np.percentile([_added(spent[draw]) for draw in draws], (2.5, 97.5))
    plain, structured = 1e6 * np.median(spent, axis=0)
    return Row(
        name=f"what structure adds to an update of {peer.title}, Nature CNN, 18 actions, batch 32, CPU",
        unit="%",
        ours=_added(spent),
        peer=LIMIT,
        peer_name="limit",
        note={
            "library": f"{peer.package} {_version(peer.package)}",
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


def _pair(updates: Updates, *, structured_first: bool) -> tuple[float, float]:
    """Seconds of a plain and of a structured update; who comes first finds other things in the caches."""
    if structured_first:
        second, first = _processor_seconds(updates[1]), _processor_seconds(updates[0])
        return first, second
    return _processor_seconds(updates[0]), _processor_seconds(updates[1])


def _processor_seconds(update: Callable[[], None]) -> float:
    began = time.process_time()
    update()
    return time.process_time() - began


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
