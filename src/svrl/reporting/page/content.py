"""What a report holds: experiments, their figures and claims, as plain data and matplotlib figures.

Names and ids become addresses and names of files, so each is unique, of letters, digits, hyphens, underscores and
points. Text is plain; `words` in backticks are code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS = (
    "reproduced",
    "reproduced under another definition",
    "not reproduced",
    "supported so far",
    "contradicted so far",
    "undecided so far",
    "not run at this scale",
)
"""All that a claim can come to, the best first."""
MARKS = dict(zip(VERDICTS, "●◐✕△▽◇○", strict=True))
"""A sign a verdict, for those who do not see its colour."""


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One picture of a figure, made at one scale.

    Attributes:
        label: Of its tab: "laptop scale, committed".
        scale: "laptop".
        source: "here" or "committed".
        caption: With the budget, and that it is below the paper's where it is.
        figure: The picture; series that can be hidden are tagged with `svrl.plots.style.tag`.
        command: That makes it.
        provenance: A line each: versions, date, time, machine.
    """

    label: str
    scale: str
    source: str
    caption: str
    figure: Figure
    command: str
    provenance: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FigureEntry:
    """A figure or table of the paper, or of an addition.

    Attributes:
        id: "fig3".
        label: "Figure 3".
        title: What is in it.
        says: What the paper says; for an addition why it is here.
        exhibits: Its pictures, the one to be seen first in front; none if it was not made yet.
        command: That makes it, shown where there is no picture; the experiment's if empty.
    """

    id: str
    label: str
    title: str
    says: str
    exhibits: tuple[Exhibit, ...] = ()
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """A claim and what became of it.

    Attributes:
        name: Short, unique, words-with-hyphens.
        section: Of the paper: "3.3"; empty for an addition.
        figure: The id of its figure.
        says: The statement.
        paper: The paper's value.
        test: How it is tested.
        ours: Our value with its interval, in words; empty if there is none.
        verdict: One of `VERDICTS`.
        note: Under which definition, at what budget, what stands in the way.
        scale: Of the evidence; empty if there is none.
        source: Of the evidence: "here" or "committed"; empty if there is none.
    """

    name: str
    section: str
    figure: str
    says: str
    paper: str
    test: str
    ours: str = ""
    verdict: str
    note: str = ""
    scale: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment.

    Attributes:
        name: Of the experiment: "toy_rank".
        title: A few words.
        addition: Ours, not in the paper.
        figures: In the order of the paper.
        claims: All of it.
        command: That runs it.
        minutes: That takes, on two cores.
        notes: A paragraph each.
    """

    name: str
    title: str
    addition: bool = False
    figures: tuple[FigureEntry, ...]
    claims: tuple[ClaimRow, ...]
    command: str
    minutes: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report.

    Attributes:
        title: Of the report.
        subtitle: A sentence on what it is.
        scale: That the report was asked for at.
        sections: The experiments, the paper's first.
        made: The day as an ISO date.
        version: Of svrl.
        notes: A paragraph each.
    """

    title: str
    subtitle: str
    scale: str
    sections: tuple[Section, ...]
    made: str
    version: str
    notes: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[ClaimRow, ...]:
        """Of all experiments, in their order."""
        return tuple(claim for section in self.sections for claim in section.claims)


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


def apart(claims: Iterable[ClaimRow]) -> dict[str, list[ClaimRow]]:
    """The paper's claims and those of our additions, which have no section in it, by whose they are; never mixed."""
    claims = tuple(claims)
    groups = {
        "of the paper": [claim for claim in claims if claim.section],
        "of our additions": [claim for claim in claims if not claim.section],
    }
    return {whose: some for whose, some in groups.items() if some}


def counts_text(claims: Sequence[ClaimRow], whose: str) -> str:
    """How many claims came to what: "3 claims of the paper: 2 reproduced, 1 not reproduced."."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdict_counts(claims).items() if count)
    return f"{len(claims)} claim{'s' * (len(claims) != 1)} {whose}: {counts}."


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
