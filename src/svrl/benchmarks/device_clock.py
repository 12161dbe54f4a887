"""How work on a device is timed: on a stream of its own, between two events; on the CPU by the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from svrl.agents.captured import stream_of
from svrl.agents.config import Precision
from svrl.agents.precision import computing_in
from svrl.benchmarks.rows import seconds


def found_device(name: str, what: str) -> torch.device:
    """The device, if there is one.

    Args:
        name: As "cuda", "cuda:1" or "cpu".
        what: Is to be measured, for the sentence.

    Raises:
        ValueError: If there is no such device.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{what} on {name} needs a CUDA device, and torch finds none. Measure with device cpu.")
    return device


def device_name(device: torch.device) -> str:
    """The card's name, or CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def wait(device: torch.device) -> None:
    """Until everything that was launched there is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def own_stream(device: torch.device, precision: Precision) -> Iterator[None]:
    """Launch on a new stream and multiply in a precision; nothing is under way before and after."""
    stream = stream_of(device)
    if stream is None:
        yield
        return
    wait(device)
    with torch.cuda.device(device), torch.cuda.stream(stream), computing_in(precision, device):
        yield
        stream.synchronize()


def elapsed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, on a card those between two events on the current stream."""
    if device.type != "cuda":
        return seconds(work)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
