"""Who listens to a training in a directory: rows on disk, and the progress that a person sees."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned
from svrl.runtime import run_directory as files
from svrl.runtime.rows import RowLog

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.runtime.run_directory import RunDirectory


class Consumer(Protocol):
    """Receives all events of a training."""

    def __call__(self, event: Event) -> None:
        """Take an event."""

    def flush(self) -> None:
        """Hand everything to the system."""

    def close(self) -> None:
        """Write what is left."""


class Progress(Protocol):
    """Shows a person how training goes. A subclass writes the methods that it needs; the others show nothing."""

    def shown(self) -> AbstractContextManager[object]:
        """Show it for as long as the block lasts."""
        return nullcontext()

    def __call__(self) -> None:
        """Look at the training; called after every step."""
        return

    def say(self, what: str) -> None:
        """Show what is done instead of training."""
        return

    def evaluating(self, done: int, of: int) -> None:
        """Show how many games of an evaluation are over."""
        return


class Unseen(Progress):
    """Shows nothing."""

    def __init__(self, training: Training) -> None:
        pass


class Rows:
    """Events as rows on disk.

    Args:
        run: Where the files are.
        since: The step that the run resumes from; rows after it are dropped.
    """

    def __init__(self, run: RunDirectory, since: int) -> None:
        names = {EpisodeEnded: files.EPISODES, Learned: files.LEARNING, Evaluated: files.EVALUATIONS}
        self._logs = {kind: RowLog(run.path / name, up_to=since) for kind, name in names.items()}

    def __call__(self, event: Event) -> None:
        """Append the event's row, if it has one."""
        if log := self._logs.get(type(event)):
            log.append(asdict(event) | ({"mean": event.mean} if isinstance(event, Evaluated) else {}))

    def flush(self) -> None:
        """Hand all rows to the system."""
        for log in self._logs.values():
            log.flush()

    def close(self) -> None:
        """Write what is left."""
        for log in self._logs.values():
            log.close()
