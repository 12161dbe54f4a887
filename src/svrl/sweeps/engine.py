"""What engines have in common: what they are told, whom they tell, what they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from svrl.sweeps.outcome import Ended
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import State, failure_of, state_of
from svrl.sweeps.store import Store

RETRIES = 2
"""Times that a run is begun again whose process was killed: by the system for its memory, or with its machine."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How a sweep is worked on; nothing here changes what is learned.

    Attributes:
        jobs: Processes at a time on one machine; None takes as many as cores, cards and memory allow.
        checkpoint_every: Seconds between two checkpoints of a training: what a killed process costs at most.
        retries: Times that a run whose process was killed is begun again.
        hours: After which no run is begun and those that run are saved; None is no limit.
    """

    jobs: int | None = None
    checkpoint_every: float = 60.0
    retries: int = RETRIES
    hours: float | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {self.jobs}.")
        if self.hours is not None and not self.hours > 0:
            raise ValueError(f"hours must be more than 0, got {self.hours:g}.")
        if not self.checkpoint_every > 0:
            raise ValueError(f"checkpoint_every must be more than 0 seconds, got {self.checkpoint_every:g}.")


class Listener(Protocol):
    """Somebody who is told how a sweep goes."""

    def begins(self, spec: RunSpec) -> None:
        """A process works on a run now."""
        ...

    def ends(self, spec: RunSpec, ended: Ended, reason: str) -> None:
        """It no longer does."""
        ...

    def looks(self) -> None:
        """Some time has passed: at least a few times in ten seconds, more often if much happens."""
        ...

    def notes(self, sentence: str) -> None:
        """Something that a person should know."""
        ...


class Unheard:
    """The listener that nobody is."""

    def begins(self, spec: RunSpec) -> None:
        """Nothing."""

    def ends(self, spec: RunSpec, ended: Ended, reason: str) -> None:
        """Nothing."""

    def looks(self) -> None:
        """Nothing."""

    def notes(self, sentence: str) -> None:
        """Nothing."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What an engine leaves behind.

    Attributes:
        states: Of every run, by id.
        failures: Why, by id, of those that failed.
        stopped: The number of the signal that stopped it; None if it came to its end.
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


def summary_of(
    store: Store,
    specs: Sequence[RunSpec],
    *,
    stopped: int | None = None,
    out_of_time: bool = False,
    broken: str = "",
) -> Summary:
    """How the runs stand now, as their store says."""
    states = {spec.id: state_of(store, spec.id) for spec in specs}
    failures = {}
    for run, state in states.items():
        if state == "failed":
            row = failure_of(store.attempts(run))
            failures[run] = str(row["reason"]) if row else ""
    return Summary(states=states, failures=failures, stopped=stopped, out_of_time=out_of_time, broken=broken)
