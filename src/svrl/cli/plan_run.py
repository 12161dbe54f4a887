"""Running what `svrl plan` was asked for: progress on stderr, checkpoints, and a Ctrl-C that loses nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from svrl.mdp.model import Model, Sampler
    from svrl.planning.method import Method
    from svrl.planning.plan import Plan, Run
    from svrl.reporting.plan_scores import Recorder


class Bars:
    """Bars on stderr, one a stage, gone at the end; silent where nobody looks."""

    def __init__(self) -> None:
        console = Console(stderr=True)
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


@contextmanager
def patient_interrupts() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back, and give a function that says whether it came; a second one is not held back.

    At the end of the block a Ctrl-C that nobody has asked about is raised.
    """
    came = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    earlier = signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, earlier)
    if came:
        raise KeyboardInterrupt


def run_plan(
    problem: Model | Sampler,
    method: Method,
    *,
    seed: int,
    recorder: Recorder,
    bars: Bars,
    checkpoint: Path | None,
) -> Plan:
    """Plan with a bar; with a checkpoint file, from it and into it."""
    from svrl.planning.checkpoint import plan_resumably
    from svrl.planning.plan import advance, begin, conclude

    watch = _watching(method, problem.n_states * problem.n_actions, recorder, bars)
    if checkpoint is None:
        run = begin(problem, method, seed=seed)
        for _ in advance(problem, method, run):
            watch(run)
        return conclude(problem, method, run)
    with patient_interrupts() as interrupted:

        def watch_signals(run: Run) -> None:
            watch(run)
            if interrupted():
                raise KeyboardInterrupt

        return plan_resumably(problem, method, checkpoint, seed=seed, watch=watch_signals, notes=recorder.notes)


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
