"""One experiment on the page: its figures in all scales, what the paper says beside what we got, its commands."""

from __future__ import annotations

from svrl.reporting.page.content import Exhibit, FigureEntry, Section
from svrl.reporting.page.html_claims import render_claims_of
from svrl.reporting.page.html_text import command_box, paragraphs, plain, rich
from svrl.reporting.page.svg import InlineSvg, inline_svg
from svrl.reporting.page.wording import capital, command_of, runs_text, says_title, sentence


def render_section(section: Section) -> str:
    """The experiment with everything that belongs to it."""
    kind = "Addition" if section.addition else "Experiment"
    name = plain(section.name)
    return "\n".join(
        [
            f'<section class="experiment" id="experiment-{name}" aria-labelledby="experiment-{name}-title">',
            f'<p class="kicker">{kind} <span aria-hidden="true">·</span> {name}</p>',
            f'<h2 id="experiment-{name}-title">{plain(capital(section.title))}</h2>',
            paragraphs(section.notes, "note"),
            render_claims_of(section),
            f'<p class="runs">{plain(runs_text(section))}</p>',
            command_box(section.command),
            *(_figure(section, entry) for entry in section.figures),
            '<p class="back"><a href="#claims">Back to the claims</a></p>',
            "</section>",
        ]
    )


def _figure(section: Section, entry: FigureEntry) -> str:
    shown = entry.exhibits
    parts = [
        f'<article class="entry" id="{plain(entry.id)}" aria-labelledby="{plain(entry.id)}-title">',
        f'<h3 id="{plain(entry.id)}-title"><span class="label">{plain(entry.label)}</span> '
        f"{plain(capital(entry.title))}</h3>",
        _tabs(entry) if len(shown) > 1 else "",
        *(_exhibit(entry, at) for at in range(len(shown))),
        "" if shown else _not_made(section, entry),
        _sides(section, entry),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _tabs(entry: FigureEntry) -> str:
    name = plain(entry.id)
    buttons = "".join(
        f'<button type="button" role="tab" id="{name}-tab-{at}" aria-controls="{name}-panel-{at}" '
        f'aria-selected="{str(at == 0).lower()}" tabindex="{0 if at == 0 else -1}">{plain(exhibit.label)}</button>'
        for at, exhibit in enumerate(entry.exhibits)
    )
    return f'<div class="tabs" role="tablist" aria-label="{plain(entry.label)} at several scales">{buttons}</div>'


def _exhibit(entry: FigureEntry, at: int) -> str:
    exhibit = entry.exhibits[at]
    name = f"{plain(entry.id)}-panel-{at}"
    one_of_many = f' role="tabpanel" aria-labelledby="{plain(entry.id)}-tab-{at}"' if len(entry.exhibits) > 1 else ""
    picture = inline_svg(
        exhibit.figure, prefix=f"{entry.id}-{at}-", title=f"{entry.label}, {exhibit.label}: {entry.title}"
    )
    closed = "" if at == 0 else " unselected"
    return f"""\
<div class="exhibit{closed}" id="{name}"{one_of_many}>
<figure>
<div class="picture" data-title="{plain(entry.label)} · {plain(exhibit.label)}">{picture.markup}</div>
{_tools(entry, picture)}
<figcaption><span class="exhibit-label">{plain(sentence(exhibit.label))}</span> {rich(exhibit.caption)}</figcaption>
</figure>
{command_box(exhibit.command)}
{_provenance(exhibit)}
</div>"""


def _tools(entry: FigureEntry, picture: InlineSvg) -> str:
    toggles = "".join(
        f'<button type="button" class="toggle" data-toggle="{plain(series.name)}" aria-pressed="true">'
        f'<span class="swatch" style="background: {plain(series.colour)}" aria-hidden="true"></span>'
        f"{plain(series.label)}</button>"
        for series in picture.series
    )
    group = (
        f'<div class="toggles" role="group" aria-label="Curves of {plain(entry.label)}">{toggles}</div>'
        if toggles
        else ""
    )
    return (
        f'<div class="tools">{group}<button type="button" class="enlarge" aria-label="Enlarge {plain(entry.label)}">'
        "Enlarge</button></div>"
    )


def _provenance(exhibit: Exhibit) -> str:
    lines = (f"Scale: {exhibit.scale}", f"Source: {exhibit.source}", *exhibit.provenance)
    items = "".join(f"<li>{rich(line)}</li>" for line in lines)
    return f'<details class="provenance"><summary>Provenance</summary><ul>{items}</ul></details>'


def _not_made(section: Section, entry: FigureEntry) -> str:
    return f"""\
<div class="not-made">
<p>There is no picture of it yet. This makes it:</p>
{command_box(command_of(section, entry))}
</div>"""


def _sides(section: Section, entry: FigureEntry) -> str:
    first = says_title(section, entry)
    got = rich(entry.got) if entry.got else '<span class="aside">Nothing was run yet.</span>'
    return f"""\
<div class="sides">
<div><h4>{first}</h4><p>{rich(entry.says)}</p></div>
<div><h4>We got</h4><p>{got}</p></div>
</div>"""
