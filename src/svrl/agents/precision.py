"""What a card multiplies matrices in.

- float32: as the CPU does.
- tf32: factors are rounded to 10 bits of mantissa, sums are float32. The default on a card: an update of the Nature
  network at a batch of 32 takes four fifths of the time on an H200, at 128 three fifths.
- bf16: layers compute in bfloat16 where torch's autocast allows it; weights, losses and targets stay float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import torch
from torch import Tensor

from svrl.agents.config import Precision
from svrl.agents.networks import QNetwork


def check_precision(precision: str, device: str | torch.device) -> None:
    """Raise ValueError, with a sentence, if there is no such precision, or not on this device."""
    if precision not in get_args(Precision):
        raise ValueError(f"precision is one of {', '.join(get_args(Precision))}, got {precision!r}.")
    if precision != "float32" and torch.device(device).type != "cuda":
        raise ValueError(f"precision {precision} needs a CUDA device, and the device is {device}. Take float32.")


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply so for a while. The switches are torch's own and hold for the whole process."""
    if device.type != "cuda":
        yield
        return
    earlier = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = earlier


def values_of(network: QNetwork, x: Tensor, precision: Precision) -> Tensor:
    """Values (N, A), float32, of scaled observations."""
    if precision != "bf16":
        return network.of_scaled(x)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):  # a cache would outlive the graph it lies in
        return network.of_scaled(x).float()
