"""CUDA graphs: record launches once and then replay them, which saves the host the work of each launch.

A replay reads and writes the same memory as the recording. So the work of a graph takes its inputs from tensors at
fixed addresses, and the next replay overwrites its results. Nothing in it may wait for the device. Random numbers are
drawn outside, so that they equal those of the plain path.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

from svrl.agents.config import Precision
from svrl.runtime.device import is_gpu

Result = TypeVar("Result")

_RECORDING = threading.RLock()
"""Held while recording a graph: another thread that records or frees a graph at the same time would break it."""


def release(device: str | torch.device) -> None:
    """Free the GPU memory of finished work, so that the next run can use it; no thread records a graph meanwhile."""
    if is_gpu(device):
        with _RECORDING:
            gc.collect()
            torch.cuda.empty_cache()


@contextmanager
def _recording() -> Iterator[None]:
    """Record in one thread at a time, without garbage collection, because the garbage may contain graphs."""
    with _RECORDING:
        gc.collect()
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()


def stream_of(device: torch.device, *, first: bool = False) -> torch.cuda.Stream | None:
    """A new stream of a GPU, with a high priority if `first`; None without a GPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device, priority=-1 if first else 0)  # type: ignore[no-untyped-call]


def can_record(device: torch.device) -> bool:
    """Whether the device's current stream can record a graph."""
    return device.type == "cuda" and torch.cuda.current_stream(device) != torch.cuda.default_stream(device)


class GpuEvent:
    """A point in a stream to wait for; does nothing without a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event: Any = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def record(self) -> None:
        """Set the point, on the device's current stream."""
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def synchronize(self) -> None:
        """Wait on the host."""
        if self._event is not None:
            self._event.synchronize()

    def wait(self) -> None:
        """Make the device's current stream wait, not the host."""
        if self._event is not None:
            self._event.wait(torch.cuda.current_stream(self._device))


def pinned(here: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """Return `here` in pinned memory if `there` is on a GPU, so that copies between them need not wait."""
    return here.pin_memory() if there.is_cuda else here


class CudaGraph(Generic[Result]):
    """A function without arguments that becomes a graph.

    Always call it on the same stream. The first call runs the function, so that libraries do their one-time work; with
    `repeatable` the same call also records and replays it, otherwise the next call does. On the default stream, which
    cannot record, and without a GPU every call runs the function.
    """

    def __init__(self, work: Callable[[], Result], device: torch.device, *, repeatable: bool, pool: Any = None) -> None:
        """Record nothing yet.

        Args:
            work: The function.
            device: Its device.
            repeatable: Whether the function may run twice.
            pool: Memory shared with other graphs, which are never replayed at the same time as this one.
        """
        self._work = work
        self._device = device
        self._repeatable = repeatable
        self._pool = pool
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Result

    def __call__(self) -> Result:
        """Run the work; after the recording the result is always in the same memory."""
        if self._graph is None:
            if not can_record(self._device):
                return self._work()
            if not self._warm:
                self._warm = True
                result = self._work()
                if not self._repeatable:
                    return result
            self._record()
        assert self._graph is not None
        self._graph.replay()
        return self._result

    def release(self) -> None:
        """Free the graph and its memory; the next calls record again."""
        with _RECORDING:
            if self._graph is not None:
                self._graph.reset()
                del self._result
            self._graph, self._warm = None, False

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self._device)
        # In this mode other threads may work meanwhile: their work is not recorded and does no harm.
        with _recording(), torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
            self._result = self._work()
        self._graph = graph


_SWITCHING = threading.Lock()
_PRECISIONS: list[Precision] = []
"""The precision of each block of `computing_in` that has begun, in any thread."""
_EARLIER: list[Any] = []


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply in this precision inside the block, on a GPU.

    torch's switches hold for the whole process, and several trainings may run at the same time: the first sets the
    switches, and the last resets them.

    Raises:
        ValueError: If another thread works in another precision.
    """
    if device.type != "cuda":
        yield
        return
    with _SWITCHING:
        if _PRECISIONS and _PRECISIONS[0] != precision:
            raise ValueError(
                f"Trainings in one process share one precision: one runs in {_PRECISIONS[0]}, "
                f"and this one wants {precision}. Give all of them the same precision."
            )
        if not _PRECISIONS:
            _EARLIER[:] = _switches()
            rounded = precision != "float32"
            _set_switches(*[rounded if isinstance(_EARLIER[0], bool) else ("tf32" if rounded else "ieee")] * 2)
        _PRECISIONS.append(precision)
    try:
        yield
    finally:
        with _SWITCHING:
            _PRECISIONS.pop()
            if not _PRECISIONS:
                _set_switches(*_EARLIER)


def _switches() -> tuple[Any, Any]:
    """The switches of products and convolutions: words if a program used torch's newer ones, which lock the old."""
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
