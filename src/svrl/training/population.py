"""Several runs at the same time in one process, each in its own thread and folder.

Emulators and GPUs work while Python waits, so one process can keep them busy with several runs. Every run has its own
generators, rows and checkpoints. Its result is the same as when you train it alone, and you can resume it alone.

    a signal    every run saves at its next step and stops; waiting runs do not begin
    a failure   the other runs train to their end, and then one error reports all failures
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.agents.config import AgentConfig, Precision, default_precision
from svrl.agents.cuda_graph import release
from svrl.agents.progress import Progress, Unseen
from svrl.agents.training import Training
from svrl.envs.make import EnvSource, name_of
from svrl.runtime.device import is_gpu, torch_threads
from svrl.runtime.stop_signals import Signals, Stopped
from svrl.training.result import settings_of
from svrl.training.session import Habits, train_in_directory

SWITCH_INTERVAL = 5e-4
"""Seconds for which a thread may hold the GIL while others wait; a step takes less than the usual 5 ms."""
_LISTEN_EVERY = 0.5
"""Seconds between two checks of the main thread for signals, which the system may deliver to any thread."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One run of a population; the arguments are those of `train_in_directory`.

    Attributes:
        env: The name of an environment, or a function that creates one.
        config: All settings of the agent.
        folder: The folder of this run alone.
        seed: Seed of all random numbers.
        device: "cpu", "cuda" or "cuda:1".
        precision: Precision of matrix products; None uses the device's default.
        threads: CPU threads of torch; None keeps the current number.
        resume: Resume the run in the folder.
        habits: How to keep and show the run; None uses those of the `Manner`.
    """

    env: EnvSource
    config: AgentConfig
    folder: Path
    seed: int = 0
    device: str = "cpu"
    precision: Precision | None = None
    threads: int | None = None
    resume: bool = False
    habits: Habits | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that config.json of the run holds, without its habits."""
        return settings_of(
            name_of(self.env),
            self.config,
            seed=self.seed,
            device=self.device,
            threads=self.threads or 1,
            precision=self.precision,
        )


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How to carry out runs; nothing here changes what agents learn.

    Attributes:
        habits: How to keep and show each run; by default as in `train_in_directory`.
        env_threads: Native threads of each run's environments; 0 lets ale-py choose.
        progress: Creates the progress display of a run; called in the run's thread.
        say: Called with notes and warnings on a run, from any thread.
    """

    habits: Habits | None = None
    env_threads: int = 0
    progress: Callable[[Member, Training], Progress] = lambda _, training: Unseen(training)
    say: Callable[[Member, str], None] = lambda member, sentence: None


RunOutcome = dict[str, Any] | Exception | None
"""The content of a run's result.json, why it failed, or None if a signal stopped it."""


class PopulationError(ValueError):
    """Some runs failed; the others are finished, or saved if a signal came.

    Attributes:
        failures: The errors, by folder.
        signal: The number of the signal that stopped the others, or None.
    """

    def __init__(self, failures: Mapping[Path, Exception], signal: int | None) -> None:
        super().__init__(" ".join(f"{folder} failed: {error}" for folder, error in failures.items()))
        self.failures = dict(failures)
        self.signal = signal


def train_population(
    members: Sequence[Member], *, together: int, manner: Manner | None = None, signals: Signals | None = None
) -> list[dict[str, Any]]:
    """Train runs to their end, several at a time.

    Args:
        members: The runs, in the order in which they begin.
        together: Runs at a time, at least 1. With 1, runs train in the caller's thread.
        manner: How to carry out the runs.
        signals: The signals that the caller already holds back; by default this function holds them back.

    Returns:
        The content of each result.json.

    Raises:
        PopulationError: If runs failed.
        Stopped: If Ctrl-C, SIGTERM or SIGHUP came; everything is saved.
        ValueError: If two runs share a folder, or if runs at the same time want different numbers of threads.
    """
    together = min(together, len(members))
    _refuse_what_cannot_be_shared(members, together)
    waiting = iter(tuple(members))  # several threads may take from it
    ended: dict[Path, RunOutcome] = {}
    with ExitStack() as held:
        heard = signals or held.enter_context(Signals().held_back())

        def work() -> None:
            while heard.came is None and (member := next(waiting, None)) is not None:
                with torch_threads(member.threads if together == 1 else None):
                    ended[member.folder] = _outcome(member, manner or Manner(), heard)

        if together == 1:
            work()
        else:
            in_threads(work, together, members[0].threads)
    outcomes = {member.folder: ended.get(member.folder) for member in members}
    if failures := {folder: outcome for folder, outcome in outcomes.items() if isinstance(outcome, Exception)}:
        raise PopulationError(failures, heard.came)
    results = [outcome for outcome in outcomes.values() if isinstance(outcome, dict)]
    if len(results) < len(members):
        heard.stop_if_came()
    return results


def _refuse_what_cannot_be_shared(members: Sequence[Member], together: int) -> None:
    if together < 1:
        raise ValueError("A population needs at least one run, and at least one at a time.")
    if len({member.folder for member in members}) < len(members):
        raise ValueError("Every run of a population needs its own folder; two share one.")
    precisions = {member.precision or default_precision(member.device) for member in members if is_gpu(member.device)}
    for what, wanted, remedy in (
        ("share torch's CPU threads", {member.threads for member in members}, "give one number of --threads"),
        ("share one precision", precisions, "give one --precision"),
    ):
        if together > 1 and len(wanted) > 1:
            raise ValueError(
                f"Runs in one process {what}, and these want {' and '.join(sorted(map(str, wanted)))}. "
                f"Train them one at a time (--together 1), or {remedy}."
            )


def in_threads(work: Callable[[], None], count: int, threads: int | None) -> None:
    """Do the same work in several threads, and wait for signals in this one.

    The threads are daemons, so that a second Ctrl-C ends the process without them.

    Args:
        work: What each thread does.
        count: Threads.
        threads: CPU threads of torch, for all together; None keeps the current number.
    """
    unexpected: list[BaseException] = []

    def kept() -> None:
        try:
            work()
        except BaseException as error:
            unexpected.append(error)

    earlier = sys.getswitchinterval()
    sys.setswitchinterval(min(earlier, SWITCH_INTERVAL))
    try:
        with torch_threads(threads):
            started = [threading.Thread(target=kept, daemon=True, name=f"run {number}") for number in range(count)]
            for thread in started:
                thread.start()
            for thread in started:
                while thread.is_alive():
                    thread.join(_LISTEN_EVERY)
    finally:
        sys.setswitchinterval(earlier)
    if unexpected:
        raise unexpected[0]


def _outcome(member: Member, manner: Manner, signals: Signals) -> RunOutcome:
    """Train one run; return a failure instead of raising it."""
    try:
        return train_in_directory(
            member.env,
            member.config,
            folder=member.folder,
            seed=member.seed,
            device=member.device,
            precision=member.precision,
            env_threads=manner.env_threads,
            resume=member.resume,
            habits=member.habits or manner.habits,
            progress=lambda training: manner.progress(member, training),
            say=lambda sentence: manner.say(member, sentence),
            signals=signals,
        )
    except Stopped:
        return None
    except Exception as error:  # of this run alone
        _forget_locals(error)
        return error
    finally:
        release(member.device)


def _forget_locals(error: BaseException | None) -> None:
    """Drop the variables that a traceback holds, and with them the memory of the failed run."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
