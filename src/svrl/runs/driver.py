"""The driver of a list of runs: which are left, which process has each, when to stop. A pool says where they run.

A run that another process holds is left alone and looked at again later, so several drivers share one store. What was
lost with a worker process is looked up in the store first, and then begun again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from svrl.runs.spec import RunSpec, Terms
from svrl.runs.store import TO_DO, BusyError, State, Store, failure_of, kills_of
from svrl.runs.work import LAST_LINES, Ended, now, sentence_of, tidy
from svrl.runtime.stop_signals import Signals

RETRIES = 2
"""Most restarts of a run whose process was killed: by the system for lack of memory, or with its machine."""
LOOK_EVERY = 0.5
"""Seconds between two looks at signals and at the clock; the end of a run is noticed at once."""
AGAIN_AFTER = 2.0
"""Seconds after which a run that another process holds is looked at again."""
ELSEWHERE = "by another command"
"""The reason why a run is done that was not begun here."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How runs are executed; nothing here changes what is learned.

    Attributes:
        jobs: Runs at a time on CPUs, or processes on GPUs; None takes as many as cores, GPUs and memory allow.
        checkpoint_every: Seconds between two checkpoints of a training: what a killed process costs at most.
        retries: Times that a run whose process was killed is begun again.
        hours: After which no run is begun and those at work are saved; None is no limit.
        tensorboard: Write scalars for TensorBoard.
        command: That asked for the runs, for their provenance.
    """

    jobs: int | None = None
    checkpoint_every: float = 60.0
    retries: int = RETRIES
    hours: float | None = None
    tensorboard: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {self.jobs}.")
        if self.hours is not None and not self.hours > 0:
            raise ValueError(f"hours must be more than 0, got {self.hours:g}.")
        if not self.checkpoint_every > 0:
            raise ValueError(f"checkpoint_every must be more than 0 seconds, got {self.checkpoint_every:g}.")

    def terms(self, threads: int, device: str | None) -> Terms:
        """How a process works on runs."""
        return Terms(
            threads=threads,
            checkpoint_every=self.checkpoint_every,
            tensorboard=self.tensorboard,
            device=device,
            command=self.command,
        )


class Listener:
    """Follows the runs; this one does nothing. Any object with these methods will do."""

    def begins(self, spec: RunSpec) -> None:
        """A process works on a run now."""

    def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
        """It no longer does."""

    def looks(self) -> None:
        """Some time has passed: at least a few times in ten seconds."""

    def notes(self, sentence: str) -> None:
        """Something that a person should know."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How runs stand when their driver returns.

    Attributes:
        states: Of every run, by id.
        failures: Why, by id, of those that failed.
        stopped: The number of the signal that stopped them; None if they came to their end.
        out_of_time: The hours were over.
        broken: Why the store could not be written to; empty if it could.
    """

    states: dict[str, State]
    failures: dict[str, str] = field(default_factory=dict)
    stopped: int | None = None
    out_of_time: bool = False
    broken: str = ""

    def count(self, state: State) -> int:
        """Runs in a state."""
        return sum(one == state for one in self.states.values())


@dataclass(frozen=True)
class News:
    """What a pool has to tell.

    Attributes:
        what: A run "begins" or has ended; "lost" with its process, "lost for good" if it was begun again often enough.
        spec: The run.
        ended: How, if it has ended.
        reason: Why.
    """

    what: Literal["begins", "ended", "lost", "lost for good"]
    spec: RunSpec
    ended: Ended = "done"
    reason: str = ""


class Pool(ABC):
    """Processes that work on runs."""

    @property
    @abstractmethod
    def is_at_work(self) -> bool:
        """Whether it has runs that have not ended."""

    @abstractmethod
    def take(self, spec: RunSpec) -> bool:
        """Begin a run; False if there is no room now."""

    @abstractmethod
    def news(self, seconds: float) -> list[News]:
        """What has happened; wait so long for it."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all runs to save and end; called once."""

    @abstractmethod
    def close(self) -> None:
        """End all processes at once; what they work on is resumed from its last checkpoint."""


class Driver:
    """Has runs done by a pool.

    Args:
        store: Of the runs.
        pool: Works on them.
        signals: It stops at; held back by the caller.
        effort: How they are worked on; its hours begin now.
        listener: Follows it.
    """

    def __init__(self, store: Store, pool: Pool, signals: Signals, effort: Effort, listener: Listener) -> None:
        self._store, self._pool, self._signals = store, pool, signals
        self._effort, self._listener = effort, listener
        self._waiting: deque[RunSpec] = deque()
        self._elsewhere: dict[str, tuple[float, RunSpec]] = {}
        self._setbacks: Counter[str] = Counter()
        self._open: set[str] = set()
        self._stopping = self._out_of_time = False
        self._broken = ""
        self._deadline = None if effort.hours is None else time.monotonic() + 3600 * effort.hours

    def run(self, specs: Sequence[RunSpec]) -> Summary:
        """Work until nothing is left, or until it has to stop."""
        for spec in specs:
            state = self._store.state(spec.id)
            if state in ("running", *TO_DO):
                self._open.add(spec.id)
            if state == "done":
                tidy(self._store, spec.id)
            elif state == "running":
                self._elsewhere[spec.id] = (time.monotonic(), spec)
            elif state in TO_DO:
                self._waiting.append(spec)
        while self._waiting or self._elsewhere or self._pool.is_at_work:
            if self._has_to_stop():
                if not self._stopping:
                    self._stopping = True
                    self._pool.stop()
                if not self._pool.is_at_work:
                    break
            try:
                if not self._stopping:
                    self._hand_over()
                for news in self._pool.news(LOOK_EVERY):
                    self._hear(news)
            except OSError as error:  # runs at work are asked to stop, and save where they can
                self._broken = self._broken or sentence_of(error, self._store.address)
            self._listener.looks()
        return self._summary(specs)

    def _has_to_stop(self) -> bool:
        self._out_of_time |= self._deadline is not None and time.monotonic() > self._deadline
        return self._signals.came is not None or self._out_of_time or bool(self._broken)

    def _hand_over(self) -> None:
        for run, (since, spec) in list(self._elsewhere.items()):
            if time.monotonic() - since >= AGAIN_AFTER:
                del self._elsewhere[run]
                self._look_again(spec)
        full: set[str] = set()
        for spec in list(self._waiting):
            if spec.device in full or any(run.id in self._open for run in spec.after):
                continue
            if any(self._store.result(run.id) is None for run in spec.after):
                self._waiting.remove(spec)  # what it comes after has failed, or was left
                self._open.discard(spec.id)
            elif self._pool.take(spec):
                self._waiting.remove(spec)
            else:
                full.add(spec.device)

    def _look_again(self, spec: RunSpec) -> None:
        """How a run stands that another process had."""
        state = self._store.state(spec.id)
        if state in TO_DO:
            self._waiting.append(spec)
        elif state == "running":
            self._elsewhere[spec.id] = (time.monotonic(), spec)
        else:
            self._open.discard(spec.id)
            if state == "done":
                self._listener.ends(spec, "done", ELSEWHERE)

    def _hear(self, news: News) -> None:
        spec, ended, reason = news.spec, news.ended, news.reason
        if news.what == "begins":
            self._listener.begins(spec)
            return
        if news.what != "ended":
            ended, reason = self._after_loss(spec, reason, for_good=news.what == "lost for good")
        if ended == "busy":
            self._look_again(spec)
            return
        if ended == "broken":
            self._broken = self._broken or reason
            ended, reason = "stopped", self._broken
        elif ended == "stopped" and not self._stopping and not self._has_to_stop():  # somebody else told it to stop
            self._begin_again(spec)
        if ended in ("done", "failed"):
            self._open.discard(spec.id)
        self._listener.ends(spec, ended, reason)

    def _begin_again(self, spec: RunSpec) -> None:
        self._setbacks[spec.id] += 1
        times = self._setbacks[spec.id]
        if times <= self._effort.retries:
            self._waiting.append(spec)
        else:
            note = f"Note: {spec.label} was told to stop {times} times and is left. The same command resumes it."
            self._listener.notes(note)
            self._open.discard(spec.id)

    def _after_loss(self, spec: RunSpec, reason: str, *, for_good: bool) -> tuple[Ended, str]:
        """Write down that the process of a run was lost; begin the run again unless it was lost too often."""
        try:
            with self._store.working_on(spec.id):
                if self._store.result(spec.id) is not None:
                    return "done", ""
                attempts = self._store.attempts(spec.id)
                if failure_of(attempts) is not None:
                    return "busy", ""
                if self._stopping:
                    return "stopped", ""
                ended: Ended = "killed"
                times = kills_of(attempts) + 1
                if for_good or times > self._effort.retries:
                    ended = "failed"
                    reason = reason if for_good or times == 1 else f"{reason} That happened {times} times."
                number = sum("began" in row for row in attempts)
                lines = self._store.log_tail(spec.id, LAST_LINES)
                row = {"outcome": ended, "reason": reason, "last_lines": lines}
                self._store.note(spec.id, {"attempt": number, "ended": now(), **row})
        except BusyError:
            return "busy", ""
        if ended == "killed":
            self._waiting.appendleft(spec)
        return ended, reason

    def _summary(self, specs: Sequence[RunSpec]) -> Summary:
        states = {spec.id: self._store.state(spec.id) for spec in specs}
        failures = {
            run: str((failure_of(self._store.attempts(run)) or {}).get("reason", ""))
            for run, state in states.items()
            if state == "failed"
        }
        return Summary(
            states=states,
            failures=failures,
            stopped=self._signals.came,
            out_of_time=self._out_of_time,
            broken=self._broken,
        )
