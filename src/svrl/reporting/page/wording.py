"""Numbers and counts as a person reads them, the same in HTML, Markdown and PDF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from svrl.reporting.page.content import VERDICTS, ClaimRow, FigureEntry, Section

MARKS = dict(zip(VERDICTS, "●◐✕○", strict=True))
"""A sign a verdict, for those who do not see its colour."""
SHORT = dict(zip(VERDICTS, ("reproduced", "otherwise", "failed", "unrun"), strict=True))
"""A word a verdict, for names of styles and filters."""


def number_text(value: float) -> str:
    """Three digits, or all before the point: 0.0123, 12.3, 12,345."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def interval_text(interval: tuple[float, float] | None) -> str:
    """An interval as "0.12 to 0.34"; empty if there is none."""
    return "" if interval is None else f"{number_text(interval[0])} to {number_text(interval[1])}"


def minutes_text(minutes: float) -> str:
    """About how long: "less than a minute", "about 12 minutes", "about 3 hours", "about 40 days"."""
    if minutes < 1:
        return "less than a minute"
    for unit, length, most in (("minute", 1, 90), ("hour", 60, 48 * 60), ("day", 24 * 60, float("inf"))):
        if minutes < most:
            count = round(minutes / length)
            return f"about {count:,} {unit}{'s' if count != 1 else ''}"
    raise ValueError(f"Minutes must be a number; got {minutes}.")


def verdict_counts(claims: Iterable[ClaimRow]) -> dict[str, int]:
    """How many claims came to each verdict, in the order of `VERDICTS`, with zeros."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def figure_labels(section: Section) -> str:
    """What an experiment draws: "Figure 3, Figure 10"."""
    return ", ".join(entry.label for entry in section.figures)


def place_text(claim: ClaimRow, labels: dict[str, str]) -> str:
    """Where a claim stands: "Figure 3, section 3.3"."""
    label = labels.get(claim.figure, claim.figure)
    return f"{label}, section {claim.section}" if claim.section else label


def labels_of(sections: Iterable[Section]) -> dict[str, str]:
    """Ids of figures to what they are called."""
    return {entry.id: entry.label for section in sections for entry in section.figures}


def command_of(section: Section, entry: FigureEntry) -> str:
    """The command that makes a figure."""
    return entry.command or section.command
