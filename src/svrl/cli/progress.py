"""How work goes, on stderr: bars in a terminal, gone at the end; elsewhere a plain line now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from svrl.runtime.names import printable

LINE_EVERY = 30.0
"""Seconds between two lines where stderr is no terminal."""


class Bars(Progress):
    """A bar a task, with its field `detail` on a line below it. Any thread may write to it.

    Args:
        width: Columns of the longest description, so that bars stand below one another.
    """

    def __init__(self, width: int = 0) -> None:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._over = threading.Event()
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(min_width=width)),
            BarColumn(bar_width=24),
            TaskProgressColumn(text_format_no_percentage=""),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        """A bar, its detail, and the next one."""
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if task.fields["detail"]:
                yield Text(f"  {task.fields['detail']}", no_wrap=True, overflow="ellipsis")

    def start(self) -> None:
        """Show the bars, or begin to print lines."""
        super().start()
        if self.disable:
            threading.Thread(target=self._print_lines, daemon=True).start()

    def stop(self) -> None:
        """Take the bars away; a terminal that was closed has none."""
        self._over.set()
        with suppress(OSError):
            super().stop()

    def stage(self, description: str, total: int | None = None) -> Callable[..., None]:
        """Begin a stage in place of the last.

        Returns:
            What takes its progress: update(done, detail="", total=None).
        """
        for task in self.task_ids:
            self.remove_task(task)
        bar = self.add_task(printable(description), total=total, detail="")

        def update(done: int, detail: str = "", total: int | None = total) -> None:
            self.update(bar, completed=done, total=total, detail=detail)

        return update

    def say(self, sentence: str) -> None:
        """One line, above the bars."""
        self.console.print(printable(sentence), markup=False)

    def _print_lines(self) -> None:
        with suppress(OSError):
            while not self._over.wait(LINE_EVERY):
                for task in self.tasks:
                    share = "" if task.total is None else f"{task.percentage:.0f}%"
                    told = ", ".join(filter(None, (share, task.fields["detail"])))
                    self.say(": ".join(filter(None, (task.description, told))))
