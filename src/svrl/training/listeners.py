"""Who listens to a training in a directory: rows on disk, the error against a planned Q*, and whoever watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned
from svrl.runtime import run_directory as files
from svrl.runtime.rows import RowLog, last_rows
from svrl.training.q_star import QStarError, why_unknown

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.runtime.run_directory import RunDirectory


class Consumer(Protocol):
    """Somebody who listens to events."""

    def __call__(self, event: Event) -> None:
        """Take an event."""
        ...

    def flush(self) -> None:
        """Hand everything to the system."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class Progress(Protocol):
    """Somebody who shows a person how training goes."""

    def shown(self) -> AbstractContextManager[object]:
        """Show it for as long as the block lasts."""
        ...

    def __call__(self) -> None:
        """Look at the training; called after every step."""
        ...

    def say(self, what: str) -> None:
        """Show what is done instead of training."""
        ...

    def evaluating(self, done: int, of: int) -> None:
        """Show how many games of an evaluation are over."""
        ...

    def skip(self) -> None:
        """Begin to measure anew, after something that was not training."""
        ...


class Unseen:
    """The progress that nobody looks at."""

    def __init__(self, training: Training) -> None:
        pass

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show nothing."""
        yield

    def __call__(self) -> None:
        """Nothing."""

    def say(self, what: str) -> None:
        """Nothing."""

    def evaluating(self, done: int, of: int) -> None:
        """Nothing."""

    def skip(self) -> None:
        """Nothing."""


class Rows:
    """Events as rows on disk.

    Args:
        run: Where the files are.
        since: The step that the run goes on from; rows after it are dropped.
    """

    def __init__(self, run: RunDirectory, since: int) -> None:
        names = {EpisodeEnded: files.EPISODES, Learned: files.LEARNING, Evaluated: files.EVALUATIONS}
        self._logs = {kind: RowLog(run.path / name, up_to=since) for kind, name in names.items()}
        # Going on from the very end evaluates once more; the row is there already.
        done = last_rows(run.path / files.EVALUATIONS, 1)
        self._evaluated_at = done[0]["steps"] if done else None

    def __call__(self, event: Event) -> None:
        """Append the event's row, if it has one."""
        log = self._logs.get(type(event))
        if log is None:
            return
        row = asdict(event)
        if isinstance(event, Evaluated):
            if event.steps == self._evaluated_at:
                return
            self._evaluated_at = event.steps
            row["mean"] = event.mean
        log.append(row)

    def flush(self) -> None:
        """Hand all rows to the system."""
        for log in self._logs.values():
            log.flush()

    def close(self) -> None:
        """Write what is left."""
        for log in self._logs.values():
            log.close()


class QStarRows:
    """The error against the planned Q* at every event of diagnostics.

    Attributes:
        last: The newest row, or None.
        reason: Why there is none, in a sentence; empty where there is one.
    """

    def __init__(self, run: RunDirectory, training: Training) -> None:
        self._training = training
        self._error: QStarError | None = None
        self.reason = why_unknown(training.env, training.config)
        try:
            self._error = QStarError.for_training(training)
        except ValueError as error:
            self.reason = str(error)
        self._log = RowLog(run.path / files.Q_STAR, up_to=training.steps)
        rows = last_rows(run.path / files.Q_STAR, 1)
        self.last: dict[str, Any] | None = rows[0] if rows else None

    def __call__(self, event: Event) -> None:
        """Measure and append a row."""
        if isinstance(event, Learned):
            self.measure()

    def measure(self) -> None:
        """A row of this moment, unless there is one."""
        if self._error is not None and (self.last is None or self.last["steps"] != self._training.steps):
            self.last = self._error.event_row(self._training)
            self._log.append(self.last)

    def flush(self) -> None:
        """Hand all rows to the system."""
        self._log.flush()

    def close(self) -> None:
        """Write what is left."""
        self._log.close()
