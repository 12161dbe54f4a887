"""The report as a PDF on A4: a title page, the table of all claims, then a page for each picture.

Pictures stay vectors. A picture is not scaled: its page is A4 made larger by the factor k that makes room for it, with
text of k times the size, so printed pages look alike. With a picture of w x h inches and text that fills t of
the H inches between the margins of a page W wide, k = max(1, w / W, h / (H - t)).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from svrl.plots.style import STYLE
from svrl.reporting.page.content import Exhibit, FigureEntry, Page, Section
from svrl.reporting.page.layout import settle
from svrl.reporting.page.pdf_claims import claims_pages
from svrl.reporting.page.pdf_text import (
    HEIGHT,
    LEADING,
    MARGIN,
    QUIET,
    SHEET_HEIGHT,
    SHEET_WIDTH,
    WIDTH,
    Block,
    put,
    tall,
)
from svrl.reporting.page.wording import (
    capital,
    labels_of,
    minutes_text,
    says_title,
    sentence,
    verdict_counts,
)
from svrl.runs.atomic import writing

_GAP = 0.15
_MOST_TEXT = 0.6


def write_pdf(page: Page, path: Path) -> None:
    """Write the report; its folder must exist."""
    about = {"Title": page.title, "Creator": f"svrl {page.version}", "CreationDate": None, "ModDate": None}
    with writing(path) as temporary, mpl.rc_context(STYLE), PdfPages(temporary, metadata=about) as book:
        for sheet in (*title_pages(page), *claims_pages(page, labels_of(page.sections))):
            _save(book, sheet, 0.0, 0.0, 1.0)
        for section in page.sections:
            for entry in section.figures:
                for exhibit in entry.exhibits:
                    _save_exhibit(book, section, entry, exhibit)


def title_pages(page: Page) -> list[Figure]:
    """What the report is, the counts of verdicts, the experiments, and the pictures that are missing."""
    counts = [f"{count} {verdict}" for verdict, count in verdict_counts(page.claims).items()]
    blocks = [
        Block(text=page.title, size=20, after=8),
        Block(text=page.subtitle, size=11, after=6),
        Block(text=f"svrl {page.version}, {page.scale} scale, {page.made}", size=9, colour=QUIET, after=14),
        *(Block(text=note, size=10, after=6) for note in page.notes),
        Block(text=f"{len(page.claims)} claims", size=13, before=10, after=4),
        *(Block(text=line, size=10) for line in counts),
        Block(text="Experiments", size=13, before=14, after=4),
        *(block for section in page.sections for block in _in_contents(section)),
    ]
    sheets: list[Figure] = []
    left = 0.0
    for block in blocks:
        if not sheets or tall([block]) > left:
            sheets.append(Figure(figsize=(SHEET_WIDTH, SHEET_HEIGHT)))
            left = HEIGHT
        put(sheets[-1], [block], left=MARGIN, top=MARGIN + left)
        left -= tall([block])
    return sheets


def _in_contents(section: Section) -> list[Block]:
    missing = [entry.label for entry in section.figures if not entry.exhibits]
    kind = " (addition)" if section.addition else ""
    about = ", ".join(part for part in (f"{capital(section.title)}{kind}", minutes_text(section.minutes)) if part)
    blocks = [
        Block(text=about, size=10, before=4),
        Block(text=section.command, size=8, mono=True, colour=QUIET),
    ]
    if missing:
        blocks.append(
            Block(text=f"No picture yet: {', '.join(missing)}. The command makes them.", size=8, colour=QUIET)
        )
    return blocks


def _save_exhibit(book: Any, section: Section, entry: FigureEntry, exhibit: Exhibit) -> None:
    """One page: heading, picture, caption, what the paper says and what we got."""
    figure = exhibit.figure
    settle(figure)
    heading = [
        Block(text=capital(section.title), size=8, colour=QUIET, after=2),
        Block(text=f"{entry.label}. {capital(entry.title)}", size=13),
    ]
    below = _below(section, entry, exhibit)
    width, height = (float(side) for side in figure.get_size_inches())
    room = HEIGHT - tall(heading) - tall(below) - 2 * _GAP
    k = max(1.0, width / WIDTH, height / room)
    x, y = MARGIN * k + max(0.0, (WIDTH * k - width) / 2), (MARGIN + HEIGHT - tall(heading) - _GAP) * k - height
    added = [
        *put(figure, heading, left=MARGIN * k - x, top=(MARGIN + HEIGHT) * k - y, k=k),
        *put(figure, below, left=MARGIN * k - x, top=-_GAP * k, k=k),
    ]
    try:
        _save(book, figure, x, y, k)
    finally:
        for text in added:
            text.remove()


def _save(book: Any, figure: Figure, x: float, y: float, k: float) -> None:
    """A sheet k times A4 on which the lower left corner of the figure is at (x, y) inches."""
    book.savefig(figure, bbox_inches=Bbox.from_bounds(-x, -y, SHEET_WIDTH * k, SHEET_HEIGHT * k))


def _below(section: Section, entry: FigureEntry, exhibit: Exhibit) -> list[Block]:
    first = says_title(section, entry)
    blocks = [
        Block(text=f"{sentence(exhibit.label)} {exhibit.caption}", size=9, after=8),
        Block(text=f"{first}: {entry.says}", size=9, after=5),
        Block(text=f"We got: {entry.got}" if entry.got else "", size=9, after=5),
        Block(text=exhibit.command, size=8, mono=True, after=5),
    ]
    lines = [Block(text=line, size=7, colour=QUIET) for line in (f"Source: {exhibit.source}", *exhibit.provenance)]
    blocks = [block for block in blocks if block.text]
    while lines and tall([*blocks, *lines]) > _MOST_TEXT * HEIGHT:
        lines.pop()
    if tall(blocks) > _MOST_TEXT * HEIGHT:
        size = 9 * _MOST_TEXT * HEIGHT / tall(blocks)
        blocks = [Block(text=block.text, size=size, mono=block.mono, after=LEADING) for block in blocks]
    return [*blocks, *lines]
