"""Numbers and counts as a person reads them, the same in HTML, Markdown and PDF."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from svrl.reporting.page.content import VERDICTS, ClaimRow, FigureEntry, Section

MARKS = dict(zip(VERDICTS, "●◐✕△▽◇○", strict=True))
"""A sign a verdict, for those who do not see its colour."""
_WORDS = "reproduced", "otherwise", "failed", "supported", "contradicted", "undecided", "unrun"
SHORT = dict(zip(VERDICTS, _WORDS, strict=True))
"""A word a verdict, for names of styles and filters."""


def number_text(value: float) -> str:
    """Three digits, or all before the point: 0.0123, 12.3, 12,345."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def interval_text(interval: tuple[float, float] | None) -> str:
    """An interval as "0.12 to 0.34"; empty if there is none."""
    return "" if interval is None else f"{number_text(interval[0])} to {number_text(interval[1])}"


def minutes_text(minutes: float) -> str:
    """About how long: "less than a minute", "about 12 minutes", "about 3 hours"; empty if nobody knows, at 0."""
    if minutes <= 0:
        return ""
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
    """What an experiment draws: "Figures 3, 10, Table 1"; an addition has no number, only a title."""
    numbers = [entry.label.removeprefix("Figure ") for entry in section.figures if entry.label.startswith("Figure ")]
    others = [
        entry.title if is_addition(section, entry) else entry.label
        for entry in section.figures
        if not entry.label.startswith("Figure ")
    ]
    figures = [f"Figure{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"] if numbers else []
    return ", ".join([*figures, *others])


def is_addition(section: Section, entry: FigureEntry) -> bool:
    """Whether a figure is ours; an experiment of the paper can have one too."""
    return section.addition or entry.label == "Addition"


def says_title(section: Section, entry: FigureEntry) -> str:
    """Above what is said on a figure: the paper says nothing on ours."""
    return "Why it is here" if is_addition(section, entry) else "The paper"


def runs_text(section: Section) -> str:
    """Above the command of an experiment: "All of it, about 12 minutes on two cores:"."""
    minutes = minutes_text(section.minutes)
    return f"All of it, {minutes} on two cores:" if minutes else "All of it:"


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


def capital(words: str) -> str:
    """Words that begin with a capital, whatever else is in them."""
    return words[:1].upper() + words[1:]


def sentence(words: str) -> str:
    """Words with a capital and a full stop: "Laptop scale, committed."."""
    return f"{capital(words).rstrip('.')}."
