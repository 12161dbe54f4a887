"""What a GPU multiplies matrices in.

- float32: as the CPU does.
- tf32: factors are rounded to 10 bits of mantissa, sums are float32. The default on a GPU: an update of the Nature
  network at a batch of 32 takes four fifths of the time on an H200, at 128 three fifths.
- bf16: layers compute in bfloat16 where torch's autocast allows it; weights, losses and targets stay float32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

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


_LOCK = threading.Lock()
_AT_WORK: list[Precision] = []
"""The precision of each block of `computing_in` that has begun, in any thread."""
_EARLIER: list[Any] = []


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply in this precision inside the block, on a GPU.

    torch's switches hold for the whole process, and several trainings may be at work at the same time: the first sets
    the switches, and the last sets them back.

    Raises:
        ValueError: If another thread is at work in another precision.
    """
    if device.type != "cuda":
        yield
        return
    with _LOCK:
        if _AT_WORK and _AT_WORK[0] != precision:
            raise ValueError(
                f"Trainings in one process multiply alike: one is at work in {_AT_WORK[0]}, "
                f"and {precision} was asked for. Give all of them the same precision."
            )
        if not _AT_WORK:
            _EARLIER[:] = _switches()
            rounded = precision != "float32"
            _set_switches(*[rounded if isinstance(_EARLIER[0], bool) else ("tf32" if rounded else "ieee")] * 2)
        _AT_WORK.append(precision)
    try:
        yield
    finally:
        with _LOCK:
            _AT_WORK.pop()
            if not _AT_WORK:
                _set_switches(*_EARLIER)


def _switches() -> tuple[Any, Any]:
    """Those of products and convolutions: words if a program has used torch's newer switches, which lock the old."""
    try:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return torch.backends.cuda.matmul.fp32_precision, _convolutions().fp32_precision


def _set_switches(products: Any, convolutions: Any) -> None:
    if isinstance(products, bool):
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, convolutions
    else:
        torch.backends.cuda.matmul.fp32_precision = products
        _convolutions().fp32_precision = convolutions


def _convolutions() -> Any:
    return torch.backends.cudnn.conv  # type: ignore[attr-defined, unused-ignore]


def values_of(network: QNetwork, x: Tensor, precision: Precision) -> Tensor:
    """Values (N, A), float32, of scaled observations."""
    if precision != "bf16":
        return network.of_scaled(x)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):  # a cache would outlive the graph it lies in
        return network.of_scaled(x).float()
