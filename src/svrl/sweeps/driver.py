"""What engines do alike: which runs are left, who has them, when to stop, and what is written about a lost one.

An engine adds how runs are begun, how their ends are noticed, and how they are told to stop.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from svrl.runs.stop_signals import Signals
from svrl.sweeps.engine import Effort, Listener, Summary, Unheard, summary_of
from svrl.sweeps.outcome import LAST_LINES, Ended, Outcome, killed_by, took_too_much
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import State, kills_of, state_of
from svrl.sweeps.store import Store
from svrl.sweeps.sweep_file import Resources
from svrl.sweeps.work import ending

LOOK_EVERY = 0.5
"""Seconds between two looks at signals, the clock and what is at work; the end of a run is noticed at once."""
AGAIN_AFTER = 2.0
"""Seconds after which a run that somebody else works on is looked at again."""
ELSEWHERE = "by another command"
"""The reason why a run is done that was not begun here."""
TO_DO: tuple[State, ...] = ("waiting", "stopped")
"""States of runs that can be begun, or gone on with."""


@dataclass(frozen=True, kw_only=True)
class LostProcess:
    """One that ended and could not write down how.

    Attributes:
        code: Its exit code, minus the number of the signal that ended it.
        seconds: That it worked.
        peak_gb: Most memory that it was seen with, in 10^9 bytes.
        too_large: It was ended for its memory.
    """

    code: int
    seconds: float
    peak_gb: float
    too_large: bool


class Driver(ABC):
    """Who has which run: `_waiting` nobody, `_elsewhere` a process that the engine does not know (any more).

    Args:
        store: Of the runs.
        signals: That it stops at; held back already.
        resources: What one run takes.
        effort: How they are worked on; its hours begin now.
        listener: Is told how it goes.

    Attributes:
        out_of_time: The hours are over.
        broken: Why no run can go on, as when the store cannot be written to; empty if they can.
    """

    def __init__(
        self,
        store: Store,
        signals: Signals,
        *,
        resources: Resources | None = None,
        effort: Effort | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.store, self.signals = store, signals
        self.resources, self.effort = resources or Resources(), effort or Effort()
        self.listener: Listener = listener or Unheard()
        self.out_of_time, self.broken = False, ""
        self._waiting: deque[RunSpec] = deque()
        self._elsewhere: dict[str, tuple[float, RunSpec]] = {}
        self._setbacks: Counter[str] = Counter()
        self._told = False
        hours = self.effort.hours
        self._deadline = None if hours is None else time.monotonic() + 3600 * hours

    def sort_out(self, specs: Sequence[RunSpec]) -> bool:
        """Which runs are left; whether there are any."""
        for spec in specs:
            self._sort_in(spec, state_of(self.store, spec.id))
        return bool(self._waiting or self._elsewhere)

    def work(self) -> None:
        """Until nothing is left, or until it has to stop."""
        while self._waiting or self._elsewhere or self._is_at_work():
            if self._has_to_stop():
                if not self._told:
                    self._told = True
                    self._tell_all_to_stop()
                if not self._is_at_work():
                    return
            try:
                if not self._told:
                    self._take_back_from_elsewhere()
                    self._begin()
                self._wait_for_ends()
            except OSError as error:  # what is at work is told to stop, and saves where it can
                self._break(error)
            self.listener.looks()

    def summary(self, specs: Sequence[RunSpec]) -> Summary:
        """How the runs stand, and why it stopped."""
        return summary_of(
            self.store, specs, stopped=self.signals.came, out_of_time=self.out_of_time, broken=self.broken
        )

    @abstractmethod
    def _is_at_work(self) -> bool:
        """Whether something was begun that has not ended."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin runs that wait, as many as there is room for."""

    @abstractmethod
    def _wait_for_ends(self) -> None:
        """Wait until something ends, LOOK_EVERY at most, and find out what became of it."""

    @abstractmethod
    def _tell_all_to_stop(self) -> None:
        """Tell what is at work to save and end; once."""

    def _sort_in(self, spec: RunSpec, state: State) -> None:
        if state == "running":
            self._leave_to_others(spec)
        elif state in TO_DO:
            self._waiting.append(spec)

    def _has_to_stop(self) -> bool:
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.out_of_time = True
        return self.signals.came is not None or self.out_of_time or bool(self.broken)

    def _break(self, error: OSError) -> str:
        """The store cannot be read or written to; why."""
        self.broken = self.broken or f"{error.filename or self.store.address}: {error.strerror or error}."
        return self.broken

    def _leave_to_others(self, spec: RunSpec) -> None:
        """Somebody else has a run; it is looked at again after a while."""
        self._elsewhere[spec.id] = (time.monotonic(), spec)

    def _take_back_from_elsewhere(self) -> None:
        now = time.monotonic()
        for run, (since, spec) in list(self._elsewhere.items()):
            if now - since >= AGAIN_AFTER:
                del self._elsewhere[run]
                self._take_back(spec, self._look_again(spec))

    def _take_back(self, spec: RunSpec, state: State) -> None:
        if state in TO_DO:
            self._waiting.append(spec)

    def _look_again(self, spec: RunSpec) -> State:
        """How a run stands, now that some time has passed; others may have begun or done it."""
        state = state_of(self.store, spec.id)
        if state == "running":
            self._leave_to_others(spec)
        elif state == "done":
            self.listener.ends(spec, "done", self._who_did(spec))
        return state

    def _who_did(self, spec: RunSpec) -> str:
        """What is said of a run that was done while nobody here waited for it."""
        return ELSEWHERE

    def _may_begin_again(self, spec: RunSpec, setback: str) -> bool:
        """Whether a run is begun again after something that was not its fault; not for ever.

        Args:
            spec: The run.
            setback: What happened, as in "was told to stop".
        """
        self._setbacks[spec.id] += 1
        times = self._setbacks[spec.id]
        if times <= self.effort.retries:
            return True
        self.listener.notes(
            f"Note: {spec.label} {setback} {times} times and is left. The same command goes on with it."
        )
        return False

    def _go_on_after(
        self, lost: LostProcess, spec: RunSpec, attempt: int, otherwise: tuple[Ended, str]
    ) -> tuple[Ended, str]:
        """Write down how a process was lost; a run that was killed, and may be begun again, is the next one.

        Args:
            lost: The process.
            spec: The run.
            attempt: The number of its attempt.
            otherwise: How it ended and why, if neither its memory nor a signal ended it.
        """
        ended, reason = otherwise
        if lost.too_large:
            ended, reason = "failed", took_too_much(lost.peak_gb, self.resources.memory_gb)
        elif lost.code < 0:
            ended, reason = "killed", killed_by(-lost.code, lost.peak_gb)
        ended, reason = self._write_down(spec, attempt, ended, reason, seconds=lost.seconds, peak_gb=lost.peak_gb)
        if ended == "killed":
            self._waiting.appendleft(spec)
        return ended, reason

    def _write_down(
        self, spec: RunSpec, attempt: int, ended: Ended, reason: str, *, seconds: float, peak_gb: float
    ) -> tuple[Ended, str]:
        """Write down how a process ended that could not do so itself.

        Returns:
            How it ended and why; failed in place of killed if the run was killed more often than it may be.
        """
        times = kills_of(self.store.attempts(spec.id)) + 1
        if ended == "killed" and times > self.effort.retries:
            ended, reason = "failed", f"{reason} That happened {_times(times)}."
        lines = tuple(self.store.log_tail(spec.id, LAST_LINES))
        outcome = Outcome(ended=ended, reason=reason, last_lines=lines)
        self.store.note(spec.id, ending(attempt, outcome, seconds, peak_gb))
        return ended, reason


def _times(number: int) -> str:
    return "once, and it may not be begun again" if number == 1 else f"{number} times"
