"""Cells are computed, each in its turn or several at a time, and kept as soon as they are done.

Whatever ends the work, what is done is kept: the next call computes what is missing, and goes on with a cell that
was interrupted where its kind can. Every process uses one CPU thread of torch, so that several of them fill the cores.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from svrl.paper.cell import Cell, Work
from svrl.paper.store import Store
from svrl.paper.workers import Workers
from svrl.runtime.provenance import provenance
from svrl.runtime.stop_signals import Signals


class Listener(Protocol):
    """Who wants to know how it goes."""

    def begins(self, cell: Cell) -> None:
        """A cell is being computed."""

    def goes_on(self, cell: Cell, share: float) -> None:
        """So much of a cell is done, from 0 to 1."""

    def ends(self, cell: Cell) -> None:
        """A cell is kept, or cannot be computed here."""


class Unheard:
    """Nobody wants to know."""

    def begins(self, cell: Cell) -> None:
        """Nothing."""

    def goes_on(self, cell: Cell, share: float) -> None:
        """Nothing."""

    def ends(self, cell: Cell) -> None:
        """Nothing."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """What came of it.

    Attributes:
        done: Cells that were computed and kept.
        lacking: Cells that need something that is not installed, by the sentence that says what.
    """

    done: list[Cell] = field(default_factory=list)
    lacking: dict[str, list[Cell]] = field(default_factory=dict)

    def note(self, cell: Cell, lacks: str) -> None:
        """Put a cell where it belongs; `lacks` is empty if it was computed."""
        if lacks:
            self.lacking.setdefault(lacks, []).append(cell)
        else:
            self.done.append(cell)


@dataclass(frozen=True, kw_only=True)
class Computer:
    """How cells are computed.

    Attributes:
        store: Where they are kept.
        device: "cpu", "cuda" or "cuda:1".
        jobs: Processes at a time; 1 computes in this one.
        together: Cells whose long part is done at the same time in one process, where their kind can: so a card is
            shared. Its processes would wait for each other.
        command: That makes them again, for their provenance.
    """

    store: Store
    device: str = "cpu"
    jobs: int = 1
    together: int = 1
    command: str = ""

    def compute(self, cells: Iterable[Cell], listener: Listener | None = None) -> Computed:
        """Compute cells, longest first if several processes are at work, and keep each when it is done.

        Raises:
            KeyboardInterrupt: If Ctrl-C came twice; what is done is kept.
            Exception: Whatever a cell fails with. Those that were worked on together with it are kept first.
            svrl.runtime.stop_signals.Stopped: If Ctrl-C, SIGTERM or SIGHUP came; a training has saved itself first.
        """
        wanted = list({cell.key: cell for cell in cells}.values())
        listener = listener or Unheard()
        before = self._in_one_process(wanted, listener) if self.together > 1 else {}
        spent = {key: outcome for key, outcome in before.items() if isinstance(outcome, float)}
        failed = {key: outcome for key, outcome in before.items() if isinstance(outcome, Exception)}
        left = [cell for cell in wanted if cell.key not in failed]
        with Signals().held_back() as signals:
            signals.at_once = True
            if self.jobs == 1 or len(left) <= 1:
                computed = self._alone(left, listener, spent)
            else:
                computed = self._in_processes(sorted(left, key=lambda cell: -cell.weight), listener, spent, signals)
        broken = [cell for cell in wanted if cell.key in failed and not _is_lacking(failed[cell.key])]
        if broken:
            told = " ".join(f"{cell} failed: {failed[cell.key]}" for cell in broken)
            raise ValueError(told) from failed[broken[0].key]
        for cell in wanted:
            if cell.key in failed:
                computed.note(cell, str(failed[cell.key]))
                listener.ends(cell)
        return computed

    def _in_one_process(self, cells: Sequence[Cell], listener: Listener) -> dict[str, float | Exception]:
        """Do the long part of cells whose kind can do several; seconds that each took, or why it failed, by key."""
        spent: dict[str, float | Exception] = {}
        for kind in {cell.kind.name: cell.kind for cell in cells}.values():
            some = [cell for cell in cells if cell.kind.name == kind.name]
            if kind.together is None or len(some) < 2:
                continue
            works = [(cell.settings, self._work(cell, listener)) for cell in some]
            listener.begins(some[0])
            with _one_thread():
                seconds = kind.together(works, self.together)
            spent.update((cell.key, took) for cell, took in zip(some, seconds, strict=True))
        return spent

    def _work(self, cell: Cell, listener: Listener) -> Work:
        folder = self.store.work(cell)
        return Work(folder=folder, device=self.device, progress=lambda share: listener.goes_on(cell, share))

    def _alone(self, cells: Sequence[Cell], listener: Listener, spent: Mapping[str, float]) -> Computed:
        computed = Computed()
        for cell in cells:
            listener.begins(cell)
            with _one_thread():
                computed.note(cell, _compute(self, cell, listener, spent.get(cell.key, 0.0)))
            listener.ends(cell)
        return computed

    def _in_processes(
        self, cells: Sequence[Cell], listener: Listener, spent: Mapping[str, float], signals: Signals
    ) -> Computed:
        computed, left = Computed(), deque(cells)
        with Workers[Cell](min(self.jobs, len(cells)), signals) as workers:
            while left or workers.busy:
                while left and workers.free:
                    cell = left.popleft()
                    workers.give(cell, _compute_elsewhere, self, cell, spent.get(cell.key, 0.0))
                    listener.begins(cell)
                cell, lacks = workers.next()
                computed.note(cell, lacks)
                listener.ends(cell)
        return computed


def _compute(computer: Computer, cell: Cell, listener: Listener, spent: float) -> str:
    """Compute and keep one cell, for which so many seconds were spent before.

    Returns:
        The sentence that says what to install if something is missing, else nothing.
    """
    began = time.monotonic()
    try:
        result = cell.kind.compute(cell.settings, computer._work(cell, listener))
    except Exception as error:
        if not _is_lacking(error):
            raise
        return str(error)
    seconds = spent + time.monotonic() - began
    told = provenance(device=computer.device, command=computer.command, seconds=seconds)
    if any(told.get(name, "") != value for name, value in result.trained.items()):
        told["trained"] = result.trained
    computer.store.write(cell, result, told)
    return ""


def _is_lacking(error: Exception) -> bool:
    """Whether something has to be installed, and the error says what."""
    return isinstance(error, ImportError | ValueError) and "pip install" in str(error)


def _compute_elsewhere(computer: Computer, cell: Cell, spent: float) -> str:
    """In a process of its own."""
    with _one_thread():
        return _compute(computer, cell, Unheard(), spent)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    earlier = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(earlier)
