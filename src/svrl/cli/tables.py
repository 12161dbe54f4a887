"""Tables in a terminal: the end of a plan and of a training, a folder of runs, and a sweep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, JustifyMethod, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from svrl.runtime.names import duration, printable

Row = Mapping[str, Any]


def comparison_table(rows: Sequence[Row], *, title: str, metric: str | None) -> Table:
    """A table of rows; the first is the plan itself and is bold.

    Args:
        rows: As `svrl plan --json` has them. One with a "reason" could not be done, and gets dashes.
        title: Above the table.
        metric: Name of the last column, or None to leave it out.
    """
    from svrl.planning.plan import DIVERGED  # loads torch, which the other tables do not need
    from svrl.planning.score import NEAREST

    looked_up = any(row.get("policy_followed_by") == NEAREST for row in rows) and metric is not None
    caption = "sweeps: backups over all pairs. loss: mean of V* - V of the policy, over the range of V*."
    if looked_up:
        caption += " *: actions of the nearest grid point; the others interpolate Q."
    if any(row.get("outcome") == DIVERGED for row in rows):
        caption += " !: its values diverge."
    cells = []
    for row in rows:
        cells.append({"method": row["method"] + " !" * (row.get("outcome") == DIVERGED)})
        if "reason" not in row:
            star = "*" * (looked_up and row["policy_followed_by"] == NEAREST)
            cells[-1] |= {"steps": str(row["iterations"]), "sweeps": f"{row['sweep_equivalents']:.2f}"}
            cells[-1] |= {"backup s": f"{row['seconds_backup']:.3f}", "estim. s": f"{row['seconds_estimate']:.3f}"}
            cells[-1] |= {"loss": _worth(row["policy_loss_relative"], ".2%")}
            cells[-1] |= {"return": _worth(row["discounted_return"], ".4g") + star}
            cells[-1] |= {} if metric is None else {metric: _worth(row["metric"], ".4g") + star}
    table = _table(cells, left=("method",), title=title, caption=caption)
    table.rows[0].style = "bold"
    return table


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
    caption = "score: mean of the last 100 training games. evaluation: mean with a 95% bootstrap interval over games."
    cells = []
    for row in results:
        human = (row.get("evaluation") or {}).get("human_normalised")
        error = (row.get("q_star_error") or {}).get("mean_error")
        speed = row.get("steps_per_second")
        cells.append({"agent": row["arm"], "seed": str(row["seed"]), "steps": f"{row['steps']:,}"})
        cells[-1] |= {"games": f"{row['episodes']:,}", "score": score_cell(row)}
        cells[-1] |= {"evaluation": evaluation_cell(row.get("evaluation"))}
        cells[-1] |= {} if human is None else {"human": f"{human:.1%}"}
        cells[-1] |= {} if error is None else {"Q* error": f"{error:.2%}"}
        cells[-1] |= {"steps/s": "-" if speed is None else f"{speed:,.0f}"}
    if any("human" in row for row in cells):
        caption += " human: 0 is a random player, 100% a human."
    if any("Q* error" in row for row in cells):
        caption += " Q* error: mean |Q - Q*| over the span of Q*."
    return _table(cells, left=("agent",), title=printable(title), caption=caption)


def seeds_table(results: Sequence[Row], *, title: str) -> Table:
    """What arms reached, each over its seeds, and how often the first arm is beaten.

    Args:
        results: As `svrl train --batched --json` has them.
        title: Above the table.
    """
    from svrl.stats import interval_if_several, probability_of_improvement, stratified_interval

    arms: dict[str, list[Row]] = {}
    for row in results:
        arms.setdefault(row["arm"], []).append(row)
    first = [row["discounted_return"] for row in next(iter(arms.values()))]
    cells = []
    for arm, rows in arms.items():
        returns = [row["discounted_return"] for row in rows]
        cells.append({"agent": arm, "seeds": str(len(rows)), "steps": f"{rows[0]['steps']:,}"})
        for name, values in (("score", [row["evaluation"]["mean"] for row in rows]), ("return", returns)):
            between = interval_if_several(values)
            interval = "" if between is None else f" [{between[0]:.4g}, {between[1]:.4g}]"
            cells[-1][name] = f"{sum(values) / len(values):.4g}{interval}"
        cells[-1]["overestimation"] = f"{sum(row['overestimation'] for row in rows) / len(rows):+.3g}"
        if len(arms) > 1 and len(rows) > 1:
            better = ([np.array(returns)], [np.array(first)])
            low, high = stratified_interval(probability_of_improvement, *better)
            probability = float(probability_of_improvement(*better))
            cells[-1]["better"] = "-" if len(cells) == 1 else f"{probability:.2f} [{low:.2f}, {high:.2f}]"
        cells[-1]["steps/s"] = f"{sum(row['steps_per_second'] for row in rows):,.0f}"
    caption = "score: mean over seeds, with its 95% interval. return: the same of discounted returns. overestimation: "
    caption += "value of the first state less the return. steps/s: of all seeds together."
    if len(arms) > 1:
        caption += f" better: probability of a larger return than that of {next(iter(arms))}."
    return _table(cells, left=("agent",), title=printable(title), caption=caption)


def runs_table(rows: Sequence[Row], *, title: str) -> Table:
    """The runs of a folder.

    Args:
        rows: As `svrl runs --json` has them.
        title: Above the table.
    """
    cells = [
        {
            "run": str(row["run"]),
            "of": row.get("env") or row.get("task") or "?",
            "method": row.get("arm") or row.get("method") or "?",
            "seed": str(row.get("seed", "?")),
            "state": f"{row['state']}: {row['reason']}" if "reason" in row else row["state"],
            "steps": _steps(row),
            "score": _outcome(row),
            "evaluation": evaluation_cell(row.get("evaluation"))
            if row["state"] == "finished"
            else _last(row.get("last_evaluation")),
        }
        for row in rows
    ]
    # What is wrong with a run stands in its row, in as many lines as it needs.
    return _table(cells, left=("run", "of", "method", "state"), title=printable(title), wrapped=("state",))


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
    cells = []
    for group in [*over_all, *groups]:
        whole = group["subject"] is None
        subject = f"all ({group['subjects_scored']} of {group['subjects']})" if whole else group["subject"]
        cells.append({"subject": subject, "arm": group["variant"], "done": f"{group['done']}/{group['runs']}"})
        cells[-1] |= {"score": _with_interval(overview, group, "iqm" if whole else "mean")}
        cells[-1] |= {"best": number(overview, group["best"])}
    table = _table(cells, left=("subject", "arm"), title="Scores", caption=caption)
    for row in table.rows[: len(over_all)]:
        row.style = "bold"
    return _with_more(table, len(overview["groups"]) - len(groups))


def _running_table(overview: Row, runs: Sequence[Row], width: int) -> Table:
    cells = [
        {
            "run": run["label"],
            "steps": _short_of(run),
            "": f"{min(1.0, run['steps'] / run['steps_in_all']):4.0%}" if run["steps_in_all"] else "",
            "steps/s": _short(run["steps_per_second"]),
            "left": duration(run["eta_seconds"]),
            "score": number(overview, run["score"]),
        }
        for run in runs[:_MOST]
    ]
    table = _table(cells, left=("run",), title="Running", ratios={"run": 1}, width=width)
    return _with_more(table, len(runs) - _MOST)


def _failed_table(runs: Sequence[Row], width: int) -> Table:
    cells = []
    for run in runs[:_MOST]:
        reason = run["reason"] or "it did not say why"
        reason = reason if len(reason) <= 3 * width else reason[: 3 * width - 1] + "…"
        cells.append({"run": run["label"], "attempts": str(run["attempts"]), "reason": reason})
    told: dict[str, Any] = {"ratios": {"run": 2, "reason": 3}, "wrapped": ("run", "reason"), "width": width}
    return _with_more(_table(cells, left=("run", "reason"), title="Failed", **told), len(runs) - _MOST)


def number(overview: Row, score: float | None) -> str:
    """A score as its measure is written."""
    if score is None:
        return "-"
    name = overview["measure"]["name"]
    if name == "human_normalised":
        return f"{score:.1%}"
    return f"{100 * score:.3g}%" if name == "policy_loss_relative" else f"{score:.4g}"


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


def _table(
    cells: Sequence[Mapping[str, str]],
    *,
    left: Collection[str],
    title: str,
    caption: str | None = None,
    wrapped: Collection[str] = (),
    ratios: Mapping[str, int] | None = None,
    width: int | None = None,
) -> Table:
    """A table of rows, with dashes where a row lacks a column; columns in `left` are text, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left")
    table.box, table.padding, table.pad_edge, table.show_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False, False
    table.width = width
    names = list(dict.fromkeys(name for row in cells for name in row))
    for name in names:
        justify: JustifyMethod = "left" if name in left else "right"
        overflow: OverflowMethod = "fold" if name in wrapped else "ellipsis"
        ratio = (ratios or {}).get(name)
        table.add_column(name, justify=justify, no_wrap=name not in wrapped, overflow=overflow, ratio=ratio)
    for row in cells:
        table.add_row(*(Text(printable(row.get(name, "-"))) for name in names))
    return table
