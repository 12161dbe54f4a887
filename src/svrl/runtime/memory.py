"""Free memory, so that what does not fit is refused before it is made.

A container may have far less RAM than its machine. So what counts is the least of what the machine has available and
of what the control groups (version 2) around the process leave. Files that the system caches for a group, and gives up
when memory is short, count as free.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import torch

GROUPS = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> float:
    """Free memory of a device, in bytes; what torch has reserved there and does not use counts as free."""
    if device.type != "cuda":
        return free_ram()
    import torch

    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + unused)


def free_ram() -> float:
    """Free RAM in bytes."""
    return min(float(psutil.virtual_memory().available), free_in_groups(Path("/proc/self/cgroup"), GROUPS))


def free_in_groups(own: Path, root: Path) -> float:
    """The least that the control group of a process and those around it leave, in bytes; infinity without a limit.

    Args:
        own: The file that names the group, in a line such as "0::/user/job".
        root: Where control groups are mounted.
    """
    places = [line[3:].strip("/") for line in _lines(own) if line.startswith("0::")]
    groups = [group for place in places for group in (root / place, *(root / place).parents)]
    return min((_left(group) for group in groups if group.is_relative_to(root)), default=math.inf)


def _left(group: Path) -> float:
    try:
        limit, used = (float(_lines(group / name)[0]) for name in ("memory.max", "memory.current"))
    except (IndexError, ValueError):  # no such file, or the word "max"
        return math.inf
    cached = (float(line.split()[1]) for line in _lines(group / "memory.stat") if line.startswith("inactive_file "))
    return max(0.0, limit - used + sum(cached))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
