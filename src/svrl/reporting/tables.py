"""Tables in a terminal: what closes a plan, what closes a training, and everything in a folder of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from svrl.runtime.names import printable

Row = Mapping[str, Any]
PLAN_COLUMNS = ("method", "steps", "sweeps", "backup s", "estim. s", "loss", "return")


def comparison_table(rows: Sequence[Row], *, title: str, metric: str | None) -> Table:
    """A table of rows; the first is the plan itself and is bold.

    Args:
        rows: As `svrl plan --json` has them. One with a "reason" could not be done, and gets dashes.
        title: Above the table.
        metric: Name of the last column, or None to leave it out.
    """
    from svrl.planning.plan import DIVERGED  # loads torch, which the other tables do not need
    from svrl.planning.score import NEAREST

    looked_up = any(row.get("policy_followed_by") == NEAREST for row in rows)
    caption = "sweeps: backups over all pairs. loss: mean of V* - V of the policy, over the range of V*."
    if looked_up and metric is not None:
        caption += " *: actions of the nearest grid point; the others interpolate Q."
    if any(row.get("outcome") == DIVERGED for row in rows):
        caption += " !: its values diverge."
    table = _table([*PLAN_COLUMNS, *([] if metric is None else [metric])], left=("method",), title=title)
    table.caption, table.caption_justify = caption, "left"
    for at, row in enumerate(rows):
        table.add_row(*_plan_cells(row, metric), style="bold" if at == 0 else None)
    return table


def _plan_cells(row: Row, metric: str | None) -> list[Text]:
    from svrl.planning.plan import DIVERGED
    from svrl.planning.score import NEAREST

    if "reason" in row:
        return [Text(row["method"]), *[Text("-")] * (len(PLAN_COLUMNS) - (metric is None))]
    star = "*" if row["policy_followed_by"] == NEAREST and metric is not None else ""
    numbers = [
        str(row["iterations"]),
        f"{row['sweep_equivalents']:.2f}",
        f"{row['seconds_backup']:.3f}",
        f"{row['seconds_estimate']:.3f}",
        _worth(row["policy_loss_relative"], ".2%"),
        _worth(row["discounted_return"], ".4g") + star,
    ]
    if metric is not None:
        numbers.append(_worth(row["metric"], ".4g") + star)
    return [Text(row["method"] + (" !" if row["outcome"] == DIVERGED else "")), *map(Text, numbers)]


def _worth(value: float | None, form: str) -> str:
    """A number; a rounding error below zero is shown as zero."""
    if value is None:
        return "?"
    return format(0.0 if abs(value) < 1e-9 else value, form)


def training_table(results: Sequence[Row], *, title: str) -> Table:
    """What trained agents reached.

    Args:
        results: As `svrl train --json` has them.
        title: Above the table.
    """
    human = any(_evaluated(row).get("human_normalised") is not None for row in results)
    q_star = any(row.get("q_star_error") for row in results)
    caption = "score: mean of the last 100 training games. evaluation: mean with a 95% bootstrap interval over games."
    if human:
        caption += " human: 0 is a random player, 100% a human."
    if q_star:
        caption += " Q* error: mean |Q - Q*| over the span of Q*."
    names = ["agent", "seed", "steps", "games", "score", "evaluation", *(["human"] if human else [])]
    table = _table([*names, *(["Q* error"] if q_star else []), "steps/s"], left=("agent",), title=printable(title))
    table.caption, table.caption_justify = caption, "left"
    for row in results:
        cells = [row["arm"], str(row["seed"]), f"{row['steps']:,}", f"{row['episodes']:,}", score_cell(row)]
        cells.append(evaluation_cell(row.get("evaluation")))
        if human:
            cells.append(_number(_evaluated(row).get("human_normalised"), ".1%"))
        if q_star:
            cells.append(_number((row.get("q_star_error") or {}).get("mean_error"), ".2%"))
        table.add_row(*map(Text, cells), _number(row.get("steps_per_second"), ",.0f"))
    return table


def runs_table(rows: Sequence[Row], *, title: str) -> Table:
    """The runs of a folder.

    Args:
        rows: As `svrl runs --json` has them.
        title: Above the table.
    """
    table = _table(  # what is wrong with a run stands in its row, in as many lines as it needs
        ["run", "of", "method", "seed", "state", "steps", "score", "evaluation"],
        left=("run", "of", "method", "state"),
        title=printable(title),
    )
    table.columns[4].no_wrap, table.columns[4].overflow = False, "fold"
    for row in rows:
        cells = [
            str(row["run"]),
            row.get("env") or row.get("task") or "?",
            row.get("arm") or row.get("method") or "?",
            str(row.get("seed", "?")),
            f"{row['state']}: {row['reason']}" if "reason" in row else row["state"],
            _steps(row),
            _outcome(row),
            evaluation_cell(row.get("evaluation")) if row["state"] == "finished" else _last(row.get("last_evaluation")),
        ]
        table.add_row(*map(Text, map(printable, cells)))
    return table


def score_cell(row: Row) -> str:
    """A score with the number of games it is the mean of."""
    score, games = row.get("score_last_100"), row.get("score_episodes")
    if score is None:
        return "-"
    return f"{score:.4g}" + (f" ({games})" if games is not None and games < 100 else "")


def evaluation_cell(evaluation: Row | None) -> str:
    """A mean with its interval; one game has none."""
    if not evaluation:
        return "-"
    if evaluation["episodes"] == 1:
        return f"{evaluation['mean']:.4g} (1 game)"
    return f"{evaluation['mean']:.4g} [{evaluation['ci_low']:.4g}, {evaluation['ci_high']:.4g}]"


def _last(evaluation: Row | None) -> str:
    """The newest evaluation of an unfinished run."""
    return f"{evaluation['mean']:.4g} at {evaluation['steps']:,}" if evaluation else "-"


def _outcome(row: Row) -> str:
    """A score, or for a plan what its policy loses."""
    loss = row.get("policy_loss_relative")
    return f"loss {loss:.2%}" if loss is not None else score_cell(row)


def _steps(row: Row) -> str:
    done, of = row.get("steps"), row.get("steps_wanted")
    if done is None:
        return "-"
    return f"{done:,}" if of is None or done >= of else f"{done:,} of {of:,}"


def _evaluated(row: Row) -> Row:
    return row.get("evaluation") or {}


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(names: Sequence[str], *, left: Sequence[str], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.box, table.padding, table.pad_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table
