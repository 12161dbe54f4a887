"""What computations run on: the cores of this machine, and its GPUs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def usable_cores() -> int:
    """Cores that the system lets this process use, where it says so; else all of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_gpu(device: str | torch.device) -> bool:
    """Whether a device, as in "cuda:1", is a CUDA GPU."""
    return str(device).startswith("cuda")


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
