"""The report as one file of HTML that needs nothing beside it: style, program and pictures are inside.

A policy in its head forbids the browser to load anything, so that it cannot come to need the network unseen. Without
the program everything can be read; with it claims are filtered and commands copied. What the browser prints, on paper
or as a PDF, has everything open and no buttons.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from urllib.parse import quote

from matplotlib.figure import Figure

from svrl.plots.style import svg_text
from svrl.reporting.page.content import (
    MARKS,
    VERDICTS,
    ClaimRow,
    Exhibit,
    FigureEntry,
    Page,
    Section,
    apart,
    capital,
    command_of,
    counts_text,
    figure_labels,
    labels_of,
    runs_text,
    says_title,
    sentence,
    verdict_counts,
)

_WORDS = "reproduced", "otherwise", "failed", "supported", "contradicted", "undecided", "unrun"
STYLES = dict(zip(VERDICTS, _WORDS, strict=True))
"""The class of each verdict, which the style and the filters go by."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="description" content="$subtitle">
<meta name="generator" content="svrl $version">
<link rel="icon" href="data:,">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<a class="skip" href="#claims">To the claims</a>
<header class="masthead">
<div class="strip">
<p class="kicker">svrl $version · $scale scale · <time datetime="$made">$made</time></p>
<nav class="ways" aria-label="Parts of the page"><a href="#claims">Claims</a> <a href="#contents">Experiments</a></nav>
</div>
<h1>$title</h1>
<p class="subtitle">$rich_subtitle</p>
$notes
</header>
<main>
<section id="claims" aria-labelledby="claims-title">
<h2 id="claims-title">Claims</h2>
$shares
<div class="filters" role="group" aria-label="Show claims by verdict" hidden>$filters</div>
<table id="claims-table">
<caption class="unseen">Every claim, what the paper has, what we got. A claim opens to how it was tested.</caption>
<thead><tr><th>Verdict</th><th>The paper says</th><th>Paper</th><th>Ours</th><th>Where</th></tr></thead>
<tbody>
$claims
</tbody>
</table>
</section>
<nav class="contents" id="contents" aria-labelledby="contents-title">
<h2 id="contents-title">Experiments</h2>
$contents
</nav>
$sections
</main>
<footer><p>Made by svrl $version on $made.</p></footer>
<script>
$program</script>
</body>
</html>
""")


def render_html(page: Page) -> str:
    """The whole document as text; the same page is the same text."""
    labels = labels_of(page.sections)
    counts = {verdict: count for verdict, count in verdict_counts(page.claims).items() if count}
    return _PAGE.substitute(
        {name: plain(getattr(page, name)) for name in ("title", "subtitle", "scale", "made", "version")},
        policy=plain(_POLICY),
        style=_part("page.css"),
        program=_part("page.js"),
        rich_subtitle=rich(page.subtitle),
        notes=_notes(page.notes),
        shares="\n".join(_shares(claims, whose) for whose, claims in apart(page.claims).items()),
        filters=_filter("", "", len(page.claims), "claims")
        + "".join(_filter(STYLES[name], MARKS[name], count, name) for name, count in counts.items()),
        claims="\n".join(_row(claim, section, labels) for section in page.sections for claim in section.claims),
        contents="\n".join(
            _contents(title, [section for section in page.sections if section.addition is ours])
            for title, ours in (("The paper", False), ("Additions", True))
        ),
        sections="\n".join(map(_section, page.sections)),
    )


def plain(text: str) -> str:
    """Text for an element or a quoted attribute. All that is not markup of ours passes through here."""
    return html.escape(text, quote=True)


def rich(text: str) -> str:
    """Text for an element, where `words` in backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", plain(text))


def _part(name: str) -> str:
    return (files("svrl.reporting.page") / name).read_text(encoding="utf-8")


def _notes(texts: Iterable[str]) -> str:
    return "\n".join(f'<p class="note">{rich(text)}</p>' for text in texts)


def _command(command: str) -> str:
    """A command with a button that copies it; nothing if there is none."""
    if not command:
        return ""
    return (
        f'<div class="command"><pre tabindex="0" aria-label="Command"><code>{plain(command)}</code></pre>'
        '<button type="button" class="copy" hidden>Copy</button></div>'
    )


def _badge(verdict: str) -> str:
    """A verdict as a sign and its words."""
    return f'<span class="badge {STYLES[verdict]}"><span aria-hidden="true">{MARKS[verdict]}</span> {verdict}</span>'


def _shares(claims: Sequence[ClaimRow], whose: str) -> str:
    """How many claims came to what, in words and as a bar."""
    parts = (
        f'<span class="{STYLES[verdict]}" style="flex-grow: {count}"></span>'
        for verdict, count in verdict_counts(claims).items()
        if count
    )
    return f'<p>{plain(counts_text(claims, whose))}</p>\n<div class="shares" aria-hidden="true">{"".join(parts)}</div>'


def _filter(style: str, mark: str, count: int, words: str) -> str:
    return (
        f'<button type="button" class="filter {style}" data-filter="{style}" aria-pressed="{str(not style).lower()}">'
        f'<span aria-hidden="true">{mark}</span> <b>{count}</b> {words}</button>'
    )


def _row(claim: ClaimRow, section: Section, labels: dict[str, str]) -> str:
    """A claim in the table, with how it was tested folded below it."""
    evidence = ", ".join(word for word in (claim.scale and f"{claim.scale} scale", claim.source) if word)
    experiment = f'<a href="#experiment-{plain(section.name)}">{plain(section.title)}</a>'
    terms = {
        "Tested by": rich(claim.test),
        "Note": rich(claim.note),
        "Evidence": plain(evidence),
        "Experiment": experiment,
        "Name": f"<code>{plain(claim.name)}</code>",
    }
    more = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in terms.items() if text)
    target = claim.figure if claim.figure in labels else f"experiment-{section.name}"
    where = f'<a href="#{plain(target)}">{plain(labels.get(claim.figure, claim.figure))}</a>'
    if claim.section:
        where += f' <span class="aside">section {plain(claim.section)}</span>'
    cells = (
        f"<td>{_badge(claim.verdict)}</td>",
        f"<td><details><summary>{rich(claim.says)}</summary><dl>{more}</dl></details></td>",
        f'<td data-title="Paper">{rich(claim.paper)}</td>',
        f'<td data-title="Ours">{rich(claim.ours or "none yet")}</td>',
        f'<td data-title="Where">{where}</td>',
    )
    return (
        f'<tr class="claim" id="claim-{plain(claim.name)}" data-verdict="{STYLES[claim.verdict]}">{"".join(cells)}</tr>'
    )


def _contents(title: str, sections: list[Section]) -> str:
    if not sections:
        return ""
    items = [
        f'<li><a href="#experiment-{plain(section.name)}">{plain(capital(section.title))}</a> '
        f'<span class="aside">{plain(capital(figure_labels(section)))}</span></li>'
        for section in sections
    ]
    return "\n".join([f"<h3>{title}</h3>", "<ol>", *items, "</ol>"])


def _section(section: Section) -> str:
    """An experiment with its claims, its command and its figures."""
    name = plain(section.name)
    claims = "\n".join(
        f'<li>{_badge(claim.verdict)} <a href="#claim-{plain(claim.name)}">{rich(claim.says)}</a></li>'
        for claim in section.claims
    )
    return f"""\
<section class="experiment" id="experiment-{name}" aria-labelledby="experiment-{name}-title">
<p class="kicker">{"Addition" if section.addition else "Experiment"} · {name}</p>
<h2 id="experiment-{name}-title">{plain(capital(section.title))}</h2>
{_notes(section.notes)}
{f'<ul class="claims-of" aria-label="Claims">{claims}</ul>' if claims else ""}
<p class="runs">{plain(runs_text(section))}</p>
{_command(section.command)}
{"".join(_figure(section, entry) for entry in section.figures)}
<p class="back"><a href="#claims">Back to the claims</a></p>
</section>"""


def _figure(section: Section, entry: FigureEntry) -> str:
    """A figure: its first picture, the others folded, and what the paper says."""
    name = plain(entry.id)
    pictures = [_exhibit(entry, exhibit) for exhibit in entry.exhibits]
    folded = "".join(
        f'<details class="other"><summary>{plain(capital(exhibit.label))}</summary>\n{picture}\n</details>'
        for exhibit, picture in zip(entry.exhibits[1:], pictures[1:], strict=True)
    )
    missing = '<p class="not-made">There is no picture of it yet. This makes it:</p>' + _command(
        command_of(section, entry)
    )
    return f"""\
<article class="entry" id="{name}" aria-labelledby="{name}-title">
<h3 id="{name}-title">{plain(entry.label)}. {plain(capital(entry.title))}</h3>
{pictures[0] if pictures else missing}
{folded}
<div class="sides">
<div><h4>{says_title(section, entry)}</h4><p>{rich(entry.says)}</p></div>
</div>
</article>
"""


def _exhibit(entry: FigureEntry, exhibit: Exhibit) -> str:
    lines = (f"Scale: {exhibit.scale}", f"Source: {exhibit.source}", *exhibit.provenance)
    return f"""\
<figure>
{_picture(exhibit.figure, f"{entry.label}, {exhibit.label}: {entry.title}")}
<figcaption><b>{plain(sentence(exhibit.label))}</b> {rich(exhibit.caption)}</figcaption>
</figure>
{_command(exhibit.command)}
<details class="provenance"><summary>Provenance</summary>
<ul>{"".join(f"<li>{rich(line)}</li>" for line in lines)}</ul></details>"""


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
