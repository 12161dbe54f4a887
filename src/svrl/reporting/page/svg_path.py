"""Outlines of an SVG in fewer letters: curves of many points are most of a page.

Coordinates are rounded to 0.01 points. An outline of straight lines is written as steps from point to point, which are
differences of the rounded places, so that errors do not add up: M 10 20 L 10.5 19.75 becomes M10 20l.5-.25.
"""

from __future__ import annotations

import re

_STRAIGHT = re.compile(r"(?:[ML] -?[\d.]+ -?[\d.]+\s*|z\s*)*")


def short_path(outline: str) -> str:
    """The same outline to 0.01 points, as matplotlib writes it on one side and browsers read it on the other."""
    if not _STRAIGHT.fullmatch(outline):
        return " ".join(re.sub(r"-?\d+\.\d+", lambda match: _text(_hundredths(match[0])), outline).split())
    parts: list[str] = []
    here = start = (0, 0)
    before = ""
    words = iter(outline.split())
    for letter in words:
        if letter == "z":
            parts.append("z")
            here = start
        else:
            there = (_hundredths(next(words)), _hundredths(next(words)))
            if letter == "M":
                parts.append("M" + _pair(*there))
                start = there
            else:
                step = _pair(there[0] - here[0], there[1] - here[1])
                parts.append(step if before == "L" and step.startswith("-") else (" " if before == "L" else "l") + step)
            here = there
        before = letter
    return "".join(parts)


def _pair(x: int, y: int) -> str:
    return f"{_text(x)}{'' if y < 0 else ' '}{_text(y)}"


def _hundredths(word: str) -> int:
    return round(100 * float(word))


def _text(hundredths: int) -> str:
    """A number without what can be left out: 50 is .5, -1200 is -12."""
    whole, rest = divmod(abs(hundredths), 100)
    sign = "-" if hundredths < 0 else ""
    return sign + (f"{whole or ''}.{rest:02d}".rstrip("0") if rest else str(whole))
