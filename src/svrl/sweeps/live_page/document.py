"""The page as one text of HTML, style and program inside, and the policy that lets a browser run just these."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files


def document(name: str) -> tuple[str, str]:
    """The page of a sweep, and its content security policy.

    The policy names the style and the program by their digests. Whatever else came to stand in the page, from a label
    say, would not be run, and nothing can be loaded but from the server itself.
    """
    style, program = f"\n{_part('page.css')}", f"\n{_part('chart.js')}\n{_part('page.js')}"
    text = _part("page.html").replace("<!-- name -->", html.escape(name))
    text = text.replace("<style></style>", f"<style>{style}</style>")
    text = text.replace("<script></script>", f"<script>{program}</script>")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(program)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def _part(name: str) -> str:
    return (files("svrl.sweeps.live_page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
