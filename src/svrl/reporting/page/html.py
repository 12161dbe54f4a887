"""The report as one file of HTML that needs nothing beside it: style, program and pictures are inside.

A policy in its head forbids the browser to load anything, so that it cannot come to need the network unseen.
"""

from __future__ import annotations

from importlib.resources import files

from svrl.reporting.page.content import Page, Section
from svrl.reporting.page.html_claims import render_claims
from svrl.reporting.page.html_section import render_section
from svrl.reporting.page.html_text import paragraphs, plain, rich
from svrl.reporting.page.wording import capital, figure_labels, labels_of

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
# Before anything is painted, so that a page that is to be dark never flashes in white.
_FIRST = """\
document.documentElement.classList.add("js");
try { document.documentElement.dataset.theme = localStorage.getItem("svrl-theme") || ""; } catch { /* no memory */ }"""


def render_html(page: Page) -> str:
    """The whole document as text; the same page is the same text."""
    labels = labels_of(page.sections)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        _head(page),
        "<body>",
        '<a class="skip" href="#claims">To the claims</a>',
        _masthead(page),
        "<main>",
        render_claims(page, labels),
        _contents(page),
        *(render_section(section) for section in page.sections),
        "</main>",
        f"<footer><p>Made by svrl {plain(page.version)} on {plain(page.made)}.</p></footer>",
        _viewer(),
        f"<script>\n{_part('page.js')}</script>",
        "</body>",
        "</html>\n",
    ]
    return "\n".join(parts)


def _part(name: str) -> str:
    return (files("svrl.reporting.page") / name).read_text(encoding="utf-8")


def _head(page: Page) -> str:
    return f"""\
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{plain(_POLICY)}">
<meta name="description" content="{plain(page.subtitle)}">
<meta name="generator" content="svrl {plain(page.version)}">
<link rel="icon" href="data:,">
<title>{plain(page.title)}</title>
<style>
{_part("page.css")}</style>
<script>
{_FIRST}
</script>
</head>"""


def _masthead(page: Page) -> str:
    return f"""\
<header class="masthead">
<div class="strip">
<p class="kicker">svrl {plain(page.version)} <span aria-hidden="true">·</span> {plain(page.scale)} scale \
<span aria-hidden="true">·</span> <time datetime="{plain(page.made)}">{plain(page.made)}</time></p>
<nav class="ways" aria-label="Parts of the page"><a href="#claims">Claims</a> <a href="#contents">Experiments</a>
<button type="button" class="theme" id="theme">Dark</button></nav>
</div>
<h1>{plain(page.title)}</h1>
<p class="subtitle">{rich(page.subtitle)}</p>
{paragraphs(page.notes, "note")}
</header>"""


def _contents(page: Page) -> str:
    paper = [section for section in page.sections if not section.addition]
    ours = [section for section in page.sections if section.addition]
    lists = [_contents_list(title, found) for title, found in (("The paper", paper), ("Additions", ours)) if found]
    return "\n".join(
        [
            '<nav class="contents" id="contents" aria-labelledby="contents-title">',
            '<h2 id="contents-title">Experiments</h2>',
            *lists,
            "</nav>",
        ]
    )


def _contents_list(title: str, sections: list[Section]) -> str:
    items = [
        f'<li><a href="#experiment-{plain(section.name)}">{plain(capital(section.title))}</a> '
        f'<span class="aside">{plain(capital(figure_labels(section)))}</span></li>'
        for section in sections
    ]
    return "\n".join([f"<h3>{plain(title)}</h3>", "<ol>", *items, "</ol>"])


def _viewer() -> str:
    return """\
<dialog id="viewer" aria-labelledby="viewer-title">
<div class="viewer-bar">
<p id="viewer-title"></p>
<div class="viewer-buttons">
<button type="button" id="zoom-out" aria-label="Smaller">&minus;</button>
<output id="zoom-level" aria-live="polite">100%</output>
<button type="button" id="zoom-in" aria-label="Larger">+</button>
<button type="button" id="zoom-fit">Fit</button>
<button type="button" id="zoom-close">Close</button>
</div>
</div>
<div class="stage" id="stage" tabindex="0" aria-label="Drag to move, scroll or pinch to zoom">
<div class="sheet" id="sheet"></div>
</div>
</dialog>"""
