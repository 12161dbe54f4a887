"""The report on the paper as one file of HTML that needs nothing beside it: style, program and pictures are inside.

A policy in its head forbids the browser to load anything. Without the program everything can be read; with it claims
are filtered and commands copied. What the browser prints, on paper or as a PDF, has everything open and no buttons.

Names and ids become addresses, so each is unique, of letters, digits, hyphens, underscores and points. Text is plain;
`words` in backticks are code.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import quote

from svrl.plots.style import svg_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS = {
    "reproduced": ("reproduced", "●"),
    "reproduced under another definition": ("otherwise", "◐"),
    "not reproduced": ("failed", "✕"),
    "supported so far": ("supported", "△"),
    "contradicted so far": ("contradicted", "▽"),
    "undecided so far": ("undecided", "◇"),
    "not run at this scale": ("unrun", "○"),
}
"""All that a claim can come to, the best first: its class in the page, and a sign for those who do not see colours."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One picture of a figure, made at one scale.

    Attributes:
        label: Its scale and source: "laptop scale, committed rows".
        caption: With the budget, and that it is below the paper's where it is.
        figure: The picture.
        command: That makes it.
        provenance: A line each: versions, date, time, machine.
    """

    label: str
    caption: str
    figure: Figure
    command: str
    provenance: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FigureEntry:
    """A figure or table of the paper, or of an addition.

    Attributes:
        id: "fig3".
        label: "Figure 3"; "Addition" if it is ours.
        title: What is in it.
        says: What the paper says; for an addition why it is here.
        exhibits: Its pictures, the one to be seen first in front; none if it was not made yet.
        command: That makes it, shown where there is no picture.
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
        minutes: That takes, on two cores; 0 if nobody knows.
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


def render_html(page: Page) -> str:
    """The whole document as text; the same page is the same text."""
    template = (files("svrl.reporting") / "page.html").read_text(encoding="utf-8")
    labels = {entry.id: entry.label for section in page.sections for entry in section.figures}
    claims = [claim for section in page.sections for claim in section.claims]
    filters = [_filter("", "", len(claims), "claims")]
    filters += [_filter(*VERDICTS[verdict], count, verdict) for verdict, count in _counts(claims).items()]
    return Template(template).substitute(
        {name: plain(getattr(page, name)) for name in ("title", "subtitle", "scale", "made", "version")},
        policy=plain(_POLICY),
        rich_subtitle=rich(page.subtitle),
        notes=_notes(page.notes),
        shares=_shares([claim for claim in claims if claim.section], "of the paper")
        + _shares([claim for claim in claims if not claim.section], "of our additions"),
        filters="".join(filters),
        claims="\n".join(_row(claim, section, labels) for section in page.sections for claim in section.claims),
        contents=_contents("The paper", [section for section in page.sections if not section.addition])
        + _contents("Additions", [section for section in page.sections if section.addition]),
        sections="\n".join(map(_section, page.sections)),
    )


def plain(text: str) -> str:
    """Text for an element or a quoted attribute. All that is not markup of ours passes through here."""
    return html.escape(text, quote=True)


def rich(text: str) -> str:
    """Text for an element, where `words` in backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", plain(text))


def minutes_text(minutes: float) -> str:
    """About how long: "less than a minute", "about 12 minutes", "about 3 hours"."""
    if minutes < 1:
        return "less than a minute"
    unit, length = ("minute", 1) if minutes < 90 else ("hour", 60) if minutes < 48 * 60 else ("day", 24 * 60)
    count = round(minutes / length)
    return f"about {count:,} {unit}{'s' * (count != 1)}"


def figure_labels(section: Section) -> str:
    """What an experiment draws: "Figures 3, 10, Table 1"; an addition has no number, only a title."""
    numbers = [entry.label.removeprefix("Figure ") for entry in section.figures if entry.label.startswith("Figure ")]
    figures = [f"Figure{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []
    others = [entry for entry in section.figures if not entry.label.startswith("Figure ")]
    return ", ".join([*figures, *(entry.title if _is_ours(section, entry) else entry.label for entry in others)])


def _is_ours(section: Section, entry: FigureEntry) -> bool:
    """Whether a figure is an addition; an experiment of the paper can have one too."""
    return section.addition or entry.label == "Addition"


def _capital(words: str) -> str:
    return plain(words[:1].upper() + words[1:])


def _counts(claims: Iterable[ClaimRow]) -> dict[str, int]:
    """How many claims came to each verdict, the best first; without those that none came to."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def _notes(texts: Iterable[str]) -> str:
    return "\n".join(f'<p class="note">{rich(text)}</p>' for text in texts)


def _command(command: str) -> str:
    """A command with a button that copies it."""
    return (
        f'<div class="command"><pre tabindex="0" aria-label="Command"><code>{plain(command)}</code></pre>'
        '<button type="button" class="copy" hidden>Copy</button></div>'
    )


def _badge(verdict: str) -> str:
    """A verdict as a sign and its words."""
    style, mark = VERDICTS[verdict]
    return f'<span class="badge {style}"><span aria-hidden="true">{mark}</span> {verdict}</span>'


def _shares(claims: Sequence[ClaimRow], whose: str) -> str:
    """How many claims came to what, in words and as a bar; nothing if there are none."""
    if not claims:
        return ""
    counts = _counts(claims)
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    bars = (
        f'<span class="{VERDICTS[verdict][0]}" style="flex-grow: {count}"></span>' for verdict, count in counts.items()
    )
    return (
        f"<p>{len(claims)} claim{'s' * (len(claims) != 1)} {whose}: {words}.</p>\n"
        f'<div class="shares" aria-hidden="true">{"".join(bars)}</div>\n'
    )


def _filter(style: str, mark: str, count: int, words: str) -> str:
    return (
        f'<button type="button" class="filter {style}" data-filter="{style}" aria-pressed="{str(not style).lower()}">'
        f'<span aria-hidden="true">{mark}</span> <b>{count}</b> {words}</button>'
    )


def _row(claim: ClaimRow, section: Section, labels: dict[str, str]) -> str:
    """A claim in the table, with how it was tested folded below it."""
    evidence = ", ".join(word for word in (claim.scale and f"{claim.scale} scale", claim.source) if word)
    terms = {
        "Tested by": rich(claim.test),
        "Note": rich(claim.note),
        "Evidence": plain(evidence),
        "Experiment": f'<a href="#experiment-{plain(section.name)}">{plain(section.title)}</a>',
        "Name": f"<code>{plain(claim.name)}</code>",
    }
    more = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in terms.items() if text)
    place = f' <span class="aside">section {plain(claim.section)}</span>' if claim.section else ""
    return f"""\
<tr class="claim" id="claim-{plain(claim.name)}" data-verdict="{VERDICTS[claim.verdict][0]}">
<td>{_badge(claim.verdict)}</td>
<td><details><summary>{rich(claim.says)}</summary><dl>{more}</dl></details></td>
<td data-title="Paper">{rich(claim.paper)}</td>
<td data-title="Ours">{rich(claim.ours or "none yet")}</td>
<td data-title="Where"><a href="#{plain(claim.figure)}">{plain(labels[claim.figure])}</a>{place}</td>
</tr>"""


def _contents(title: str, sections: list[Section]) -> str:
    items = "\n".join(
        f'<li><a href="#experiment-{plain(section.name)}">{_capital(section.title)}</a> '
        f'<span class="aside">{_capital(figure_labels(section))}</span></li>'
        for section in sections
    )
    return f"<h3>{title}</h3>\n<ol>\n{items}\n</ol>\n" if sections else ""


def _section(section: Section) -> str:
    """An experiment with its command and its figures."""
    name = plain(section.name)
    time = f", {minutes_text(section.minutes)} on two cores" if section.minutes > 0 else ""
    return f"""\
<section class="experiment" id="experiment-{name}" aria-labelledby="experiment-{name}-title">
<p class="kicker">{"Addition" if section.addition else "Experiment"} · {name}</p>
<h2 id="experiment-{name}-title">{_capital(section.title)}</h2>
{_notes(section.notes)}
<p class="runs">All of it{time}:</p>
{_command(section.command)}
{"".join(_figure(section, entry) for entry in section.figures)}
<p class="back"><a href="#claims">Back to the claims</a></p>
</section>"""


def _figure(section: Section, entry: FigureEntry) -> str:
    """A figure: its first picture, the others folded, what the paper says, and its claims."""
    name = plain(entry.id)
    pictures = [_exhibit(entry, exhibit) for exhibit in entry.exhibits]
    if not pictures:
        pictures = [f'<p class="not-made">There is no picture of it yet. This makes it:</p>{_command(entry.command)}']
    folded = "".join(
        f'<details class="other"><summary>{_capital(exhibit.label)}</summary>\n{picture}\n</details>'
        for exhibit, picture in zip(entry.exhibits[1:], pictures[1:], strict=True)
    )
    claims = "\n".join(
        f'<li>{_badge(claim.verdict)} <a href="#claim-{plain(claim.name)}">{rich(claim.says)}</a></li>'
        for claim in section.claims
        if claim.figure == entry.id
    )
    whose = "Why it is here" if _is_ours(section, entry) else "The paper"
    return f"""\
<article class="entry" id="{name}" aria-labelledby="{name}-title">
<h3 id="{name}-title">{plain(entry.label)}. {_capital(entry.title)}</h3>
{pictures[0]}
{folded}
<div class="says"><h4>{whose}</h4><p>{rich(entry.says)}</p></div>
{f'<ul class="claims-of" aria-label="Claims">{claims}</ul>' if claims else ""}
</article>
"""


def _exhibit(entry: FigureEntry, exhibit: Exhibit) -> str:
    return f"""\
<figure>
{_picture(exhibit.figure, f"{entry.label}, {exhibit.label}: {entry.title}")}
<figcaption><b>{_capital(exhibit.label)}.</b> {rich(exhibit.caption)}</figcaption>
</figure>
{_command(exhibit.command)}
<details class="provenance"><summary>Provenance</summary>
<ul>{"".join(f"<li>{rich(line)}</li>" for line in exhibit.provenance)}</ul></details>"""


def _picture(figure: Figure, title: str) -> str:
    """The figure as an image whose address is the SVG itself, with outlines to 0.01 points: they are most of a page."""
    text = svg_text(figure)
    points = re.search(r'width="([\d.]+)pt"', text)
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
    address = quote(re.sub(r"\s+", " ", text).replace('"', "'"), safe=" !$'()*+,-./:;<=>?@[]^_`{|}~")
    width = float(points[1]) if points else 0.0
    return (
        f'<div class="picture"><img alt="{plain(title)}" style="--points: {width:.0f}" '
        f'src="data:image/svg+xml,{address}"></div>'
    )
