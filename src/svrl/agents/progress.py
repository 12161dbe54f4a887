"""Show progress: the interface of progress displays, and a plain line on stderr.

The bars of the command line are in `svrl.cli.progress`. The line here needs no other library: it rewrites itself in
place in a terminal, and prints a new line every ten seconds elsewhere, such as in a notebook or a file.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

from svrl.runtime.names import duration

if TYPE_CHECKING:
    from svrl.agents.training import Training

REWRITE_EVERY = 0.2
"""Seconds between two texts of the line in a terminal."""
LINE_EVERY = 10.0
"""Seconds between two lines if stderr is not a terminal."""
ToldOfGames = Callable[[int, int], None]
"""Called with (games over, games to play)."""
_RECENT = 30.0
"""Seconds over which the speed is measured."""


class Progress(Protocol):
    """Show the progress of training. A subclass overrides the methods that it needs; the others show nothing."""

    def shown(self) -> AbstractContextManager[object]:
        """A context during which progress is shown."""
        return nullcontext()

    def __call__(self) -> None:
        """Show the current state of training; called after every step."""
        return

    def say(self, what: str) -> None:
        """Show what runs instead of training."""
        return

    def evaluating(self, done: int, of: int) -> None:
        """Show how many games of an evaluation are over."""
        return


class Unseen(Progress):
    """Show nothing."""

    def __init__(self, training: Training) -> None:
        pass


class StatusLine:
    """One line on stderr. Call it as often as you like; it checks the clock first."""

    def __init__(self) -> None:
        self._in_place = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
        self._due = time.monotonic() + (0.0 if self._in_place else LINE_EVERY)
        self._unended = False

    def __call__(self, text: Callable[[], str], *, now: bool = False) -> None:
        """Show a text if it is due, or `now`."""
        at = time.monotonic()
        if now or at >= self._due:
            self._due = at + (REWRITE_EVERY if self._in_place else LINE_EVERY)
            self._write(text())

    def end(self) -> None:
        """Keep the last text, and begin a new line."""
        if self._unended:
            self._put("\n")
            self._unended = False

    def clear(self) -> None:
        """Make room for something else."""
        if self._unended:
            self._put("\r\x1b[K")
            self._unended = False

    def _write(self, text: str) -> None:
        if self._in_place:
            with suppress(OSError, ValueError):
                text = text[: (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1]
            self._put(f"\r{text}\x1b[K")
            self._unended = True
        else:
            self._put(f"{text}\n")

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError, AttributeError):  # there is no stderr, or it was closed
            sys.stderr.write(text)
            sys.stderr.flush()


class ProgressLine(Progress):
    """A line with the progress of training: steps, steps per second, mean score of the last games, and the time left.

    Args:
        training: The training. Its notes are printed above the line.
    """

    def __init__(self, training: Training) -> None:
        self._training, self._line = training, StatusLine()
        self._marks = deque([(time.monotonic(), training.steps)])
        self._say, training.say = training.say, self._above

    @contextmanager
    def shown(self) -> Iterator[ProgressLine]:
        """Show the line during the block, and keep its last text."""
        try:
            yield self
        finally:
            self._line(self._text, now=True)
            self._line.end()

    def __call__(self) -> None:
        """Show the current state of training, if it is due."""
        self._line(self._text)

    def evaluating(self, done: int, of: int) -> None:
        """Show the progress of an evaluation."""
        self._line(lambda: f"{self._steps()}, evaluating: {done} of {of} games")

    def _above(self, sentence: str) -> None:
        self._line.clear()
        self._say(sentence)

    def _steps(self) -> str:
        return f"{self._training.steps:,} of {self._training.config.steps:,} steps"

    def _text(self) -> str:
        training, marks = self._training, self._marks
        marks.append((time.monotonic(), training.steps))
        while marks[1][0] < marks[-1][0] - _RECENT:
            marks.popleft()
        seconds, steps = (last - first for first, last in zip(marks[0], marks[-1], strict=True))
        speed = steps / seconds if seconds > 0.0 else 0.0
        left, scores = training.config.steps - training.steps, training.recent_scores
        parts = [
            self._steps(),
            *([f"{speed:,.0f} steps/s"] if speed else []),
            *([f"score {sum(scores) / len(scores):.4g} (last {len(scores)})"] if scores else []),
            *([f"{duration(left / speed)} left"] if speed and left > 0 else []),
        ]
        return ", ".join(parts)


@contextmanager
def games_shown(progress: bool | ToldOfGames | None) -> Iterator[ToldOfGames | None]:
    """Return the progress function of an evaluation; True shows a line on stderr."""
    if progress is not True:
        yield progress or None
        return
    line = StatusLine()

    def told(done: int, of: int) -> None:
        line(lambda: f"{done} of {of} games", now=done == of)
        if done == of:
            line.end()

    try:
        yield told
    finally:
        line.end()
