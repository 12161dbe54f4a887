"""Text for messages: the nearest right name, text without terminal control codes, and durations."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def nearest_name(
    got: str,
    known: Iterable[str],
    *,
    otherwise: str = "Choose one of",
    most: int = 1,
    synonyms: Mapping[str, str] | None = None,
) -> str:
    """Return "Did you mean ...?", or all names after the words of `otherwise` if none is near.

    Args:
        got: The wrong name.
        known: The right names.
        otherwise: Words before all names.
        most: Most near names to list.
        synonyms: Right names by their names elsewhere.
    """
    names = sorted(known)
    meant = (synonyms or {}).get(got)
    close = [meant] if meant in names else near_names(got, names, most=most)
    return f"Did you mean {' or '.join(close)}?" if close else f"{otherwise} {', '.join(names)}."


def near_names(got: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """The names that are nearly the same, the nearest first."""
    return difflib.get_close_matches(got, sorted(known), n=most, cutoff=0.5)


def printable(text: str) -> str:
    r"""Escape terminal control codes such as \x1b[2J: names in files may come from strangers."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)


def duration(seconds: float | None) -> str:
    """A rough duration, such as 40 s, 12 min, 3 h 20 min or 12 days."""
    if seconds is None:
        return "-"
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes / 1440:.0f} days"
