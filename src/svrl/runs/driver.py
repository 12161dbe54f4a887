"""The driver of a list of runs: which are left, which process has each, when to stop. A pool says where they run.

A run that another process holds is left alone and looked at again later, so several drivers share one store. What was
lost with a worker process is looked up in the store first, and then begun again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from svrl.runs.spec import Effort, RunSpec, with_forerunners
from svrl.runs.store import TO_DO, BusyError, State, Store, failure_of, kills_of
from svrl.runs.work import LAST_LINES, Ended, now, sentence_of, tidy
from svrl.runtime.stop_signals import Signals

LOOK_EVERY = 0.5
"""Seconds between two looks at signals and at the clock; the end of a run is noticed at once."""
AGAIN_AFTER = 2.0
"""Seconds after which a run that another process holds is looked at again."""
ELSEWHERE = "by another command"
"""The reason why a run is done that was not begun here."""


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
    """What a pool has to tell about a run.

    Attributes:
        spec: The run.
        ended: How it has ended, "killed" if its process is lost; None if it begins.
        reason: Why.
        for_good: It was lost so often that it is not begun again.
    """

    spec: RunSpec
    ended: Ended | None = None
    reason: str = ""
    for_good: bool = False


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
    def news(self, seconds: float) -> Iterable[News]:
        """What has happened; wait so long for it."""

    def stop(self) -> None:  # noqa: B027
        """Ask all runs to save and end; called once."""

    def close(self) -> None:  # noqa: B027
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
        self._stops: Counter[str] = Counter()
        self._open: set[str] = set()
        self._stopping = self._out_of_time = False
        self._broken = ""
        self._deadline = None if effort.hours is None else time.monotonic() + 3600 * effort.hours

    def run(self, asked: Sequence[RunSpec]) -> Summary:
        """Work until nothing is left, or until it has to stop.

        Raises:
            OSError: If the store cannot be written to before anything has begun.
        """
        specs = with_forerunners(asked)
        for spec in specs:
            self._store.add(spec)
        for spec in specs:
            if self._look(spec) == "done":
                tidy(self._store, spec.id)
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

    def _look(self, spec: RunSpec) -> State:
        """See how a run stands that this driver does not work on, and what that leaves to do."""
        state = self._store.state(spec.id)
        if state in TO_DO:
            self._waiting.append(spec)
        elif state == "running":
            self._elsewhere[spec.id] = (time.monotonic(), spec)
        if state in ("done", "failed"):
            self._open.discard(spec.id)
        else:
            self._open.add(spec.id)
        return state

    def _look_again(self, spec: RunSpec) -> None:
        """The same of a run that another process had."""
        if self._look(spec) == "done":
            self._listener.ends(spec, "done", ELSEWHERE)

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

    def _hear(self, news: News) -> None:
        spec, ended, reason = news.spec, news.ended, news.reason
        if ended is None:
            self._listener.begins(spec)
            return
        if ended == "killed":
            ended, reason = self._after_loss(spec, reason, for_good=news.for_good)
        if ended == "busy":
            self._look_again(spec)
            return
        if ended == "broken":
            self._broken = self._broken or reason
            ended, reason = "stopped", self._broken
        elif ended == "stopped" and not self._stopping and not self._has_to_stop():
            reason = self._after_stop(spec)
        if ended in ("done", "failed"):
            self._open.discard(spec.id)
        self._listener.ends(spec, ended, reason)

    def _after_stop(self, spec: RunSpec) -> str:
        """Begin a run again whose process was stopped from outside, but not for ever; what became of it."""
        self._stops[spec.id] += 1
        if self._stops[spec.id] <= self._effort.retries:
            self._waiting.append(spec)
            return ""
        self._open.discard(spec.id)
        return f"It was stopped from outside {self._stops[spec.id]} times and is left. The same command resumes it."

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
