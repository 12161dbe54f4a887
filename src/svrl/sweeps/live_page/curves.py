"""Curves of the runs of one subject, thinned out for a page.

A point of a training is the mean score of the last 100 games that had ended by then; of a plan the error of its values
after an iteration, or the residual where the optimum is not known. The line of a variant is the mean of its runs, where
all of them have got to, with a 95% interval of that mean at each point. Runs that failed have a curve and are not in
the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from svrl.stats import mean_interval
from svrl.sweeps.scores import LAST_GAMES
from svrl.sweeps.status import Overview, RunView
from svrl.sweeps.store import Store

POINTS = 120
"""Most points of a curve: a page is a thousand pixels wide, and a curve of 100 games is smooth."""
_FILES = {"train": "episodes.jsonl", "plan": "rows.jsonl"}
_DIGITS = 6

Curve = tuple[np.ndarray, np.ndarray]
"""x and y, (points,) each, x rising."""
Read = dict[str, tuple[tuple[str, int], Curve | None]]
"""Curves that were read, by run, with the state and the steps of that time."""


def curves_of(store: Store, overview: Overview, subject: str, read: Read) -> dict[str, Any] | None:
    """The curves of a subject as lists and numbers; None if the sweep has no such subject.

    Args:
        store: Where the rows are.
        overview: How the sweep stands.
        subject: An environment or a task of it.
        read: What was read before; it is added to, and only what has changed is read again.
    """
    runs = [run for run in overview.runs if run.subject == subject and run.kind]
    if not runs:
        return None
    variants: dict[str, list[dict[str, Any]]] = {run.variant: [] for run in runs}
    counted: dict[str, list[Curve]] = {run.variant: [] for run in runs}
    for run in runs:
        curve = _read(store, run, read)
        if curve is not None:
            variants[run.variant].append(
                {"id": run.id, "label": run.label, "state": run.state, "points": _points(*curve)}
            )
            if run.state != "failed":
                counted[run.variant].append(curve)
    of_plans = runs[0].kind == "plan"
    return {
        "subject": subject,
        "x": "iteration" if of_plans else "agent steps",
        "y": "error of the values" if of_plans else f"score, mean of the last {LAST_GAMES} games",
        "log": of_plans,
        "variants": [
            {"name": name, "mean": _mean(counted[name]), "runs": variants[name]} for name in variants if variants[name]
        ],
    }


def _read(store: Store, run: RunView, read: Read) -> Curve | None:
    if run.state == "waiting":
        return None
    # A plan writes its rows at its end, and has no steps before.
    now = run.state, run.steps
    if run.id not in read or read[run.id][0] != now:
        try:
            read[run.id] = now, _curve(run.kind, store.rows(run.id, _FILES[run.kind]))
        except (OSError, ValueError, KeyError, TypeError):  # it comes or goes at this moment
            return read[run.id][1] if run.id in read else None
    return read[run.id][1]


def _curve(kind: str, rows: Sequence[Mapping[str, Any]]) -> Curve | None:
    if kind == "plan":
        found = [(row["iteration"], _positive(row.get("error"), row.get("residual"))) for row in rows]
        pairs = [(x, y) for x, y in found if y is not None]
    else:
        pairs = [(row["steps"], row["score"]) for row in rows if row.get("score") is not None]
    if not pairs:
        return None
    x, y = np.array(pairs, float).T
    return _thinned(x, y if kind == "plan" else last_games_mean(y))


def last_games_mean(scores: np.ndarray) -> np.ndarray:
    """(n,): mean of the last 100 of the scores (n,) at each, of fewer at the beginning."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    ends = np.arange(1, len(scores) + 1)
    starts = np.maximum(ends - LAST_GAMES, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _thinned(x: np.ndarray, y: np.ndarray) -> Curve:
    """Points as evenly spaced along x as the curve has them, with both ends."""
    if len(x) <= POINTS:
        return x, y
    kept = np.unique(np.searchsorted(x, np.linspace(x[0], x[-1], POINTS)))
    return x[kept], y[kept]


def _mean(curves: Sequence[Curve]) -> list[list[float]]:
    """Points (x, mean, low, high) of several curves; none of one, which is its own mean."""
    if len(curves) < 2:
        return []
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if last <= first:
        return []
    grid = np.linspace(first, last, POINTS)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])
    ends = [mean_interval(column) for column in values.T]
    return [
        [_rounded(value) for value in (at, mean, *interval)]
        for at, mean, interval in zip(grid, values.mean(0), ends, strict=True)
    ]


def _points(x: Iterable[float], y: Iterable[float]) -> list[list[float]]:
    return [[_rounded(at), _rounded(value)] for at, value in zip(x, y, strict=True)]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _positive(*values: Any) -> float | None:
    """The first that a logarithmic axis can show."""
    return next((float(value) for value in values if isinstance(value, int | float) and value > 0), None)
