"""The table that closes a plan: the plan, the optimum, and what else could have been done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from svrl.planning.plan import DIVERGED
from svrl.reporting.plan_scores import NEAREST

COLUMNS = ("method", "steps", "sweeps", "backup s", "estim. s", "loss", "return")


def comparison_table(rows: Sequence[Mapping[str, Any]], *, title: str, metric: str | None) -> Table:
    """A table of rows; the first is the plan itself and is bold.

    Args:
        rows: As `svrl plan --json` has them. One with a "reason" could not be done, and gets dashes.
        title: Above the table.
        metric: Name of the last column, or None to leave it out.
    """
    looked_up = any(row.get("policy_followed_by") == NEAREST for row in rows)
    caption = "sweeps: backups over all pairs. loss: mean of V* - V of the policy, over the range of V*."
    if looked_up and metric is not None:
        caption += " *: actions of the nearest grid point; the others interpolate Q."
    if any(row.get("outcome") == DIVERGED for row in rows):
        caption += " !: its values diverge."
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", title_style="bold")
    table.box, table.padding, table.pad_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False
    for name in (*COLUMNS, *([] if metric is None else [metric])):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for at, row in enumerate(rows):
        table.add_row(*_cells(row, metric), style="bold" if at == 0 else None)
    return table


def _cells(row: Mapping[str, Any], metric: str | None) -> list[Text]:
    if "reason" in row:
        return [Text(row["method"]), *[Text("-")] * (len(COLUMNS) - (metric is None))]
    star = "*" if row["policy_followed_by"] == NEAREST and metric is not None else ""
    numbers = [
        str(row["iterations"]),
        f"{row['sweep_equivalents']:.2f}",
        f"{row['seconds_backup']:.3f}",
        f"{row['seconds_estimate']:.3f}",
        _number(row["policy_loss_relative"], ".2%"),
        _number(row["discounted_return"], ".4g") + star,
    ]
    if metric is not None:
        numbers.append(_number(row["metric"], ".4g") + star)
    return [Text(row["method"] + (" !" if row["outcome"] == DIVERGED else "")), *map(Text, numbers)]


def _number(value: float | None, form: str) -> str:
    """A number; a rounding error below zero is shown as zero."""
    if value is None:
        return "?"
    return format(0.0 if abs(value) < 1e-9 else value, form)
