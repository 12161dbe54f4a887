"""Training the agents of several cells at the same time, in one process that shares a card.

Each is trained in the folder that its cell is computed in, and is the run that it would have been alone
(`svrl.training.population`). The rank study and the rows are left to the computation of the cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svrl.paper.cell import Work
from svrl.paper.training_cells.compute import RUN, Share, config_of, refuse_another_device
from svrl.runtime.device import usable_cores
from svrl.runtime.run_directory import CONFIG, is_finished

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.training.listeners import Progress
    from svrl.training.population import Member


def train_together(cells: Sequence[tuple[Mapping[str, Any], Work]], together: int) -> list[float | Exception]:
    """Train those that are not finished, so many at a time.

    Args:
        cells: Settings, and what each works with.
        together: Runs at a time. The cores are divided among their emulators.

    Returns:
        Seconds from the first to the last step of each, while others were at work too, 0 if it was finished; or why it
        failed.

    Raises:
        svrl.runtime.stop_signals.Stopped: If a signal came; the next call goes on.
    """
    from svrl.runtime.stop_signals import Signals
    from svrl.training.population import Manner, Member, PopulationError, train_population

    left = {work.folder / RUN: (settings, work) for settings, work in cells if not is_finished(work.folder / RUN)}
    clock = _Clock()
    failures: dict[Path, Exception] = {}
    if left:
        with Signals().held_back() as signals:

            def progress(member: Member, training: Training) -> Progress:
                tell = left[member.folder][1].progress
                return Share(training, clock.timing(member.folder, tell), signals)

            members = [_member(folder, *left[folder], Member) for folder in left]
            manner = Manner(
                env_threads=max(1, usable_cores() // min(together, len(members))),
                progress=progress,
            )
            try:
                train_population(members, together=together, manner=manner, signals=signals)
            except PopulationError as error:
                signals.stop_if_came()
                failures = error.failures
            signals.stop_if_came()  # it may have come in the last evaluation
    folders = [work.folder / RUN for _, work in cells]
    return [failures.get(folder, clock.seconds(folder)) for folder in folders]


def _member(folder: Path, settings: Mapping[str, Any], work: Work, make: type[Member]) -> Member:
    begun = (folder / CONFIG).exists()
    if begun:
        refuse_another_device(folder, work.device)
    return make(
        env=settings["env"],
        config=config_of(settings),
        folder=folder,
        seed=settings["seed"],
        device=work.device,
        resume=begun,
    )


class _Clock:
    """When each run was first and last heard of."""

    def __init__(self) -> None:
        self._began: dict[Path, float] = {}
        self._last: dict[Path, float] = {}

    def timing(self, folder: Path, tell: Callable[[float], None]) -> Callable[[float], None]:
        """`tell`, with the time noted."""
        self._began[folder] = self._last[folder] = time.monotonic()

        def told(share: float) -> None:
            self._last[folder] = time.monotonic()
            tell(share)

        return told

    def seconds(self, folder: Path) -> float:
        return self._last[folder] - self._began[folder] if folder in self._began else 0.0
