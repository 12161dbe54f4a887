"""How training goes, on stderr: a bar a run in a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from svrl.runtime.names import printable

if TYPE_CHECKING:
    from svrl.agents.training import Training

REFRESH = 0.25
"""Seconds between two looks at the numbers in a terminal."""
LINE_EVERY = 30.0
"""Seconds between two lines elsewhere."""
WINDOW = 40
"""Looks that a rate is taken over."""


class _TwoLines(Progress):
    """Bars, each with its numbers below, because both together are wider than many terminals."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """A bar, its numbers, and the next one."""
        for task in self.tasks:
            yield self.make_tasks_table([task])
            yield Text(f"  {task.fields['numbers']}", no_wrap=True, overflow="ellipsis")

    def stop(self) -> None:
        """Take the bars away; a terminal that was closed has none."""
        with suppress(OSError):
            super().stop()


class Board:
    """Where all runs of a command show how they go; any thread may write to it.

    Args:
        labels: Of the runs, so that their bars stand below one another.

    Attributes:
        console: On stderr.
        bars: A bar a run; silent where there is no terminal.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        width = max(map(len, labels), default=0)
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bars = _TwoLines(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(min_width=width)),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    def say(self, sentence: str) -> None:
        """One line, above the bars."""
        self.console.print(printable(sentence), markup=False)


class TrainProgress:
    """The bar, or the lines, of one run. Call it as often as you like; it looks at the clock first.

    Args:
        training: The run.
        label: What to call it.
        board: That of several runs, which somebody else shows; a run alone has its own.
    """

    def __init__(self, training: Training, label: str, board: Board | None = None) -> None:
        self._training = training
        self._label = label = printable(label)
        self._alone = board is None
        board = board or Board()
        self._console, self._bar = board.console, board.bars
        self._shown = self._console.is_terminal
        self._task = self._bar.add_task(label, total=training.config.steps, completed=training.steps, numbers="")
        self._pause = REFRESH if self._shown else LINE_EVERY
        self._next = time.monotonic() + self._pause
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)
        self._mark()

    @contextmanager
    def shown(self) -> Iterator[TrainProgress]:
        """Show it for as long as the block lasts; beside other runs, leave a bar that says that it is over."""
        if self._alone:
            with self._bar:
                yield self
            return
        try:
            yield self
        finally:
            self.say("over")

    def __call__(self) -> None:
        """Show where training stands, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._pause
        self._mark()
        if self._shown:
            self._bar.update(
                self._task, description=self._label, completed=self._training.steps, numbers=self._numbers()
            )
        else:
            training = self._training
            share = training.steps / training.config.steps
            done = f"{training.steps:,} of {training.config.steps:,} steps ({share:.0%})"
            self._console.print(f"{self._label}: {done}, {self._numbers()}", markup=False)

    def say(self, what: str) -> None:
        """Show what is done instead of training, in a terminal only, and no rates of it."""
        done = self._training.steps
        self._bar.update(self._task, description=f"{self._label}: {what}", completed=done, numbers="")

    def evaluating(self, done: int, of: int) -> None:
        """Show how far an evaluation is."""
        self.say(f"evaluating, {done} of {of} games")

    def skip(self) -> None:
        """Begin to measure anew, after something that was not training."""
        self._marks.clear()
        self._mark()

    def _mark(self) -> None:
        self._marks.append((time.monotonic(), self._training.steps, self._training.updates))

    def _numbers(self) -> str:
        training = self._training
        (began, first_steps, first_updates), (now, steps, updates) = self._marks[0], self._marks[-1]
        seconds = max(now - began, 1e-9)
        rate = (steps - first_steps) / seconds
        scores = training.recent_scores
        parts = [
            f"{rate:,.0f} steps/s",
            f"{(updates - first_updates) / seconds:,.0f} updates/s",
            f"score {sum(scores) / len(scores):.4g} (last {len(scores)})" if scores else "no game over yet",
            f"epsilon {training.epsilon:.3g}",
        ]
        if rate > 0:
            parts.append(f"{duration((training.config.steps - steps) / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Seconds as 4:05, 2:07:05 or 3 d 2 h."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
