"""Running what `svrl plan` was asked for: progress on stderr, checkpoints, and signals that lose nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from svrl.mdp.model import Model, Sampler
    from svrl.planning.method import Method
    from svrl.planning.plan import Plan, Run
    from svrl.planning.score import Recorder
    from svrl.runtime.run_directory import RunDirectory
    from svrl.runtime.stop_signals import Signals


FIRST_LINE, LINE_EVERY = 3.0, 30.0
"""Seconds until the first line and between two of them, where stderr is no terminal."""


class Bars:
    """Bars on stderr, one a stage, gone at the end; where stderr is no terminal, a plain line now and then.

    Enter it before torch is imported, which takes seconds, and `progress` once nothing but results is to be printed.
    """

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._over = threading.Event()
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Bars:
        if self.progress.disable:
            threading.Thread(target=self._lines, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _lines(self) -> None:
        delay = FIRST_LINE
        while not self._over.wait(delay):
            if not self.progress.tasks:
                self.progress.console.print("starting")
            for stage in self.progress.tasks:
                done = "" if stage.total is None else f", {stage.completed:,.0f} of {stage.total:,.0f}"
                detail = f", {stage.fields['detail']}" if stage.fields["detail"] else ""
                self.progress.console.print(f"{stage.description}{done}{detail}", markup=False)
            delay = LINE_EVERY

    def stage(self, description: str, total: int | None = None) -> Callable[[int, str], None]:
        """Begin a stage in place of the last; call the result with how much is done, and details."""
        for task in self.progress.task_ids:
            self.progress.remove_task(task)
        bar = self.progress.add_task(description, total=total, detail="")

        def update(done: int, detail: str = "") -> None:
            self.progress.update(bar, completed=done, detail=detail)

        return update

    def tabulating(self) -> Callable[[int, int], None]:
        """A stage for the table of transitions, as `GridMDP` reports it: pairs done, of all pairs."""
        self.stage("building the table")

        def update(done: int, of: int) -> None:
            self.progress.update(self.progress.task_ids[-1], completed=done, total=of)

        return update


@dataclass(frozen=True)
class Kept:
    """What makes a run one that can be gone on with.

    Attributes:
        directory: Where it is on disk.
        signals: Held back by somebody, with `at_once` set; while steps are made they wait for the end of one.
    """

    directory: RunDirectory
    signals: Signals


def run_plan(
    problem: Model | Sampler,
    method: Method,
    *,
    seed: int,
    recorder: Recorder,
    bars: Bars,
    kept: Kept | None = None,
) -> Plan:
    """Plan with a bar; what is kept in a checkpoint goes on from it.

    Raises:
        svrl.runtime.stop_signals.Stopped: If that is kept and Ctrl-C, SIGTERM or SIGHUP came; the next call goes on.
    """
    from svrl.planning.checkpoint import plan_resumably
    from svrl.planning.plan import advance, begin, conclude

    watch = _watching(method, problem.n_states * problem.n_actions, recorder, bars)
    if kept is None:
        run = begin(problem, method, seed=seed)
        for _ in advance(problem, method, run):
            watch(run)
        return conclude(problem, method, run)

    def watch_signals(run: Run) -> None:
        watch(run)
        kept.signals.stop_if_came()

    kept.signals.at_once = False  # a step that is cut short is done again, one that ends is kept
    found = plan_resumably(
        problem, method, kept.directory.checkpoint, seed=seed, watch=watch_signals, notes=recorder.notes
    )
    kept.signals.at_once = True
    kept.signals.stop_if_came()
    return found


def _watching(method: Method, pairs: int, recorder: Recorder, bars: Bars) -> Callable[[Run], None]:
    update = bars.stage(method.name, method.max_iterations)

    def watch(run: Run) -> None:
        recorder(run)
        row = run.trace[-1]
        rank = "" if row.rank is None else f"rank {row.rank}, "
        update(row.iteration, f"residual {row.residual:.2e}, {rank}{row.backups / pairs:.1f} sweeps")

    return watch


def trace_rows(found: Plan, recorder: Recorder) -> list[dict[str, Any]]:
    """The rows of a plan, with the error of each iteration."""
    from dataclasses import asdict

    pairs = found.problem["pairs"]
    return [
        {**asdict(row), "sweep_equivalents": row.backups / pairs, "error": error}
        for row, error in zip(found.trace, recorder.notes["errors"], strict=True)
    ]
