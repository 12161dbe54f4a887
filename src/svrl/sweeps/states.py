"""What became of a run, read off its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from svrl.sweeps.store import Store

State = Literal["done", "running", "failed", "stopped", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "waiting")
PROGRESS_ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl")


def state_of(store: Store, run: str) -> State:
    """Whether a run is done, running, failed, stopped (begun, to be gone on with) or waiting."""
    if store.result(run) is not None:
        return "done"
    if store.is_running(run):
        # It may have ended between the two looks.
        return "done" if store.result(run) is not None else "running"
    if failure_of(store.attempts(run)) is not None:
        return "failed"
    return "stopped" if store.has_begun(run) else "waiting"


def failure_of(attempts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of the attempt that made a run a failed one, or None; what came before a retry does not count."""
    ended = _ended(attempts)
    return ended[-1] if ended and ended[-1]["outcome"] == "failed" else None


def kills_of(attempts: Sequence[Mapping[str, Any]]) -> int:
    """How often its process was killed, since it was last to be tried again."""
    return sum(row["outcome"] == "killed" for row in _ended(attempts))


def _ended(attempts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    since = max((place for place, row in enumerate(attempts) if "retry" in row), default=-1)
    return [row for row in attempts[since + 1 :] if "outcome" in row]


def steps_done(store: Store, run: str) -> int:
    """Agent steps of a training so far, as its rows tell."""
    last = (row for name in PROGRESS_ROWS for row in store.rows(run, name, 1))
    return max((int(row.get("steps", 0)) for row in last), default=0)
