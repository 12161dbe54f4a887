"""The table of all claims on pages of the PDF: as many as it takes, the head on each of them."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from svrl.plots.style import BLUE, GREEN, GREY, ORANGE
from svrl.reporting.page.content import VERDICTS, ClaimRow, Page
from svrl.reporting.page.pdf_text import HEIGHT, MARGIN, QUIET, SHEET_HEIGHT, SHEET_WIDTH, WIDTH, Block, put, tall
from svrl.reporting.page.wording import MARKS, interval_text, place_text

_COLUMNS = (("Verdict", 0.15), ("The paper says", 0.40), ("Paper", 0.15), ("Ours", 0.17), ("Where", 0.13))
_COLOURS = dict(zip(VERDICTS, (GREEN, BLUE, ORANGE, GREEN, ORANGE, BLUE, GREY), strict=True))
_SIZE = 7.5
_SPACE = 0.12
_ROW = 0.08


def claims_pages(page: Page, labels: dict[str, str]) -> list[Figure]:
    """Sheets with the table; none if there are no claims.

    Args:
        page: The whole report.
        labels: Ids of figures to what they are called.
    """
    rows = [_cells(claim, labels) for claim in page.claims]
    head = [[_cell(title, at, bold=True)] for at, (title, _) in enumerate(_COLUMNS)]
    sheets: list[Figure] = []
    left = 0.0
    for row in rows:
        if not sheets or _height(row) > left:
            sheets.append(Figure(figsize=(SHEET_WIDTH, SHEET_HEIGHT)))
            left = HEIGHT - _put_row(sheets[-1], head, MARGIN + HEIGHT, strong=True)
        left -= _put_row(sheets[-1], row, MARGIN + left)
    return sheets


def _cells(claim: ClaimRow, labels: dict[str, str]) -> list[list[Block]]:
    interval = interval_text(claim.interval)
    columns = (
        (f"{MARKS[claim.verdict]} {claim.verdict}",),
        (claim.says, f"Tested by: {claim.test}", f"Note: {claim.note}" if claim.note else ""),
        (claim.paper,),
        (claim.ours or "none yet", f"95%: {interval}" if interval else "", f"{claim.scale} {claim.source}".strip()),
        (place_text(claim, labels),),
    )
    cells = []
    for at, texts in enumerate(columns):
        first, *rest = texts
        colour = _COLOURS[claim.verdict] if at == 0 else "black"
        cells.append(
            [_cell(first, at, colour=colour, bold=at == 0), *(_cell(text, at, colour=QUIET) for text in rest if text)]
        )
    return cells


def _cell(text: str, at: int, *, colour: str = "black", bold: bool = False) -> Block:
    return Block(text=text, size=_SIZE, width=_COLUMNS[at][1] * WIDTH - _SPACE, colour=colour, bold=bold, after=1.5)


def _height(row: list[list[Block]]) -> float:
    return max(tall(cell) for cell in row) + 2 * _ROW


def _put_row(sheet: Figure, row: list[list[Block]], top: float, *, strong: bool = False) -> float:
    """Set a row and the rule below it; its height in inches."""
    left = MARGIN
    for cell, (_, share) in zip(row, _COLUMNS, strict=True):
        put(sheet, cell, left=left, top=top - _ROW)
        left += share * WIDTH
    bottom = top - _height(row)
    rule = Line2D(
        [MARGIN, MARGIN + WIDTH],
        [bottom, bottom],
        transform=sheet.dpi_scale_trans,
        color="black" if strong else GREY,
        linewidth=0.8 if strong else 0.3,
    )
    sheet.add_artist(rule)
    return _height(row)
