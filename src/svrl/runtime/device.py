"""Cores, GPUs, and their free memory.

Check free memory before you allocate much, so that too much is an error message and not a killed process. A container
may have far less RAM than its machine, so free RAM is the least of what the machine has available and of what the
control groups (version 2) around the process leave. Files that the system caches for a group, and gives up when memory
is short, count as free.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Number of cores that the system lets this process use, if it says so; else all cores of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_gpu(device: str | torch.device) -> bool:
    """Whether a device, such as "cuda:1", is a CUDA GPU."""
    return str(device).startswith("cuda")


def chosen_device(device: str | torch.device) -> str | torch.device:
    """The device that "auto" means: "cuda" if torch finds a GPU, else "cpu". Any other is returned unchanged."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def named_gpu(device: str | torch.device) -> str:
    """A CUDA GPU with its number and name, such as cuda:0 (NVIDIA H200)."""
    import torch

    found = torch.device(device)
    index = torch.cuda.current_device() if found.index is None else found.index
    return f"cuda:{index} ({torch.cuda.get_device_name(index)})"


def check_device(device: str | torch.device) -> None:
    """Raise ValueError if torch knows no such device, or does not find that CUDA device."""
    import torch

    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'There is no device {device!r}. Take "cpu", "cuda" or "cuda:N".') from None
    if wanted.type != "cuda":
        return
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (wanted.index or 0) >= found:
        built = "" if torch.version.cuda else " This build of torch is for the CPU."
        raise ValueError(
            f"{wanted} is not available: torch finds {found or 'no'} CUDA device{'' if found == 1 else 's'}.{built} "
            'Take device "cpu", or one that is there.'
        )


@contextmanager
def torch_threads(count: int | None = 1) -> Iterator[None]:
    """Set the CPU threads of torch for a block; None keeps the current number."""
    import torch

    if count is None:
        yield
        return
    earlier = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(earlier)


def free_bytes(device: torch.device) -> float:
    """Free memory of a device, in bytes; what torch has reserved there and does not use counts as free."""
    if device.type != "cuda":
        return free_ram()
    import torch

    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + unused)


def free_ram() -> float:
    """Free RAM, in bytes."""
    import psutil

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
