"""What a process does for runs that share a card: so many beside each other, and the next when one is over.

Each becomes what it would have become alone, see `svrl.training.population`, and goes on alone if need be.
A run is held from its own beginning to its own end. Those that wait can be begun by somebody else.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from svrl.agents.config import AgentConfig
from svrl.runs.cores import usable_cores
from svrl.runs.run_directory import CONFIG, RESULT, read_config
from svrl.runs.stop_signals import Signals
from svrl.sweeps.child import end_with, leave_the_terminal, see_only, stay_on, told_once
from svrl.sweeps.lease import LostLeaseError
from svrl.sweeps.outcome import BUSY, STOPPED, STORE_BROKEN, Outcome, outcome_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import failure_of
from svrl.sweeps.store import LOG, RUN, BusyError, Store, Workplace, open_store, read_spec
from svrl.sweeps.work import (
    Terms,
    beginning,
    clear_remains,
    ending,
    next_attempt,
    on_stderr,
    saved_now_and_then,
)
from svrl.training.population import Manner, Member, RunOutcome, train_queue
from svrl.training.session import Habits


def work_on_several(
    address: str, code: str, runs: Sequence[str], terms: Terms, tell: Callable[[str], None] = on_stderr
) -> int:
    """Train runs, so many at a time, until all are done or fail, or until SIGTERM says stop.

    Args:
        address: Of the store.
        code: The code version.
        runs: Their ids, in the order in which they are begun. Who is busy, done, or was begun with another number of
            threads is left out.
        terms: What they may take.
        tell: Is told in one sentence why the store cannot be written to.

    Returns:
        The exit code that fits the worst of them; what became of each is in its attempts.
    """
    leave_the_terminal()
    try:
        with told_once() as told:
            end_with(terms.parent)
            stay_on(terms.cores)
            see_only(terms.card)
            with Signals().held_back() as signals:
                if told.came():
                    signals.came = signal.SIGTERM
                queue = _Queue(open_store(address, code), runs, terms, signals)
                queue.train()
            if queue.broken:
                tell(queue.broken)
            return max(queue.codes, default=BUSY if signals.came is None else STOPPED)
    except KeyboardInterrupt:
        return Outcome(ended="stopped").exit_code
    except OSError as error:
        tell(f"{error.filename or address}: {error.strerror or error}.")
        return STORE_BROKEN


@dataclass(frozen=True)
class _Held:
    """A run that this process works on.

    Attributes:
        run: Its id.
        place: Where it is.
        attempt: The number of this one.
        began: When, by the monotonic clock.
        until_the_end: Lets go of it.
    """

    run: str
    place: Workplace
    attempt: int
    began: float
    until_the_end: ExitStack


class _Queue:
    """Hands out runs that nobody else holds.

    Attributes:
        codes: Exit codes of those that are over.
        broken: Why the store cannot be written to; empty if it can.
    """

    def __init__(self, store: Store, runs: Sequence[str], terms: Terms, signals: Signals) -> None:
        self.codes: list[int] = []
        self.broken = ""
        self._store, self._terms, self._signals = store, terms, signals
        self._together = min(terms.together, len(runs))
        self._waiting = deque(runs)
        self._begun: deque[Member] = deque()
        self._held: dict[Path, _Held] = {}
        self._threads: int | None = None
        self._one_at_a_time = threading.Lock()

    def train(self) -> None:
        """Until nothing is left."""
        first = self.next()
        if first is None:
            return
        self._begun.append(first)  # it was only asked for to know the threads that all share
        manner = Manner(
            habits=Habits(checkpoint_every=self._terms.checkpoint_every),
            env_threads=max(1, (len(self._terms.cores) or usable_cores()) // self._together),
            say_of=lambda member: _to(member.folder.parent / LOG),
        )
        try:
            train_queue(self, together=self._together, threads=first.threads, manner=manner, signals=self._signals)
        finally:
            for member in self._begun:  # a signal came before it was asked for
                self.ended(member, None)

    def next(self) -> Member | None:
        """Hold and begin the next run; None if there is none, or if it is time to stop."""
        with self._one_at_a_time:
            if self._begun:
                return self._begun.popleft()
            while self._waiting and self._signals.came is None:
                try:
                    member = self._begin(self._waiting.popleft())
                except OSError as error:
                    self._break(_said(error, self._store))
                    return None
                if member is not None:
                    return member
        return None

    def ended(self, member: Member, outcome: RunOutcome) -> None:
        """Write down what became of a run, and let go of it."""
        self._end(self._held.pop(member.folder), outcome if isinstance(outcome, Exception) else None)

    def _begin(self, run: str) -> Member | None:
        """None if a run is done or somebody else's, cannot share torch's threads with the first, or fails at once."""
        with ExitStack() as holding:
            try:
                place = holding.enter_context(self._store.working_on(run))
            except (BusyError, LostLeaseError):
                return None
            attempts = self._store.attempts(run)
            if (place.folder / RUN / RESULT).exists() or failure_of(attempts) is not None:
                return None  # somebody else has done it while it waited here
            threads = _threads(place.folder / RUN, self._terms)
            if self._threads not in (None, threads):
                return None
            attempt = next_attempt(attempts)
            self._store.note(run, beginning(attempt))
            clear_remains(place.folder)
            holding.enter_context(saved_now_and_then(place))
            held = _Held(run, place, attempt, began=time.monotonic(), until_the_end=holding.pop_all())
        try:
            member = _member(read_spec(place.folder), place.folder / RUN, threads, self._terms)
        except ValueError as error:
            self._end(held, error)
            return None
        self._threads = threads
        self._held[member.folder] = held
        return member

    def _end(self, held: _Held, failure: Exception | None) -> None:
        try:
            with held.until_the_end:
                outcome = _outcome(held.place.folder, failure)
                held.place.save()
                self._store.note(held.run, ending(held.attempt, outcome, time.monotonic() - held.began))
        except LostLeaseError:  # somebody else has it now, and goes on from what was saved before
            self.codes.append(STOPPED)
            return
        except OSError as error:
            self._break(_said(error, self._store))
            return
        self.codes.append(outcome.exit_code)
        if outcome.store_broken:
            self._break(outcome.reason)

    def _break(self, reason: str) -> None:
        """No run can go on: the others are told to stop."""
        self.broken = self.broken or reason
        self.codes.append(STORE_BROKEN)
        if self._signals.came is None:
            self._signals.came = signal.SIGTERM


def _said(error: OSError, store: Store) -> str:
    return f"{error.filename or store.address}: {error.strerror or error}."


def _threads(folder: Path, terms: Terms) -> int:
    """CPU threads of a run; one that goes on keeps its own. If its files are damaged, it will say so itself."""
    with suppress(ValueError):
        if (folder / CONFIG).exists():
            return int(read_config(folder).get("threads", terms.threads))
    return terms.threads


def _member(spec: RunSpec, folder: Path, threads: int, terms: Terms) -> Member:
    fields = {name: value for name, value in spec.full.items() if name not in ("env", "seed", "device", "precision")}
    return Member(
        env=spec.subject,
        config=AgentConfig.from_json(
            {"preset": spec.settings.get("preset", AgentConfig.for_env(spec.subject).preset), **fields}
        ),
        folder=folder,
        seed=spec.seed,
        device="cuda" if terms.card is not None else spec.device,
        precision=spec.full["precision"],
        threads=threads,
        resume=(folder / CONFIG).exists(),
    )


def _outcome(folder: Path, failure: Exception | None) -> Outcome:
    if failure is None:
        return Outcome(ended="done" if (folder / RUN / RESULT).exists() else "stopped")
    lines = [*traceback.format_exception(failure)]
    if isinstance(failure, ValueError | OSError):
        lines.append(f"Error: {failure}")
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(text)
    return outcome_of(1, False, text.splitlines())


def _to(path: Path) -> Callable[[str], None]:
    def say(sentence: str) -> None:
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{sentence}\n")

    return say
