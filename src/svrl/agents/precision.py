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


class _Switches:
    """torch's switches hold for the whole process; several trainings may be at work under them at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._precision: Precision = "float32"
        self._earlier: tuple[Any, Any] = (False, False)

    def take(self, precision: Precision) -> None:
        with self._lock:
            if self._users and self._precision != precision:
                raise ValueError(
                    f"Trainings in one process multiply alike: one is at work in {self._precision}, "
                    f"and {precision} was asked for. Give all of them the same precision."
                )
            if not self._users:
                self._earlier = self._get()
                rounded = precision != "float32"
                both = rounded if isinstance(self._earlier[0], bool) else ("tf32" if rounded else "ieee")
                self._set(both, both)
            self._users, self._precision = self._users + 1, precision

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._set(*self._earlier)

    @staticmethod
    def _get() -> tuple[Any, Any]:
        """Of products and convolutions; words where a program has used torch's newer switches, which lock the old."""
        try:
            return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        except RuntimeError:
            return torch.backends.cuda.matmul.fp32_precision, _convolutions().fp32_precision

    @staticmethod
    def _set(products: Any, convolutions: Any) -> None:
        if isinstance(products, bool):
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, convolutions
        else:
            torch.backends.cuda.matmul.fp32_precision = products
            _convolutions().fp32_precision = convolutions


def _convolutions() -> Any:
    return torch.backends.cudnn.conv  # type: ignore[attr-defined, unused-ignore]


_SWITCHES = _Switches()


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply so for a while, on a GPU.

    Raises:
        ValueError: If another thread is at work in another precision.
    """
    if device.type != "cuda":
        yield
        return
    _SWITCHES.take(precision)
    try:
        yield
    finally:
        _SWITCHES.give_back()


def values_of(network: QNetwork, x: Tensor, precision: Precision) -> Tensor:
    """Values (N, A), float32, of scaled observations."""
    if precision != "bf16":
        return network.of_scaled(x)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):  # a cache would outlive the graph it lies in
        return network.of_scaled(x).float()
