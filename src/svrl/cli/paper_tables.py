"""The tables that svrl paper prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from svrl.experiments.paper.claim import Verdict

_LOOK = {
    Verdict.REPRODUCED: "green",
    Verdict.OTHERWISE: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.SUPPORTED: "green",
    Verdict.CONTRADICTED: "red",
    Verdict.UNDECIDED: "yellow",
    Verdict.NOT_RUN: "dim",
}


def print_figures(rows: Iterable[Mapping[str, Any]], scale: str) -> None:
    """Every figure, the experiment that makes it, what it costs and whether it is there."""
    table = Table(title=f"The paper at {scale} scale", title_justify="left", box=None, pad_edge=False)
    for name in ("name", "section", "experiment", "what", "about", "kept", "needs"):
        table.add_column(name, no_wrap=name != "what", overflow="fold")
    for row in rows:
        cost = _minutes(row["minutes"]) if row["cells"] else "-"
        kept = f"{row['kept']} of {row['cells']}" if row["cells"] else "not at this scale"
        table.add_row(
            row["figure"],
            row["section"] or "ours",
            row["experiment"],
            row["title"],
            cost,
            kept,
            ", ".join(row["needs"]),
        )
    _console().print(table)


def print_claims(rows: Sequence[Mapping[str, Any]]) -> None:
    """Every claim with the paper's value, ours and the verdict, and how often each verdict was given."""
    table = Table(box=None, pad_edge=False)
    for name in ("figure", "claim", "paper", "ours (95% interval)", "verdict", "scale"):
        table.add_column(name, overflow="fold")
    for row in rows:
        verdict = Verdict(row["verdict"])
        shown = f"[{_LOOK[verdict]}]{verdict}[/]"
        scale = "" if verdict is Verdict.NOT_RUN else f"{row['scale']}, {row['source']}"
        scale = "from what it prints" if row["source"] == "the paper" else scale
        table.add_row(row["figure"], row["claim"], _plain(row["paper"]), _plain(row["ours"]), shown, scale)
    console = _console()
    console.print(table)
    counts = Counter(Verdict(row["verdict"]) for row in rows)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    console.print(f"{len(rows)} claims: {words}." if rows else "No claims.")


def _minutes(minutes: float) -> str:
    if minutes < 1:
        return f"{max(60 * minutes, 1):.0f} s"
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 2880 else f"{minutes / 1440:.0f} days"


def _plain(text: str) -> str:
    """Text in which rich finds no markup."""
    return text.replace("[", "\\[")


def _console() -> Console:
    """A table in a file or a pipe is not cut to the width of a terminal that is not there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)
