"""Names and sentences as a terminal may show them."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Write out what would steer a terminal, as in \x1b[2J: text may come from files, and files from strangers."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)
