"""A sweep on one machine: a process a run, each on cores of its own, its memory watched.

Processes are forked from one that has imported everything already, so a run begins in a moment. They end with this
one, however it ends, and save before they do. Several runs on a card share a process (`svrl.sweeps.work_together`).
"""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from typing import Any

from svrl.agents.config import family_of
from svrl.experiments.training.stop_signals import Signals
from svrl.sweeps.engine import Effort, Listener, Summary, Unheard, note_loss, summary_of
from svrl.sweeps.forked import LOST, Forked, fork_server
from svrl.sweeps.machine import Machine, Share, memory_of
from svrl.sweeps.outcome import BUSY, DONE, LAST_LINES, STOPPED, STORE_BROKEN, Ended, Outcome, killed_by, took_too_much
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import state_of
from svrl.sweeps.store import BusyError, LocalStore, Store, open_store
from svrl.sweeps.sweep_file import Resources
from svrl.sweeps.work import Terms, clear_remains, remains_in

LOOK_EVERY = 0.5
"""Seconds between two looks at memory, signals and the clock; the end of a process is noticed at once."""
AGAIN_AFTER = 2.0
"""Seconds after which a run that somebody else works on is looked at again."""


@dataclass(kw_only=True)
class _Job:
    """A process at work."""

    runs: tuple[RunSpec, ...]
    process: Forked
    share: Share
    began: float = field(default_factory=time.monotonic)
    peak_gb: float = 0.0
    too_large: bool = False


def run_locally(
    specs: Sequence[RunSpec],
    address: str,
    *,
    resources: Resources | None = None,
    effort: Effort | None = None,
    listener: Listener | None = None,
    signals: Signals | None = None,
) -> Summary:
    """Work on all runs that are neither done nor failed, and return when nothing is left or a signal came.

    Call it below `if __name__ == "__main__":`, as everything that starts processes.

    Args:
        specs: The runs.
        address: Of the store.
        resources: What one run takes.
        effort: How they are worked on.
        listener: Is told how it goes.
        signals: Those that somebody holds back already; by default they are held back here.

    Raises:
        OSError: If the store cannot be written to before anything has begun.
        KeyboardInterrupt: At a second Ctrl-C; processes are killed, and go on from their last checkpoints.
    """
    store = open_store(address)
    for spec in specs:
        _add(store, spec)
    with ExitStack() as held:
        signals = signals or held.enter_context(Signals().held_back())
        engine = _Engine(store, resources or Resources(), effort or Effort(), listener or Unheard(), signals)
        try:
            engine.work(specs)
        finally:
            engine.kill()
    return summary_of(
        store,
        specs,
        stopped=signals.came,
        out_of_time=engine.out_of_time,
        broken=engine.broken,
    )


def _add(store: Store, spec: RunSpec) -> None:
    try:
        store.add(spec)
    except FileNotFoundError:  # another sweep has added it at the same moment, and cleared up behind both
        store.add(spec)
    except OSError as error:
        error.filename = error.filename or store.address
        raise


class _Engine:
    def __init__(
        self, store: Store, resources: Resources, effort: Effort, listener: Listener, signals: Signals
    ) -> None:
        self.store, self.effort, self.listener, self.signals = store, effort, listener, signals
        self.resources = resources
        self.out_of_time, self.broken = False, ""
        self._machine: Machine | None = None
        self._waiting: deque[RunSpec] = deque()
        self._elsewhere: dict[str, tuple[float, RunSpec]] = {}
        self._jobs: list[_Job] = []
        self._told = False
        self._stops: Counter[str] = Counter()
        self._deadline = None if effort.hours is None else time.monotonic() + 3600 * effort.hours

    def work(self, specs: Sequence[RunSpec]) -> None:
        """Until nothing is left, or until it has to stop."""
        for spec in specs:
            state = state_of(self.store, spec.id)
            if state == "running":
                self._elsewhere[spec.id] = (time.monotonic(), spec)
            elif state in ("waiting", "stopped"):
                self._waiting.append(spec)
            elif state == "done":
                self._clear_up(spec)
        if not self._waiting and not self._elsewhere:
            return
        self._machine = Machine.of(self.resources, self.effort.jobs, {spec.device for spec in specs})
        for note in self._machine.notes:
            self.listener.notes(note)
        context = fork_server(spec.kind for spec in specs)
        while self._waiting or self._jobs or self._elsewhere:
            if self._has_to_stop():
                self._tell_to_stop()
                if not self._jobs:
                    return
            else:
                self._take_back_from_elsewhere()
                self._begin(context)
            wait([ready for job in self._jobs for ready in job.process.waited_for], LOOK_EVERY)
            self._watch_memory()
            for job in [job for job in self._jobs if job.process.is_over()]:
                self._end(job)
            self.listener.looks()

    def kill(self) -> None:
        """End what is still at work; after a second Ctrl-C, or a mistake of the program."""
        for job in self._jobs:
            job.process.kill()
        for job in self._jobs:
            while not job.process.is_over():
                wait(job.process.waited_for, LOOK_EVERY)

    def _clear_up(self, spec: RunSpec) -> None:
        """Remove what a process left behind that was killed when all but that was done."""
        if isinstance(self.store, LocalStore) and remains_in(self.store.folder(spec.id)):
            try:
                with self.store.working_on(spec.id) as place:
                    clear_remains(place.folder)
            except (BusyError, OSError):
                pass  # they are in nobody's way

    def _has_to_stop(self) -> bool:
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.out_of_time = True
        return self.signals.came is not None or self.out_of_time or bool(self.broken)

    def _tell_to_stop(self) -> None:
        if not self._told:
            self._told = True
            for job in self._jobs:
                job.process.tell_to_stop()

    def _take_back_from_elsewhere(self) -> None:
        now = time.monotonic()
        for run, (since, spec) in list(self._elsewhere.items()):
            if now - since >= AGAIN_AFTER:
                del self._elsewhere[run]
                if self._is_to_do(spec):
                    self._waiting.append(spec)

    def _is_to_do(self, spec: RunSpec) -> bool:
        """Whether a run is still to be worked on, now that some time has passed; others may have begun or done it."""
        state = state_of(self.store, spec.id)
        if state == "running":
            self._elsewhere[spec.id] = (time.monotonic(), spec)
        elif state == "done":
            self.listener.ends(spec, "done", "")
        return state in ("waiting", "stopped")

    def _begin(self, context: ForkServerContext) -> None:
        assert self._machine is not None
        for device in dict.fromkeys(spec.device for spec in self._waiting):
            while (first := self._first_for(device)) is not None:
                share = self._machine.take(device)
                if share is None:
                    break
                runs = self._with_others(first, share)
                terms = Terms(
                    cores=share.cores,
                    threads=self._machine.cores_a_run,
                    checkpoint_every=self.effort.checkpoint_every,
                    card=share.card,
                )
                ids = tuple(spec.id for spec in runs)
                process = Forked(context, self.store.address, self.store.code, ids, terms)
                self._jobs.append(_Job(runs=runs, process=process, share=share))
                for spec in runs:
                    self.listener.begins(spec)

    def _first_for(self, device: str) -> RunSpec | None:
        assert self._machine is not None
        if not self._machine.has_room_for(device):
            return None
        for spec in [spec for spec in self._waiting if spec.device == device]:
            if self._is_to_do(spec):
                return spec
            self._waiting.remove(spec)
        return None

    def _with_others(self, first: RunSpec, share: Share) -> tuple[RunSpec, ...]:
        """The first, and on a card others of its family that can share a process with it; they wait no longer."""
        others: list[RunSpec] = []
        if share.together > 1 and first.kind == "train":
            alike = [spec for spec in self._waiting if spec is not first and _family(spec) == _family(first)]
            alike.sort(key=lambda spec: spec.subject != first.subject)
            others = alike[: share.together - 1]
        for spec in (first, *others):
            self._waiting.remove(spec)
        return (first, *others)

    def _watch_memory(self) -> None:
        for job in self._jobs:
            used = memory_of(job.process.pid)
            job.peak_gb = max(job.peak_gb, used)
            most = self.resources.memory_gb
            if most is not None and used > most * len(job.runs) and not job.too_large:
                job.too_large = True
                job.process.kill()

    def _end(self, job: _Job) -> None:
        assert self._machine is not None
        self._jobs.remove(job)
        self._machine.give_back(job.share)
        for spec in job.runs:
            try:
                ended, reason = self._ending(job, spec)
            except OSError as error:
                self.broken = self.broken or f"{error.filename or self.store.address}: {error.strerror or error}."
                ended, reason = "stopped", self.broken
            if ended is not None:
                self.listener.ends(spec, ended, reason)
        job.process.forget()

    def _ending(self, job: _Job, spec: RunSpec) -> tuple[Ended | None, str]:
        """What became of one of a job's runs; None if somebody else has it."""
        code = job.process.code
        if code == STORE_BROKEN:
            self.broken = self.broken or job.process.why_broken() or f"{self.store.address} cannot be written to."
        if self.store.result(spec.id) is not None:
            return "done", ""
        attempt, row = _attempt_of(job.process.pid, self.store.attempts(spec.id))
        # A process that was killed cannot have given back what it held at a store far away.
        died = code < 0 or code == LOST
        not_ours = attempt == 0 and len(job.runs) > 1
        if code == BUSY or not_ours or (not died and self.store.is_running(spec.id)):
            self._elsewhere[spec.id] = (time.monotonic(), spec)
            return None, ""
        if row is not None and row["outcome"] != "stopped":
            return row["outcome"], str(row["reason"])
        if self.broken:
            return "stopped", self.broken
        if row is None and not self._is_stopping() and code not in (DONE, STOPPED):
            return self._lost(job, spec, attempt)
        self._go_on_unless_stopping(spec)
        return "stopped", ""

    def _is_stopping(self) -> bool:
        return self._told or self._has_to_stop()

    def _go_on_unless_stopping(self, spec: RunSpec) -> None:
        """Somebody else told a run to stop; it is begun again, but not for ever."""
        if self._is_stopping():
            return
        self._stops[spec.id] += 1
        if self._stops[spec.id] <= self.effort.retries:
            self._waiting.append(spec)
        else:
            self.listener.notes(
                f"Note: {spec.label} was told to stop {self._stops[spec.id]} times and is left. "
                "The same command goes on with it."
            )

    def _lost(self, job: _Job, spec: RunSpec, attempt: int) -> tuple[Ended, str]:
        """A process that could not write down how it ended."""
        code, lines = job.process.code, tuple(self.store.log_tail(spec.id, LAST_LINES))
        if job.too_large:
            reason = took_too_much(job.peak_gb, self.resources.memory_gb)
            outcome = Outcome(ended="failed", reason=reason, last_lines=lines)
        elif code == LOST:
            reason = "The process was ended, and the one that had started it too, so nobody knows why."
            outcome = Outcome(ended="killed", reason=reason, last_lines=lines)
        elif code < 0:
            outcome = Outcome(ended="killed", reason=killed_by(-code, job.peak_gb), last_lines=lines)
        else:
            reason = f"The process ended with code {code} before the run began; what it said is above."
            outcome = Outcome(ended="failed", reason=reason, last_lines=lines)
        outcome = note_loss(
            self.store,
            spec.id,
            attempt,
            outcome,
            seconds=time.monotonic() - job.began,
            peak_gb=job.peak_gb,
            retries=self.effort.retries,
        )
        if outcome.ended == "killed":
            self._waiting.appendleft(spec)
        return outcome.ended, outcome.reason


def _attempt_of(process: int, attempts: Sequence[dict[str, Any]]) -> tuple[int, dict[str, Any] | None]:
    """The number of the attempt that a process here made, and the row that says how it ended, if there is one."""
    here = socket.gethostname()
    begun = [row["attempt"] for row in attempts if row.get("pid") == process and row.get("host") == here]
    if not begun:
        return 0, None
    ended = [row for row in attempts if row.get("attempt") == begun[-1] and "outcome" in row]
    return int(begun[-1]), ended[-1] if ended else None


def _family(spec: RunSpec) -> tuple[str, str, str, str]:
    return spec.kind, family_of(spec.subject), spec.device, str(spec.full.get("precision"))
