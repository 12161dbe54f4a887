"""Text made safe for HTML. Everything that is not markup of ours passes through here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable


def plain(text: str) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(text, quote=True)


def rich(text: str) -> str:
    """Text for an element, where `words` in backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", plain(text))


def paragraphs(texts: Iterable[str], style: str) -> str:
    """Each text as a paragraph of a style."""
    return "\n".join(f'<p class="{plain(style)}">{rich(text)}</p>' for text in texts)


def command_box(command: str) -> str:
    """A command with a button that copies it; nothing if there is none."""
    if not command:
        return ""
    return (
        f'<div class="command"><pre tabindex="0" aria-label="Command"><code>{plain(command)}</code></pre>'
        '<button type="button" class="copy">Copy</button></div>'
    )
