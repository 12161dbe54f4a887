"""Tables in a terminal: the end of a plan and of a training, a folder of runs, and a sweep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
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
    names = [*PLAN_COLUMNS, *([] if metric is None else [metric])]
    table = _table(names, left=("method",), title=title, caption=caption)
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
    names += [*(["Q* error"] if q_star else []), "steps/s"]
    table = _table(names, left=("agent",), title=printable(title), caption=caption)
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


# A sweep.

COLOURS = {"done": "green", "running": "blue", "failed": "red", "stopped": "yellow", "waiting": "bright_black"}
MARKS = {"done": "✓", "running": "▶", "failed": "✗", "stopped": "‖", "waiting": "·"}
_WIDEST = 120
"""Columns of the widest table: in a longer line the eye gets lost."""
_MOST = 12
"""Rows of each table; the number of the others is printed below them."""


def sweep_view(overview: Row, *, width: int) -> Group:
    """A sweep: its totals, scores by subject and arm, the running and the failed runs.

    Args:
        overview: As `svrl sweep status --json` has it.
        width: Columns of the terminal.
    """
    parts: list[RenderableType] = [_totals(overview)]
    if any(group["scored"] for group in overview["groups"]):
        parts += ["", _groups_table(overview)]
    running, failed = ([run for run in overview["runs"] if run["state"] == state] for state in ("running", "failed"))
    if running:
        parts += ["", _running_table(overview, running, min(width, _WIDEST))]
    if failed:
        parts += ["", _failed_table(failed, min(width, _WIDEST))]
    return Group(*parts)


def _totals(overview: Row) -> Text:
    """The name, the states, and the steps, speed and best score of all."""
    totals = overview["totals"]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(overview["name"] or "runs", "bold")
    text.append(f"  {totals['states']['done']:,} of {totals['runs']:,} runs done, code {overview['code']}\n", "dim")
    for state, count in totals["states"].items():
        if count:
            text.append(f"{MARKS[state]} {count:,} {state}   ", COLOURS[state])
    facts = [_short_of(totals) + " steps"] if totals["steps"] else []
    facts += [f"{_short(totals['steps_per_second'])} steps/s"] if totals["steps_per_second"] is not None else []
    facts += [f"about {duration(totals['eta_seconds'])} left"] if totals["eta_seconds"] is not None else []
    text.append("\n" + " · ".join(facts))
    if totals["best"] is not None:
        text.append(f"\nbest so far: {number(overview, totals['best']['score'])}  {totals['best']['label']}")
    text.rstrip()
    return text


def _groups_table(overview: Row) -> Table:
    """Scores over seeds by subject and arm, and by arm over all subjects where they have a common scale."""
    over_all = [group for group in overview["variants"] if group["subjects_scored"] > 1]
    groups = [group for group in overview["groups"] if group["scored"]][:_MOST]
    caption = f"{overview['measure']['text']}, with 95% intervals over seeds: "
    caption += "interquartile mean over all subjects, mean of one subject." if over_all else "mean."
    if len({group["subjects_scored"] for group in over_all}) > 1:
        caption += " Arms that have come to different subjects do not compare yet."
    if any(group["provisional"] for group in overview["groups"]):
        caption += " ~: runs under way are counted."
    if overview["measure"]["reason"]:
        caption += f" No number over all: {overview['measure']['reason']}."
    table = _table(
        ["subject", "arm", "done", "score", "best"], left=("subject", "arm"), title="Scores", caption=caption
    )
    for group in [*over_all, *groups]:
        whole = group["subject"] is None
        subject = f"all ({group['subjects_scored']} of {group['subjects']})" if whole else group["subject"]
        score = _with_interval(overview, group, "iqm" if whole else "mean")
        done, best = f"{group['done']}/{group['runs']}", number(overview, group["best"])
        table.add_row(*map(Text, (subject, group["variant"], done, score, best)), style="bold" if whole else "")
    return _with_more(table, len(overview["groups"]) - len(groups))


def _running_table(overview: Row, runs: Sequence[Row], width: int) -> Table:
    table = _table(["run", "steps", "", "steps/s", "left", "score"], left=("run",), title="Running")
    table.columns[0].ratio, table.width = 1, width
    for run in runs[:_MOST]:
        share = f"{min(1.0, run['steps'] / run['steps_in_all']):4.0%}" if run["steps_in_all"] else ""
        speed, left = _short(run["steps_per_second"]), duration(run["eta_seconds"])
        label = Text(printable(run["label"]), overflow="ellipsis")
        table.add_row(label, *map(Text, (_short_of(run), share, speed, left, number(overview, run["score"]))))
    return _with_more(table, len(runs) - _MOST)


def _failed_table(runs: Sequence[Row], width: int) -> Table:
    table = _table(["run", "attempts", "reason"], left=("run", "reason"), title="Failed")
    table.columns[0].ratio, table.columns[2].ratio, table.width = 2, 3, width
    table.columns[0].no_wrap = table.columns[2].no_wrap = False
    for run in runs[:_MOST]:
        reason = run["reason"] or "it did not say why"
        reason = reason if len(reason) <= 3 * width else reason[: 3 * width - 1] + "…"
        table.add_row(*map(Text, map(printable, (run["label"], str(run["attempts"]), reason))))
    return _with_more(table, len(runs) - _MOST)


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


def _with_interval(overview: Row, group: Row, name: str) -> str:
    shown = number(overview, group[name])
    if group[f"{name}_low"] is not None:
        shown += f" [{number(overview, group[f'{name}_low'])}, {number(overview, group[f'{name}_high'])}]"
    return ("~" if group["provisional"] else "") + shown


def _short_of(row: Row) -> str:
    """Steps as in 12.3k of 15M."""
    return _short(row["steps"]) + (f" of {_short(row['steps_in_all'])}" if row["steps_in_all"] is not None else "")


def _short(value: float | None) -> str:
    """As in 950, 12.3k, 15M or 8.01G."""
    if value is None:
        return "-"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def _with_more(table: Table, left: int) -> Table:
    if left > 0:
        table.add_row(Text(f"and {left:,} more", "dim"))
    return table


def _table(names: Sequence[str], *, left: Collection[str], title: str, caption: str | None = None) -> Table:
    """Columns named in `left` are text, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left")
    table.box, table.padding, table.pad_edge, table.show_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False, False
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table
