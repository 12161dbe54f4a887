"""One update of sb3-contrib's QR-DQN, plain and structured; the rest as in `svrl.benchmarks.update_in_sb3`.

The network gives the library's 200 quantiles for each action.
"""

from __future__ import annotations

from collections.abc import Callable

from sb3_contrib import QRDQN

from svrl.benchmarks.update_in_sb3 import one_update
from svrl.integrations.sb3_contrib import StructuredQRDQN


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update, on the CPU."""
    return one_update(QRDQN, seed), one_update(StructuredQRDQN, seed)
