"""How claims on planning are judged: a mean over seeds with its interval against a limit, or near a printed number.

An interval may also be of a difference between two means. Ranks are compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from svrl.paper.claim import Finding, Verdict
from svrl.stats import mean_interval

NEAR = 0.25
"""A number counts as the printed one if it is within this share of it."""
WIDE = 0.5
"""An interval decides nothing if its half-width is a larger share of the printed number."""
LOSS = 0.01
"""A policy counts as nearly optimal if it loses less than this share of the range of V*."""
METRIC = 1.1
"""A metric counts as the optimum's if it is at most so many times as large."""
INPUT_GAP = 0.05
"""Two maps count as alike if their inputs differ by at most this share of the range of inputs, on average."""
SAME_ENDS = 0.9
"""Starts count as brought to the same ends if at least this share of them ends where the optimum's do."""

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
    values: Sequence[float], printed: float, *, definition: str, otherwise: bool, show: Show = number
) -> Finding:
    """Whether the mean over seeds is within the share `NEAR` of the printed number, by an interval that can tell.

    The half-width of the interval may be at most `WIDE` times the printed number. An interval that has the printed
    number inside and does not come to a positive verdict is called undecided.

    Args:
        values: One a seed.
        printed: The paper's number.
        definition: Of these values; it stands behind the number.
        otherwise: Whether that is another definition than the paper's.
        show: How a number is written.
    """
    low, high = mean_interval(values)
    close = abs(float(np.mean(values)) - printed) <= NEAR * abs(printed)
    verdict, note = Verdict.NOT_REPRODUCED, ""
    if close and (high - low) / 2 <= WIDE * abs(printed):
        verdict = Verdict.OTHERWISE if otherwise else Verdict.REPRODUCED
    elif low <= printed <= high:
        note = f"undecided: the interval over {len(values)} seeds is too wide"
    found = _finding(verdict, values, (low, high), show, note)
    return replace(found, ours=f"{found.ours} {definition}")


def near_test(printed: float) -> str:
    """The rule of `judged_near` in words, for a number that may be degrees or a norm."""
    return (
        f"within {NEAR:.0%} of {printed}, and the half-width of its 95% interval at most {WIDE:.0%} of it: in degrees, "
        "else as the norm in radians in either variant"
    )


def judged_deviation(degrees: Sequence[float], norms: Mapping[str, Sequence[float]], printed: float) -> Finding:
    """A printed average deviation: in degrees as the paper says, else as a norm in radians; all are noted.

    Args:
        degrees: Mean absolute angles, one a seed.
        norms: Variant -> norms in radians, one a seed.
        printed: The paper's number.
    """
    stated = judged_near(degrees, printed, definition="degrees", otherwise=False)
    others = [
        judged_near(values, printed, definition=f"as norms in radians, variant {variant}", otherwise=True)
        for variant, values in norms.items()
    ]
    # Of several that fit, or of none, the nearest is shown.
    best = best_of(sorted([stated, *others], key=lambda found: abs((found.value or 0.0) - printed)))
    return replace(best, note=f"as the paper says it: {stated.ours}") if best.verdict is Verdict.OTHERWISE else best


RANK_TEST = "singular values that hold 99% of the energy; else 1 - 1e-6 of it, in either variant"


def judged_rank(rows: Mapping[str, Mapping[str, Any]], printed: int) -> Finding:
    """The paper's definition of the rank first, then the tighter energy.

    Args:
        rows: Variant -> row of the optimum; one is "paper".
        printed: The paper's rank.
    """
    tight = ", ".join(f"{row['rank_tight']} ({variant})" for variant, row in rows.items())
    stated = rows["paper"]["rank_99"]
    note = f"99% of the energy gives {stated}; 1 - 1e-6 gives {tight}"
    if any(row["rank_99"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.REPRODUCED, ours=f"{printed} at 99% of the energy", value=printed, note=note)
    if any(row["rank_tight"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.OTHERWISE, ours=f"{printed} at 1 - 1e-6 of the energy", value=printed, note=note)
    return Finding(verdict=Verdict.NOT_REPRODUCED, ours=f"{stated} at 99% of the energy", value=stated, note=note)


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
