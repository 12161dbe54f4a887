"""What a CUDA card may refuse: memory that it does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""How a full card shows where torch has not asked for the memory itself."""
_SIZE = r"([\d.]+ [KMGT]?i?B|[\d.]+ bytes)"


def is_gpu(device: str | torch.device) -> bool:
    """Whether a device, as in "cuda:1", is a CUDA card."""
    return str(device).startswith("cuda")


@contextmanager
def at_work_on(device: str | torch.device, folder: Path) -> Iterator[None]:
    """Make a card the current one, and turn its being full into one sentence.

    Args:
        device: Of the run; another than a card is left alone.
        folder: Of the run. Its checkpoint, if there is one, is named.

    Raises:
        ValueError: If the card has no memory left.
    """
    if not is_gpu(device):
        yield
        return
    import torch

    try:
        with torch.cuda.device(device):  # the current card is a thread's own, and a new thread begins with the first
            yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not any(sign in str(error) for sign in _FULL):
            raise
        raise ValueError(full_gpu(str(device), str(error), folder)) from error


def full_gpu(device: str, error: str, folder: Path) -> str:
    """The sentence of a full card.

    Args:
        device: As in "cuda:1".
        error: What torch said; sizes are taken from it where it gives them.
        folder: Of the run.
    """
    asked, free = (re.search(pattern, error) for pattern in (f"Tried to allocate {_SIZE}", f"{_SIZE} is free"))
    sizes = [found[1] + what for found, what in ((asked, " was asked for"), (free, " is free")) if found]
    said = f"The memory of {device} is full{': ' if sizes else ''}{' and '.join(sizes)}. "
    said += "Lower --replay, --envs or --batch-size, or train fewer at a time with --together."
    return said + (f" The last checkpoint is in {folder}." if any((folder / "checkpoints").glob("*.npz")) else "")


def release(device: str | torch.device) -> None:
    """Give back what a run that is over held on a card, so that the next one finds it free."""
    if not is_gpu(device):
        return
    import gc

    import torch

    from svrl.agents.captured import undisturbed

    with undisturbed():
        gc.collect()
        torch.cuda.empty_cache()
