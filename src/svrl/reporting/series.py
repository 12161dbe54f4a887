"""Names for the parts of a figure that belong together, so that a page can show and hide them.

The name of a series becomes the id of its elements in the SVG. Every artist of a curve, line, band and markers, gets
the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from matplotlib.artist import Artist

PREFIX = "series--"


def tag(artists: Artist | Iterable[Artist], name: str) -> None:
    """Mark artists as parts of the series `name`, which is what a legend would call it."""
    found = [artists] if isinstance(artists, Artist) else list(artists)
    for artist in found:
        artist.set_gid(PREFIX + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"))
