"""How claims on planning are judged: a mean over seeds with its interval against a limit, or near a printed number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from svrl.experiments.paper.claim import Finding, Verdict
from svrl.reporting.intervals import mean_interval

NEAR = 0.25
"""A number counts as the printed one if it is within this share of it."""
LOSS = 0.01
"""A policy counts as nearly optimal if it loses less than this share of the range of V*."""
METRIC = 1.1
"""A metric counts as the optimum's if it is at most so many times as large."""
SAME_ENDS = 0.9
"""Trajectories count as the same if at least this share of starts ends where the optimum's do."""

Show = Callable[[float], str]


def percent(value: float) -> str:
    """A share as people read it: 0.32%."""
    return f"{100 * value:.2f}%" if abs(value) < 0.1 else f"{100 * value:.0f}%"


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def with_interval(values: Sequence[float], show: Show = number) -> str:
    """The mean, and its interval if there are several values: "2.01 (1.49 to 2.53)"."""
    mean = show(float(np.mean(values)))
    if len(values) < 2:
        return mean
    low, high = mean_interval(values)
    return f"{mean} ({show(low)} to {show(high)})"


def judged_below(values: Sequence[float], limit: float, *, show: Show = number, note: str = "") -> Finding:
    """Reproduced if the upper end of the interval over seeds is at most the limit."""
    low, high = mean_interval(values)
    verdict = Verdict.REPRODUCED if high <= limit else Verdict.NOT_REPRODUCED
    return _finding(verdict, values, (low, high), show, _with_doubt(note, values, limit, low, high))


def judged_above(values: Sequence[float], limit: float, *, show: Show = number, note: str = "") -> Finding:
    """Reproduced if the lower end of the interval over seeds is at least the limit."""
    low, high = mean_interval(values)
    verdict = Verdict.REPRODUCED if low >= limit else Verdict.NOT_REPRODUCED
    return _finding(verdict, values, (low, high), show, _with_doubt(note, values, limit, low, high))


def judged_near(
    values: Sequence[float], printed: float, *, note: str, otherwise: bool, show: Show = number, near: float = NEAR
) -> Finding:
    """Whether the mean over seeds is within a share of the printed number.

    Args:
        values: One a seed.
        printed: The paper's number.
        note: Under which definition these values are.
        otherwise: Whether that is another definition than the paper's.
        show: How a number is written.
        near: The share.
    """
    close = abs(float(np.mean(values)) - printed) <= near * abs(printed)
    positive = Verdict.OTHERWISE if otherwise else Verdict.REPRODUCED
    return _finding(positive if close else Verdict.NOT_REPRODUCED, values, mean_interval(values), show, note)


def best_of(findings: Sequence[Finding]) -> Finding:
    """The first that is reproduced, else the first under another definition, else the first; all are noted.

    A statement that can be read in several ways is tried in each.
    """
    for verdict in (Verdict.REPRODUCED, Verdict.OTHERWISE):
        for found in findings:
            if found.verdict is verdict:
                return found
    rest = [f"{found.ours} {found.note}".strip() for found in findings[1:]]
    first = findings[0]
    note = "; ".join(part for part in (first.note, *rest) if part)
    return Finding(verdict=first.verdict, ours=first.ours, value=first.value, interval=first.interval, note=note)


def _with_doubt(note: str, values: Sequence[float], limit: float, low: float, high: float) -> str:
    """Say so where the interval has the limit inside, so that more seeds might decide otherwise."""
    if not low < limit < high:
        return note
    doubt = f"undecided: the interval over {len(values)} seeds contains the limit"
    return f"{doubt}; {note}" if note else doubt


def _finding(
    verdict: Verdict, values: Sequence[float], interval: tuple[float, float], show: Show, note: str
) -> Finding:
    ours = with_interval(values, show)
    return Finding(verdict=verdict, ours=ours, value=float(np.mean(values)), interval=interval, note=note)
