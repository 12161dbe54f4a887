"""How fast runs go, and when they will be done.

steps/s of a run that has been looked at for a while is the difference of two looks, at most a minute apart, over the
time between them. Rows come in bursts, so that two looks a second apart would say little. At the first look it is the
steps so far over the time that all attempts have taken; None if one of those was lost, since nobody knows when.

A run needs its steps left over its steps/s. The sweep needs all steps left over the steps/s of all running runs; where
runs do not say their steps, as plans do not, the mean seconds of the finished ones for every run left, as many at a
time as are running now. Both assume that what runs now goes on to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

Mark = tuple[float, int]
"""When a run was looked at (seconds since 1970), and its steps then."""
WINDOW = 60.0
"""Seconds that a measured speed looks back at most."""


def marks_after(marks: Sequence[Mark], now: float, steps: int) -> tuple[Mark, ...]:
    """The looks to measure by, with the newest; a run that went back to a checkpoint begins anew."""
    kept = [mark for mark in marks if mark[0] < now and mark[1] <= steps]
    kept = [] if len(kept) < len(marks) else kept
    while len(kept) > 1 and kept[1][0] <= now - WINDOW:
        kept.pop(0)
    return (*kept, (now, steps))


def measured(marks: Sequence[Mark], otherwise: float | None) -> float | None:
    """steps/s between the first and the last look.

    Args:
        marks: Looks, the oldest first.
        otherwise: What was known before, for as long as the looks are too close to show progress.
    """
    if len(marks) < 2:
        return otherwise
    (began, first), (now, last) = marks[0], marks[-1]
    if last == first and now - began < WINDOW:
        return otherwise
    return (last - first) / (now - began)


def since_begun(attempts: Sequence[Mapping[str, Any]], now: float, steps: int) -> float | None:
    """steps/s over all attempts up to now; None if their time is not known."""
    seconds = _seconds_at_work(attempts, now)
    return None if seconds is None or seconds <= 0.0 or steps <= 0 else steps / seconds


def seconds_taken(attempts: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds of all attempts that ended; None if none has said so."""
    found = [float(row["seconds"]) for row in attempts if isinstance(row.get("seconds"), int | float)]
    return sum(found) if found else None


def seconds_left(steps: int, steps_in_all: int | None, steps_per_second: float | None) -> float | None:
    """Until a run has done its steps; None if that is not known, or never."""
    if steps_in_all is None or not steps_per_second:
        return None
    return max(0, steps_in_all - steps) / steps_per_second


def seconds_left_by_runs(taken: Sequence[float], running: int, left: int) -> float | None:
    """Until all runs are done, from the seconds that finished ones took.

    Args:
        taken: Seconds of each finished run.
        running: Runs at work now.
        left: Runs to be done, with those.
    """
    if not taken or running == 0:
        return None
    # Those that run are half done, on the average.
    return sum(taken) / len(taken) * max(left - 0.5 * running, 0.5 * running) / running


def _seconds_at_work(attempts: Sequence[Mapping[str, Any]], now: float) -> float | None:
    ended = {row.get("attempt"): row.get("seconds") for row in attempts if "outcome" in row}
    begun = [row for row in attempts if "began" in row]
    if not begun:
        return None
    earlier = [ended.get(row.get("attempt")) for row in begun[:-1]]
    began = _moment(begun[-1]["began"])
    if began is None or not all(isinstance(seconds, int | float) for seconds in earlier):
        return None
    return now - began + sum(float(seconds or 0.0) for seconds in earlier)


def _moment(value: Any) -> float | None:
    """Seconds since 1970, of a time as attempts.jsonl has it."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return None
