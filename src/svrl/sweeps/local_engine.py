"""A sweep on one machine: a process a run, each on cores of its own, its memory watched.

Processes are forked from one that has imported everything already, so a run begins in a moment. They end with this
one, however it ends, and save before they do. Several runs on a card share a process (`svrl.sweeps.work_together`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from svrl.agents.config import family_of
from svrl.runs.stop_signals import Signals
from svrl.sweeps.driver import ELSEWHERE, LOOK_EVERY, TO_DO, Driver, LostProcess
from svrl.sweeps.engine import Effort, Listener, Summary
from svrl.sweeps.forked import LOST, Forked, fork_server
from svrl.sweeps.machine import Machine, Share, memory_of
from svrl.sweeps.outcome import BUSY, DONE, STOPPED, STORE_BROKEN, Ended
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import State
from svrl.sweeps.store import BusyError, LocalStore, Store, open_store
from svrl.sweeps.sweep_file import Resources
from svrl.sweeps.work import Terms, clear_remains, now, remains_in
from svrl.training.card import is_card

INSIDE_EVERY = 1.0
"""Seconds between two looks at which runs of a process have begun or ended."""


@dataclass(kw_only=True)
class _Job:
    """A process at work.

    Attributes:
        runs: That it works on, those first that were handed over first. On a card it takes one after another.
        open: Those of which nobody was told that they ended.
        begun: Ids of those of which somebody was told that they began.
        began: When the process did, by the monotonic clock.
        since: The same, as attempts are written. An earlier process may have had its number.
    """

    runs: tuple[RunSpec, ...]
    process: Forked
    share: Share
    open: list[RunSpec]
    since: str
    begun: set[str] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)
    looked: float = float("-inf")
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
        engine = _Engine(store, signals, resources=resources, effort=effort, listener=listener)
        if engine.sort_out(specs):
            engine.prepare()
            try:
                engine.work()
            finally:
                engine.kill()
    return engine.summary(specs)


def _add(store: Store, spec: RunSpec) -> None:
    try:
        store.add(spec)
    except FileNotFoundError:  # another sweep has added it at the same moment, and cleared up behind both
        store.add(spec)
    except OSError as error:
        error.filename = error.filename or store.address
        raise


class _Engine(Driver):
    def prepare(self) -> None:
        """Look at the machine, and import what processes of the runs need that are left."""
        specs = [*self._waiting, *(spec for _, spec in self._elsewhere.values())]
        self._jobs: list[_Job] = []
        self._machine = Machine.of(self.resources, self.effort.jobs, {spec.device for spec in specs})
        for note in self._machine.notes:
            self.listener.notes(note)
        self._context = fork_server(spec.kind for spec in specs)

    def kill(self) -> None:
        """End what is still at work; after a second Ctrl-C, or a mistake of the program."""
        for job in self._jobs:
            job.process.kill()
        for job in self._jobs:
            while not job.process.is_over():
                wait(job.process.waited_for, LOOK_EVERY)

    def _sort_in(self, spec: RunSpec, state: State) -> None:
        super()._sort_in(spec, state)
        if state == "done":
            self._clear_up(spec)

    def _clear_up(self, spec: RunSpec) -> None:
        """Remove what a process left behind that was killed when all but that was done."""
        if isinstance(self.store, LocalStore) and remains_in(self.store.folder(spec.id)):
            try:
                with self.store.working_on(spec.id) as place:
                    clear_remains(place.folder)
            except (BusyError, OSError):
                pass  # they are in nobody's way

    def _is_at_work(self) -> bool:
        return bool(self._jobs)

    def _tell_all_to_stop(self) -> None:
        for job in self._jobs:
            job.process.tell_to_stop()

    def _wait_for_ends(self) -> None:
        wait([ready for job in self._jobs for ready in job.process.waited_for], LOOK_EVERY)
        self._watch_memory()
        for job in list(self._jobs):
            if job.process.is_over():
                self._end(job)
            elif time.monotonic() - job.looked > INSIDE_EVERY:
                job.looked = time.monotonic()
                self._look_inside(job)

    def _begin(self) -> None:
        if not any(is_card(spec.device) for spec in self._left()):
            self._machine.keep_nothing_for_cards()
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
                    together=share.together,
                )
                ids, since = tuple(spec.id for spec in runs), now()
                process = Forked(self._context, self.store.address, self.store.code, ids, terms)
                self._jobs.append(_Job(runs=runs, process=process, share=share, open=list(runs), since=since))

    def _left(self) -> Iterator[RunSpec]:
        """All runs that are not over."""
        yield from self._waiting
        yield from (spec for _, spec in self._elsewhere.values())
        yield from (spec for job in self._jobs for spec in job.open)

    def _first_for(self, device: str) -> RunSpec | None:
        if not self._machine.has_room_for(device):
            return None
        for spec in [spec for spec in self._waiting if spec.device == device]:
            if self._look_again(spec) in TO_DO:
                return spec
            self._waiting.remove(spec)
        return None

    def _with_others(self, first: RunSpec, share: Share) -> tuple[RunSpec, ...]:
        """The first, and on a card others of its family, which its process takes one after another."""
        others: list[RunSpec] = []
        if share.together > 1 and first.kind == "train":
            alike = [spec for spec in self._waiting if spec is not first and _family(spec) == _family(first)]
            alike.sort(key=lambda spec: spec.subject != first.subject)
            others = alike[: self._at_once(len(alike) + 1, share) - 1]
        for spec in (first, *others):
            self._waiting.remove(spec)
        return (first, *others)

    def _at_once(self, runs: int, share: Share) -> int:
        """How many runs the process of a card is handed over: all if it is the only card.

        With several, half of its part, then half of what is left: so none is idle long while others have runs.
        """
        cards = self._machine.most
        return runs if cards == 1 else max(share.together, -(-runs // (2 * cards)))

    def _watch_memory(self) -> None:
        for job in self._jobs:
            used = memory_of(job.process.pid)
            job.peak_gb = max(job.peak_gb, used)
            most = self.resources.memory_gb
            if most is not None and used > most * min(len(job.runs), job.share.together) and not job.too_large:
                job.too_large = True
                job.process.kill()

    def _end(self, job: _Job) -> None:
        self._jobs.remove(job)
        self._machine.give_back(job.share)
        if job.process.code == STORE_BROKEN:
            self.broken = self.broken or job.process.why_broken() or f"{self.store.address} cannot be written to."
        if len(job.runs) > 1:
            try:
                self._look_inside(job)
            except OSError as error:
                self._break(error)
        for spec in job.open:
            try:
                ended, reason = self._ending(job, spec)
            except OSError as error:
                ended, reason = "stopped", self._break(error)
            if ended is not None:
                if reason != ELSEWHERE:
                    self._tell_that_it_began(job, spec)
                self.listener.ends(spec, ended, reason)
        job.process.forget()

    def _look_inside(self, job: _Job) -> None:
        """Tell of runs that have begun or ended since the last look; the process may go on with others."""
        waiting = 0
        for spec in list(job.open):
            if waiting > job.share.together and not job.process.is_over():
                return  # they are begun in their order
            attempt, row = self._attempt_of(job, spec)
            if attempt == 0:
                waiting += 1
                continue
            waiting = 0
            self._tell_that_it_began(job, spec)
            if row is not None and row["outcome"] != "stopped":
                job.open.remove(spec)
                self.listener.ends(spec, row["outcome"], str(row["reason"]))

    def _tell_that_it_began(self, job: _Job, spec: RunSpec) -> None:
        if spec.id not in job.begun:
            job.begun.add(spec.id)
            self.listener.begins(spec)

    def _ending(self, job: _Job, spec: RunSpec) -> tuple[Ended | None, str]:
        """What became of one of a job's runs; None if somebody else has it."""
        code = job.process.code
        attempt, row = self._attempt_of(job, spec)
        if self.store.result(spec.id) is not None:
            return "done", "" if attempt else ELSEWHERE
        # A process that was killed cannot have given back what it held at a store far away.
        died = code < 0 or code == LOST
        busy = code == BUSY or (not died and self.store.is_running(spec.id))
        if busy or (attempt == 0 and len(job.runs) > 1 and not self._died_with_nothing_begun(job, spec)):
            if busy:
                self._leave_to_others(spec)
            elif self._look_again(spec) in TO_DO:
                self._waiting.append(spec)
            return None, ""
        if row is not None and row["outcome"] != "stopped":
            return row["outcome"], str(row["reason"])
        if self.broken:
            return "stopped", self.broken
        if row is None and not self._is_stopping() and code not in (DONE, STOPPED):
            return self._lost(job, spec, attempt)
        # Somebody else told it to stop.
        if not self._is_stopping() and self._may_begin_again(spec, "was told to stop"):
            self._waiting.append(spec)
        return "stopped", ""

    def _died_with_nothing_begun(self, job: _Job, spec: RunSpec) -> bool:
        """Whether a run is the first of a process that died before any of its runs: or it would die for ever."""
        clean = (DONE, STOPPED, STORE_BROKEN)
        if job.begun or spec is not job.runs[0] or job.process.code in clean or self._is_stopping():
            return False
        return not self.store.is_running(spec.id)

    def _attempt_of(self, job: _Job, spec: RunSpec) -> tuple[int, dict[str, Any] | None]:
        """The number of the attempt that a process made, and the row that says how it ended, if there is one."""
        mine = {"pid": job.process.pid, "host": socket.gethostname()}
        attempts = self.store.attempts(spec.id)
        begun = [
            row["attempt"]
            for row in attempts
            if row.get("began", "") >= job.since and all(row.get(name) == value for name, value in mine.items())
        ]
        if not begun:
            return 0, None
        ended = [row for row in attempts if row.get("attempt") == begun[-1] and "outcome" in row]
        return int(begun[-1]), ended[-1] if ended else None

    def _is_stopping(self) -> bool:
        return self._told or self._has_to_stop()

    def _lost(self, job: _Job, spec: RunSpec, attempt: int) -> tuple[Ended, str]:
        """A process that could not write down how it ended."""
        code = job.process.code
        ended: Ended = "killed" if code == LOST else "failed"
        reason = f"The process ended with code {code} and did not say why; what it printed is above."
        if code == LOST:
            reason = "The process was ended, and the one that had started it too, so nobody knows why."
        seconds = time.monotonic() - job.began
        lost = LostProcess(code=code, seconds=seconds, peak_gb=job.peak_gb, too_large=job.too_large)
        return self._go_on_after(lost, spec, attempt, (ended, reason))


def _family(spec: RunSpec) -> tuple[str, str, str, str]:
    return spec.kind, family_of(spec.subject), spec.device, str(spec.full.get("precision"))
