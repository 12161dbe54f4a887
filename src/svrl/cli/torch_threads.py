"""Torch's CPU threads, for the length of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Set torch's threads for a while; None leaves them."""
    import torch

    earlier = torch.get_num_threads()
    try:
        torch.set_num_threads(count or earlier)
        yield
    finally:
        torch.set_num_threads(earlier)
