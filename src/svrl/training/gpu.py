"""GPU memory: one sentence when it is full, and its release after a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from svrl.runtime.device import is_gpu

if TYPE_CHECKING:
    import torch

_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""How a full GPU shows where torch has not asked for the memory itself."""
_SIZE = r"([\d.]+ [KMGT]?i?B|[\d.]+ bytes)"


@contextmanager
def at_work_on(device: str | torch.device, folder: Path) -> Iterator[None]:
    """Make a GPU the current one, and turn an out-of-memory error into one sentence; on the CPU nothing.

    Args:
        device: Of the run.
        folder: Of the run. The sentence names it if it holds a checkpoint.

    Raises:
        ValueError: If the GPU has no memory left.
    """
    if not is_gpu(device):
        yield
        return
    import torch

    try:
        with torch.cuda.device(device):  # each thread has a current GPU of its own, at first GPU 0
            yield
    except RuntimeError as error:
        said = str(error)
        if not isinstance(error, torch.OutOfMemoryError) and not any(sign in said for sign in _FULL):
            raise
        asked, free = (re.search(pattern, said) for pattern in (f"Tried to allocate {_SIZE}", f"{_SIZE} is free"))
        sizes = [found[1] + what for found, what in ((asked, " was asked for"), (free, " is free")) if found]
        told = f"The memory of {device} is full{': ' if sizes else ''}{' and '.join(sizes)}. "
        told += "Lower --buffer-size, --n-envs or --batch-size, or train fewer at a time with --together."
        kept = any((folder / "checkpoints").glob("*.npz"))
        raise ValueError(f"{told} The last checkpoint is in {folder}." if kept else told) from error


def release(device: str | torch.device) -> None:
    """Free the GPU memory of a run that is over, so that the next one can use it."""
    if not is_gpu(device):
        return
    import gc

    import torch

    from svrl.agents.cuda_graph import no_capture

    with no_capture():
        gc.collect()
        torch.cuda.empty_cache()
