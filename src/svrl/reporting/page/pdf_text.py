"""Text on a page of the PDF: lines are broken by their measured width, blocks are set one below the other.

Lengths are inches, sizes of letters and the space around blocks are points, 72 to an inch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

SHEET_WIDTH, SHEET_HEIGHT = 8.27, 11.69
"""A4."""
MARGIN = 0.75
WIDTH, HEIGHT = SHEET_WIDTH - 2 * MARGIN, SHEET_HEIGHT - 2 * MARGIN
QUIET = "#555555"
LEADING = 1.35
"""From line to line, in sizes of the letters."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A paragraph.

    Attributes:
        text: Broken where it is too long for the width.
        size: Of the letters.
        before: Space above.
        after: Space below.
        mono: For commands.
        bold: For headings.
        colour: Of the letters.
        width: Of the paragraph.
    """

    text: str
    size: float
    before: float = 0.0
    after: float = 0.0
    mono: bool = False
    bold: bool = False
    colour: str = "black"
    width: float = WIDTH

    @property
    def lines(self) -> list[str]:
        """As they are set."""
        return wrapped(self.text.replace("`", ""), self.width, self.size, mono=self.mono, bold=self.bold)

    @property
    def tall(self) -> float:
        """With the space above and below."""
        return (self.before + len(self.lines) * LEADING * self.size + self.after) / 72


def tall(blocks: Iterable[Block]) -> float:
    """The height of blocks below each other."""
    return sum(block.tall for block in blocks)


def put(sheet: Figure, blocks: Iterable[Block], *, left: float, top: float, k: float = 1.0) -> list[Text]:
    """Set blocks below each other.

    Args:
        sheet: A figure, which may be smaller than the page: the places are inches from its lower left corner.
        blocks: From top to bottom.
        left: Edge of the text.
        top: Edge of the first block.
        k: By which letters and spaces are larger than the blocks say.

    Returns:
        What was added to the figure.
    """
    added = []
    for block in blocks:
        line = top - block.before * k / 72
        for words in block.lines:
            added.append(_line(sheet, words, block, left, line, k))
            line -= LEADING * block.size * k / 72
        top -= block.tall * k
    return added


def wrapped(text: str, width: float, size: float, *, mono: bool = False, bold: bool = False) -> list[str]:
    """Lines of a text none of which is wider than `width` inches; a word that is too long is cut."""
    lines: list[str] = []
    line = ""
    for word in _pieces(text, width, size, mono, bold):
        longer = f"{line} {word}" if line else word
        if line and _wide(longer, mono, bold) * size > width * 72:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line] if line else lines


def _pieces(text: str, width: float, size: float, mono: bool, bold: bool) -> Iterator[str]:
    for word in text.split():
        rest = word
        while _wide(rest, mono, bold) * size > width * 72 and len(rest) > 1:
            end = max(n for n in range(1, len(rest)) if n == 1 or _wide(rest[:n], mono, bold) * size <= width * 72)
            yield rest[:end]
            rest = rest[end:]
        yield rest


def _font(size: float, mono: bool, bold: bool) -> FontProperties:
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"  # that matplotlib brings along
    return FontProperties(family=family, size=size, weight="bold" if bold else "normal")


@lru_cache(maxsize=20_000)
def _wide(text: str, mono: bool, bold: bool) -> float:
    """The width of a text, in sizes of its letters."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, _font(100.0, mono, bold), False)
    return float(width) / 100


def _line(sheet: Figure, words: str, block: Block, left: float, top: float, k: float) -> Text:
    # As shares of the figure, which follow it to its place on a larger page; inches would not.
    width, height = sheet.get_size_inches()
    return sheet.text(
        left / width,
        top / height,
        words,
        fontproperties=_font(block.size * k, block.mono, block.bold),
        color=block.colour,
        ha="left",
        va="top",
        parse_math=False,
    )
