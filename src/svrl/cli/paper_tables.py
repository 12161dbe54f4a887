"""The tables that svrl paper prints."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from svrl.paper.claim import Verdict

_LOOK = {
    Verdict.REPRODUCED: "green",
    Verdict.OTHERWISE: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.SUPPORTED: "green",
    Verdict.CONTRADICTED: "red",
    Verdict.UNDECIDED: "yellow",
    Verdict.NOT_RUN: "dim",
}

_NAME, _WIDE = 26, 160
"""Width of a claim's name in a terminal that is not wide, and the width from which one is."""


def print_figures(rows: Iterable[Mapping[str, Any]], scale: str) -> None:
    """Every figure, the experiment that makes it, what it costs and whether it is there."""
    table = Table(title=f"The paper at {scale} scale", title_justify="left", box=None, pad_edge=False)
    for name in ("name", "section", "experiment", "what", "about", "kept", "shipped", "needs"):
        table.add_column(name, no_wrap=name != "what", overflow="fold")
    for row in rows:
        cost = _minutes(row["minutes"]) if row["cells"] else "-"
        nothing = "a diagram" if row["experiment"] == "diagrams" else "not at this scale"
        kept = f"{row['kept']} of {row['cells']}" if row["cells"] else nothing
        table.add_row(
            row["figure"],
            row["section"] or "ours",
            row["experiment"],
            row["title"],
            cost,
            kept,
            str(row["shipped"] or ""),
            ", ".join(row["needs"]),
        )
    _console().print(table)


def print_claims(rows: Sequence[Mapping[str, Any]], scale: str) -> None:
    """Every claim with the paper's value, ours and the verdict, and how often each verdict was given.

    Args:
        rows: The claims.
        scale: That was asked for; where a claim was judged from another one, this is said.
    """
    console = _console()
    width = _NAME if console.width < _WIDE else console.width
    table = Table(box=None, pad_edge=False)
    for name in ("figure", "claim", "paper", "ours (95% interval)", "verdict", "scale"):
        table.add_column(name, overflow="fold", no_wrap=name == "claim")
    for row in rows:
        verdict = Verdict(row["verdict"])
        shown = f"[{_LOOK[verdict]}]{verdict}[/]"
        judged = "" if verdict is Verdict.NOT_RUN else f"{row['scale']}, {row['source']}"
        judged = "from what it prints" if row["source"] == "the paper" else judged
        table.add_row(
            row["figure"], _in_lines(row["claim"], width), _plain(row["paper"]), _plain(row["ours"]), shown, judged
        )
    console.print(table)
    for whose, some in (
        ("of the paper", [row for row in rows if not row["addition"]]),
        ("of our additions", [row for row in rows if row["addition"]]),
    ):
        counts = Counter(Verdict(row["verdict"]) for row in some)
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
        if some:
            console.print(f"{len(some)} claim{'s' * (len(some) != 1)} {whose}: {words}.")
    if not rows:
        console.print("No claims.")
    elsewhere = sorted({row["scale"] for row in rows if row["ours"]} - {scale})
    if elsewhere:
        others = " and ".join(elsewhere)
        console.print(f"Claims that {scale} scale cannot judge or settle were judged from {others} scale.")


def _minutes(minutes: float) -> str:
    if minutes < 1:
        return f"{max(60 * minutes, 1):.0f} s"
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 2880 else f"{minutes / 1440:.0f} days"


def _in_lines(name: str, width: int) -> str:
    """A name in lines that end at hyphens: a table breaks at blanks alone, and else in the middle of a word."""
    return "\n".join(textwrap.wrap(name, width))


def _plain(text: str) -> str:
    """Text in which rich finds no markup."""
    return text.replace("[", "\\[")


def _console() -> Console:
    """A table in a file or a pipe is not cut to the width of a terminal that is not there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)
