"""How numbers become verdicts, in one place for all experiments.

Planning is judged by a mean over seeds: `below` or `above` a limit with its whole interval, or `near` a printed
number. Every scale at which such a claim is looked at settles it.

Training is `settled` only at the budget that the claim is about, the paper's where the claim is the paper's. There,
what passes its test is reproduced and what fails is not. A smaller budget settles nothing, one way or the other, but
what was found there is said: supported so far if the test is passed, contradicted so far if the whole interval lies
beyond its limit, else undecided so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from svrl.paper.claim import Evidence, Finding, Verdict
from svrl.stats import Interval, mean_interval

NEAR = 0.25
"""A number counts as the printed one if it is within this share of it."""
WIDE = 0.5
"""An interval decides nothing if its half-width is a larger share of the printed number."""
FULL = "full"
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


def shown(ends: Interval | None, digits: int = 2) -> str:
    """An interval behind its number, as in " (0.20 to 0.60)"; nothing where there is none."""
    return "" if ends is None else f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})"


def counted(names: Sequence[str]) -> str:
    """Names with commas, or "none"."""
    return ", ".join(names) or "none"


def fixed(holds: bool, ours: str, value: float, note: str = "") -> Finding:
    """A finding on something that no seed changes: it holds or does not."""
    verdict = Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=ours, value=value, note=note)


def below(values: Sequence[float], limit: float, *, show: Show = number, note: str = "", side: int = -1) -> Finding:
    """Reproduced if the whole interval over seeds is at most the limit; with `side` 1, if it is at least the limit."""
    low, high = mean_interval(values)
    if low < limit < high:  # more seeds might decide otherwise
        doubt = f"undecided: the interval over {len(values)} seeds contains the limit"
        note = f"{doubt}; {note}" if note else doubt
    holds = high <= limit if side < 0 else low >= limit
    return replace(fixed(holds, with_interval(values, show), float(np.mean(values)), note), interval=(low, high))


above = partial(below, side=1)


def near(values: Sequence[float], printed: float, *, definition: str, otherwise: bool) -> Finding:
    """Whether the mean over seeds is within the share `NEAR` of the printed number, by an interval that can tell.

    The half-width of the interval may be at most `WIDE` times the printed number. An interval that has the printed
    number inside and does not come to a positive verdict is called undecided.

    Args:
        values: One a seed.
        printed: The paper's number.
        definition: Of these values; it stands behind the number.
        otherwise: Whether that is another definition than the paper's.
    """
    low, high = mean_interval(values)
    mean = float(np.mean(values))
    verdict, note = Verdict.NOT_REPRODUCED, ""
    if abs(mean - printed) <= NEAR * abs(printed) and (high - low) / 2 <= WIDE * abs(printed):
        verdict = Verdict.OTHERWISE if otherwise else Verdict.REPRODUCED
    elif low <= printed <= high:
        note = f"undecided: the interval over {len(values)} seeds is too wide"
    ours = f"{with_interval(values)} {definition}"
    return Finding(verdict=verdict, ours=ours, value=mean, interval=(low, high), note=note)


def best_of(findings: Sequence[Finding]) -> Finding:
    """The first that is reproduced, else the first under another definition, else the first; all are noted.

    A statement that can be read in several ways is tried in each.
    """
    for verdict in (Verdict.REPRODUCED, Verdict.OTHERWISE):
        for found in findings:
            if found.verdict is verdict:
                return found
    first, *others = findings
    rest = [f"{found.ours} {found.note}".strip() for found in others]
    return replace(first, note="; ".join(part for part in (first.note, *rest) if part))


def settled(
    evidence: Evidence,
    holds: bool | None = None,
    *,
    ours: str,
    value: float | None,
    ends: Interval | None,
    note: str = "",
    otherwise: str = "",
    limit: float | None = None,
    side: int = 1,
    within: float = 0.0,
    budgets: Sequence[str] = (FULL,),
) -> Finding:
    """A finding on something random that only some budgets settle.

    Args:
        evidence: What it was judged from.
        holds: Whether the test was passed; None asks whether the whole interval lies where the value must.
        ours: Our value in words; empty if there is none.
        value: The same as a number.
        ends: Its interval; without one nothing is called reproduced.
        note: What else to say.
        otherwise: Under which other definition it holds, if it does under none of the paper's.
        limit: Of the test; of a failure whose interval has it inside the note says so.
        side: Where the value must lie: 1 above the limit, -1 below it, 0 at it.
        within: How far from the limit a value is still at it.
        budgets: Scales that settle the claim.
    """
    notes = [note, otherwise]
    below_it = ends is not None and limit is not None and ends[1] < limit - within
    above_it = ends is not None and limit is not None and ends[0] > limit + within
    if holds is None and ends is not None and limit is not None:
        at_it = limit - within <= ends[0] <= ends[1] <= limit + within
        holds = {1: above_it, 0: at_it, -1: below_it}[side]
    holds = bool(holds) and ends is not None
    if ends is None and ours:
        notes.append("Too few seeds for an interval.")
    elif not holds and limit is not None and ends is not None and not (below_it or above_it):
        where = f"covers {limit:g}" if not within else f"reaches into {limit - within:g} to {limit + within:g}"
        notes.append(f"The interval {where}: open either way.")
    if evidence.scale in budgets:
        verdict = Verdict.OTHERWISE if otherwise and ends is not None else Verdict.NOT_REPRODUCED
        verdict = Verdict.REPRODUCED if holds else verdict
    elif not ours:
        verdict = Verdict.NOT_RUN
        notes.insert(0, nothing_yet(evidence).note)
    else:
        contradicted = (below_it and side >= 0) or (above_it and side <= 0)
        verdict = Verdict.SUPPORTED if holds else Verdict.CONTRADICTED if contradicted else Verdict.UNDECIDED
        settles = f"Only the budget {FULL} settles it." if budgets else "Only all of its environments settle it."
        notes.insert(0, f"With {evidence.words}. {settles}")
    return Finding(verdict=verdict, ours=ours, value=value, interval=ends, note=" ".join(filter(None, notes)))


def nothing_yet(evidence: Evidence) -> Finding:
    """That none of the games of a claim is there."""
    return Finding(verdict=Verdict.NOT_RUN, note=f"Nothing that could be compared yet; there is: {evidence.words}.")
