"""The study of a training: its rows and the ranks of its Q, small enough to be kept in git.

A training is a run of its own, which the study comes after (`svrl.runs.train_run`). Environments that can be saved lead
to the same rows when a training was interrupted. Atari's cannot: its games begin anew where a training is resumed, so a
training that was interrupted is a valid one, but not the same as one that was not.

    {"what": "curve", "steps": [...], "score": [...]}       mean of the last 100 games, at most 200 points
    {"what": "score", "last_100": ..., "evaluation": ..., "evaluation_scores": [...]}
    {"what": "learning", "steps": [...], "q_mean": [...], ...}     diagnostics, at most 80 points
    {"what": "q_star", "steps": [...], "greedy_loss": [...], ...}     against the best Q, on control tasks, at most 80
    {"what": "rank", "energy": ..., "centred": ..., "mean": ..., "histogram": [...]}      four of them
    {"what": "features", "feature_rank": ..., "srank": ..., "dormant": ..., "q_mean": ...}
    {"what": "estimation", "scale": ..., "held_out": ..., "row_max_bias": ..., ...}    two; older runs have none
    {"what": "optimism", "value": ..., "gained": ..., "optimism": ..., ...}    where it is known; older runs have none
    {"what": "speed", "steps_per_second": ..., "hours": ..., "device": ..., "torch": ...}    of the training, which may
                                        have been elsewhere than the study; the only row that is not the same every time

Points lie at equal distances of agent steps, the same for all seeds of a budget, and begin with the first game
that has ended. Numbers have five significant digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from svrl.runs.spec import Result, Work
from svrl.runtime.rows import read_rows
from svrl.runtime.run_directory import EPISODES, LEARNING, Q_STAR, RESULT, read_config

CURVE_POINTS = 200
TRACE_POINTS = 80
TRACED = (
    "loss",
    "q_mean",
    "q_max",
    "target_bias",
    "row_max_bias",
    "rank_99",
    "rank_9999",
    "row_centred_rank_99",
    "feature_rank",
    "dormant",
)
AGAINST_Q_STAR = ("greedy_loss", "mean_error", "value_error", "advantage_error")
_FEATURES = ("feature_rank", "srank", "dormant", "q_mean", "q_std", "q_min", "q_max")
_DIGITS = 5


def study(settings: Mapping[str, Any], work: Work) -> Result:
    """Rows of the one training that it comes after."""
    from svrl.agents.agent import load_agent
    from svrl.agents.study import rank_study

    (folder,) = work.after
    ranks = rank_study(
        load_agent(folder, device=work.device),
        batches=settings["batches"],
        states=settings["states"],
        seed=settings["seed"],
    )
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    rows = [*map(shortened, rows_of_run(folder, result)), *rows_of_study(ranks.as_json())]
    begun = read_config(folder)
    trained = {"machine": begun["machine"], "torch": begun["versions"]["torch"], "commit": begun["commit"]}
    return Result(rows=rows, trained=trained)


def rows_of_run(folder: Path, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Curve, score, diagnostics and speed of a finished run, whose result.json holds `result`."""
    evaluation = result["evaluation"] or {}
    speed = result["steps_per_second"]
    return [
        {"what": "curve", **_curve(read_rows(folder / EPISODES), result["steps"])},
        {
            "what": "score",
            "last_100": result["score_last_100"],
            "games": result["episodes"],
            "evaluation": evaluation.get("mean"),
            "evaluation_scores": evaluation.get("scores", []),
            "updates": result["updates"],
        },
        {"what": "learning", **_thinned_rows(read_rows(folder / LEARNING), TRACED)},
        *against_q_star(folder / Q_STAR),
        {
            "what": "speed",
            "steps_per_second": speed,
            "hours": result["steps"] / speed / 3600.0 if speed else None,
            "device": result["device"],
            "torch": read_config(folder)["versions"]["torch"],
        },
    ]


def rows_of_study(study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ranks and features, from what `RankStudy.as_json` gives."""
    about = {name: study[name] for name in ("batches", "batch_size", "states", "actions")}
    ranks = [
        {
            "what": "rank",
            "energy": study[f"{tight}energy"],
            "centred": bool(centred),
            "mean": study[f"{tight}{centred}mean"],
            "histogram": list(study[f"{tight}{centred}histogram"]),
            **about,
        }
        for centred in ("", "row_centred_")
        for tight in ("", "tight_")
    ]
    others = [
        {"what": "features", **{name: study[name] for name in _FEATURES}},
        *({"what": "estimation", **found} for found in study["estimation"]),
        *([{"what": "optimism", **study["optimism"]}] if study["optimism"] else []),
    ]
    return [*ranks, *map(shortened, others)]


def thinned(steps: np.ndarray, values: np.ndarray, length: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The last value at or before each of `points` equal distances of `length` steps, from the first value on.

    Args:
        steps: When each value was there, (n,), ascending.
        values: (n,).
        length: Steps of the whole training.
        points: Most points that are left.

    Returns:
        Steps and values, (m,) each with m <= points; both empty if there is no value.
    """
    grid = length * np.arange(1, points + 1) // points
    at = np.searchsorted(steps, grid, side="right") - 1
    known = at >= 0
    return grid[known], values[at[known]]


def shortened(value: Any) -> Any:
    """Numbers with five significant digits, also those in lists and rows; None for what is not finite."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _curve(episodes: Sequence[Mapping[str, Any]], length: int) -> dict[str, list[Any]]:
    from svrl.plots.learning import smoothed

    steps = np.array([row["steps"] for row in episodes], dtype=np.int64)
    scores = smoothed(np.array([row["score"] for row in episodes], dtype=np.float64))
    grid, values = thinned(steps, scores, length, CURVE_POINTS)
    return {"steps": grid.tolist(), "score": values.tolist()}


def against_q_star(path: Path) -> list[dict[str, Any]]:
    """The row of a comparison with the best Q; none where there is no such file, or nothing in it."""
    rows = read_rows(path)
    return [{"what": "q_star", **_thinned_rows(rows, AGAINST_Q_STAR)}] if rows else []


def _thinned_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, list[Any]]:
    every = max(1, math.ceil(len(rows) / TRACE_POINTS))
    kept = rows[::-1][::every][::-1]  # the last one stays
    return {
        "steps": [row["steps"] for row in kept],
        **{name: shortened([row.get(name) for row in kept]) for name in columns},
    }
