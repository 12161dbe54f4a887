"""A sweep in a terminal: a line with a bar for all of it, scores by subject and arm, and the runs that want to be seen.

Those are the running ones and the failed ones; the rest are counted. What does not fit into the width is left out by
its weight: below 110 columns a line has one mean, the interquartile one over all subjects, the plain one of a subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from svrl.runtime.names import printable

Row = Mapping[str, Any]

COLOURS = {"done": "green", "running": "blue", "failed": "red", "stopped": "yellow", "waiting": "bright_black"}
MARKS = {"done": "✓", "running": "▶", "failed": "✗", "stopped": "‖", "waiting": "·"}
_INK = {"done": "█", "running": "▓", "failed": "✗", "stopped": "▒", "waiting": "░"}
"""So that states are told apart without colour."""
_WIDE = 110
"""Columns from which intervals of both means have room, and progress is drawn."""
_WIDEST = 120
"""Beyond it the eye loses the line."""


def sweep_view(overview: Row, *, width: int, most: int = 12) -> RenderableType:
    """All of it.

    Args:
        overview: As `svrl sweep status --json` has it.
        width: Columns of the terminal.
        most: Rows of each part; how many more there are is said.
    """
    parts: list[RenderableType] = [totals_lines(overview, width=width)]
    if overview["groups"] and any(group["scored"] for group in overview["groups"]):
        parts += ["", groups_table(overview, width=width, most=most)]
    if any(run["state"] == "running" for run in overview["runs"]):
        parts += ["", running_table(overview, width=width, most=most)]
    if any(run["state"] == "failed" for run in overview["runs"]):
        parts += ["", failed_table(overview, width=width, most=most)]
    return Group(*parts)


def totals_lines(overview: Row, *, width: int) -> Text:
    """The name, a bar of states, and what all runs amount to."""
    totals = overview["totals"]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(overview["name"] or "runs", "bold")
    text.append(f"  {totals['states']['done']:,} of {totals['runs']:,} runs done, code {overview['code']}\n", "dim")
    text.append(_bar(overview, width)).append("\n")
    for state, count in totals["states"].items():
        if count:
            text.append(f"{MARKS[state]} {count:,} {state}   ", COLOURS[state])
    text.append("\n")
    facts = [_steps(totals["steps"], totals["steps_in_all"]) + " steps"] if totals["steps"] else []
    facts += [f"{_short(totals['steps_per_second'])} steps/s"] if totals["steps_per_second"] is not None else []
    facts += [f"about {duration(totals['eta_seconds'])} left"] if totals["eta_seconds"] is not None else []
    text.append(" · ".join(facts))
    if totals["best"] is not None:
        text.append(f"\nbest so far: {number(overview, totals['best']['score'])}  {totals['best']['label']}")
    text.rstrip()
    return text


def groups_table(overview: Row, *, width: int, most: int) -> Table:
    """Scores over seeds by subject and arm, and by arm over all subjects where they have a common scale."""
    both = width >= _WIDE
    over_all = [group for group in overview["variants"] if group["subjects_scored"] > 1]
    groups = [group for group in overview["groups"] if group["scored"]]
    names = ["IQM", "mean"] if both else ["IQM, mean" if over_all else "mean"]
    table = _table("Scores", ["subject", "arm", "done", *names, "best"], left=2)
    table.caption, table.caption_justify = _groups_caption(overview, over_all, both), "left"
    for group in [*over_all, *groups[:most]]:
        together = group["subject"] is None
        subject = f"all ({group['subjects_scored']} of {group['subjects']})" if together else group["subject"]
        cells = [subject, group["variant"], f"{group['done']}/{group['runs']}"]
        shown = ("iqm", "mean") if both else ("iqm",) if together else ("mean",)
        cells += [_with_interval(overview, group, name) for name in shown]
        cells.append(number(overview, group["best"]))
        table.add_row(*map(Text, cells), style="bold" if together else "")
    _say_more(table, len(overview["groups"]) - min(len(groups), most))
    return table


def _groups_caption(overview: Row, over_all: Sequence[Row], both: bool) -> str:
    caption = f"{overview['measure']['text']}, with 95% intervals over seeds."
    if over_all and not both:
        caption += " all: IQM; others: mean."
    if len({group["subjects_scored"] for group in over_all}) > 1:
        caption += " Arms that have come to different subjects do not compare yet."
    if any(group["provisional"] for group in overview["groups"]):
        caption += " ~ of runs under way."
    if overview["measure"]["reason"]:
        caption += f" No number over all: {overview['measure']['reason']}."
    return caption


def running_table(overview: Row, *, width: int, most: int) -> Table:
    """Runs at work, with their progress."""
    table = _table("Running", ["run", "steps", "", "steps/s", "left", "score"], left=1)
    table.columns[0].ratio, table.columns[2].justify = 1, "left"
    runs = [run for run in overview["runs"] if run["state"] == "running"]
    for run in runs[:most]:
        cells = [_short(run["steps_per_second"]), duration(run["eta_seconds"]), number(overview, run["score"])]
        steps = _steps(run["steps"], run["steps_in_all"])
        table.add_row(
            Text(printable(run["label"]), overflow="ellipsis"), steps, _progress(run, width), *map(Text, cells)
        )
    _say_more(table, len(runs) - most)
    table.width = min(width, _WIDEST)
    return table


def failed_table(overview: Row, *, width: int, most: int) -> Table:
    """Runs that failed, each with its reason."""
    table = _table("Failed", ["run", "attempts", "reason"], left=1)
    table.columns[0].ratio, table.columns[2].ratio = 2, 3
    table.columns[2].justify = "left"
    table.columns[0].no_wrap = table.columns[2].no_wrap = False
    runs = [run for run in overview["runs"] if run["state"] == "failed"]
    for run in runs[:most]:
        reason = _cut(run["reason"] or "it did not say why", 3 * width)
        table.add_row(Text(printable(run["label"])), Text(str(run["attempts"])), Text(printable(reason)))
    _say_more(table, len(runs) - most)
    table.width = min(width, _WIDEST)
    return table


def number(overview: Row, score: float | None) -> str:
    """A score as its measure is written."""
    if score is None:
        return "-"
    name = overview["measure"]["name"]
    if name == "human_normalised":
        return f"{score:.1%}"
    return f"{100 * score:.3g}%" if name == "policy_loss_relative" else f"{score:.4g}"


def duration(seconds: float | None) -> str:
    """As in 40 s, 12 min, 3 h 20 min or 12 days; rough, since it is an estimate."""
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


def _bar(overview: Row, width: int) -> Text:
    """What is done of the sweep, as long as the terminal; a state that has runs is seen however few they are."""
    width = max(min(width, _WIDEST) - 1, 10)
    bar = Text()
    extents = _extents(overview)
    whole = sum(extents.values())
    counts = overview["totals"]["states"]
    # Running ones that have told no step yet have an extent of 0, and are there.
    lengths = {
        state: max(1, int(width * extent / max(whole, 1)))
        for state, extent in extents.items()
        if extent or counts[state]
    }
    if lengths:
        largest = max(lengths, key=lambda state: lengths[state])
        lengths[largest] = max(1, lengths[largest] + width - sum(lengths.values()))
    for state, length in lengths.items():
        bar.append(_INK[state] * length, COLOURS[state])
    return bar


def _extents(overview: Row) -> dict[str, float]:
    """How much of the sweep is in each state, by steps: what a run has not done yet waits.

    Where a run does not tell its steps, as plans do not, by runs. A failed one is over, however far it came.
    """
    extents = dict.fromkeys(overview["totals"]["states"], 0.0)
    runs = overview["runs"]
    if not all(run["kind"] == "train" and run["steps_in_all"] for run in runs):
        return {state: float(count) for state, count in overview["totals"]["states"].items()}
    for run in runs:
        whole = run["steps_in_all"]
        done = whole if run["state"] in ("done", "failed") else min(run["steps"], whole)
        extents[run["state"]] += done
        extents["waiting"] += whole - done
    return extents


def _with_interval(overview: Row, group: Row, name: str) -> str:
    shown = number(overview, group[name])
    if group[f"{name}_low"] is not None:
        shown += f" [{number(overview, group[f'{name}_low'])}, {number(overview, group[f'{name}_high'])}]"
    return ("~" if group["provisional"] else "") + shown


def _steps(steps: int, in_all: int | None) -> str:
    return _short(steps) if in_all is None else f"{_short(steps)} of {_short(in_all)}"


def _progress(run: Row, width: int) -> Text:
    if not run["steps_in_all"]:
        return Text("")
    share = min(1.0, run["steps"] / run["steps_in_all"])
    shown = Text()
    if width >= _WIDE:
        full = round(12 * share)
        shown.append("█" * full, COLOURS["running"]).append("░" * (12 - full), COLOURS["waiting"]).append(" ")
    return shown.append(f"{share:4.0%}")


def _short(value: float | None) -> str:
    """As in 950, 12.3k, 15M or 8.01G."""
    if value is None:
        return "-"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _say_more(table: Table, left: int) -> None:
    if left > 0:
        table.add_row(Text(f"and {left:,} more", "dim"))


def _table(title: str, names: Sequence[str], *, left: int) -> Table:
    """The first `left` columns are text, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.box, table.padding, table.pad_edge, table.show_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False, False
    for at, name in enumerate(names):
        table.add_column(name, justify="left" if at < left else "right", no_wrap=True)
    return table
