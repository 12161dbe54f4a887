"""A wrong name is answered with the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_name(got: str, known: Iterable[str], *, otherwise: str = "Choose one of") -> str:
    """The sentence "Did you mean ...?", or with nothing near the names after the words of `otherwise`."""
    names = sorted(known)
    close = difflib.get_close_matches(got, names, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"{otherwise} {', '.join(names)}."
