"""One update of sb3-contrib's QR-DQN, plain and structured; the rest as in `svrl.benchmarks.update_in_sb3`.

The network gives the library's 200 quantiles for each action.
"""

from __future__ import annotations

from collections.abc import Callable

from svrl.benchmarks.update_in_sb3 import in_turns
from svrl.integrations.sb3_contrib import StructuredQRDQN


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    return in_turns(StructuredQRDQN, seed)
