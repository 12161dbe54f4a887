"""How many cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that the system lets it run on, where it says so; all of the machine's elsewhere."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
