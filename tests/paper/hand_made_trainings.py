"""Trainings that were never trained: rows as `svrl.paper.experiments.study` documents them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from svrl.envs.atari_games import GAMES
from svrl.paper.claim import Evidence
from svrl.plots.style import PREFIX
from svrl.runs.store import HERE, Kept

ACTIONS = 18


def histogram(rank: float, batches: int = 100) -> list[int]:
    """Batches of two neighbouring ranks whose mean is `rank`."""
    low = int(rank)
    upper = round(batches * (rank - low))
    counts = [0] * (ACTIONS + 1)
    counts[low] += batches - upper
    if upper:
        counts[low + 1] += upper
    return counts


def training(
    env: str,
    arm: str,
    seed: int,
    score: float,
    *,
    ranks: Sequence[float] = (1.0, 2.0, 9.0, 15.0),
    curve: Sequence[float] | None = None,
    batch_size: int = 32,
    optimism: tuple[float, float] | None = None,
    estimation: Mapping[str, tuple[float | None, float]] | None = None,
) -> Kept:
    """A training that ended at `score`.

    Args:
        env, arm, seed: Of the training.
        score: Mean of the last 100 games.
        ranks: Mean ranks at 99% and 99.99% of the energy, then the same with rows centred.
        curve: Ten scores over time; a line up to `score` by default.
        batch_size: Of the updates.
        optimism: Mean value and mean return; None leaves the row out, as older trainings do.
        estimation: Error beyond the row's mean, and share of best actions kept, by scaling; None leaves them out.
    """
    heights = [score * k / 10 for k in range(1, 11)] if curve is None else list(curve)
    kinds = ((0.99, False), (0.9999, False), (0.99, True), (0.9999, True))
    rows: list[dict[str, Any]] = [
        {"what": "curve", "steps": [100 * k for k in range(1, 11)], "score": heights},
        {"what": "score", "last_100": score, "games": 500, "evaluation": score, "evaluation_scores": [score]},
        {"what": "learning", "steps": [1000], "q_mean": [1.0], "row_max_bias": [0.01]},
        *(
            {"what": "rank", "energy": energy, "centred": centred, "mean": rank, "histogram": histogram(rank)}
            for (energy, centred), rank in zip(kinds, ranks, strict=True)
        ),
        {"what": "features", "feature_rank": 20.0, "srank": 10, "dormant": 0.1},
        {"what": "speed", "steps_per_second": 100.0, "hours": 1.0},
        *_value_rows(optimism, estimation or {}),
    ]
    overrides = {} if batch_size == 32 else {"batch_size": batch_size}
    settings = {"env": env, "arm": arm, "seed": seed, "preset": "short", "steps": 1000, "overrides": overrides}
    return Kept(kind="training", settings=settings, id=str(settings), rows=rows, provenance={}, source=HERE, load=dict)


def _value_rows(
    optimism: tuple[float, float] | None, estimation: Mapping[str, tuple[float | None, float]]
) -> list[dict[str, Any]]:
    estimates = [
        {"what": "estimation", "scale": scale, "p": 0.9, "beyond_row_mean": error, "best_kept": kept}
        for scale, (error, kept) in estimation.items()
    ]
    if optimism is None:
        return estimates
    value, gained = optimism
    return [*estimates, {"what": "optimism", "value": value, "gained": gained, "optimism": value - gained}]


def seeds(env: str, arm: str, scores: Sequence[float], make: Callable[..., Kept] = training, **more: Any) -> list[Kept]:
    """One training a score."""
    return [make(env, arm, seed, score, **more) for seed, score in enumerate(scores)]


def pair(
    game: str,
    gain: float,
    rank: float = 2.0,
    *,
    kind: str = "dqn",
    others: Sequence[float] = (13.0, 14.0, 16.0),
    count: int = 3,
    spread: float = 1.0,
    batch_size: int = 32,
) -> list[Kept]:
    """So many seeds of a plain and a structured arm on a game of Atari.

    Their scores lie up to `spread` around means whose relative gain is `gain`; `rank` is that of both.
    """
    better, worse = 1000.0, 1000.0 * (1 - abs(gain))
    means = {kind: worse if gain >= 0 else better, f"sv-{kind}": better if gain >= 0 else worse}
    around = np.linspace(-spread, spread, count) + GAMES[game].random_score
    return [
        kept
        for arm, mean in means.items()
        for kept in seeds(f"atari/{game}", arm, list(mean + around), ranks=(rank, *others), batch_size=batch_size)
    ]


def evidence(*groups: list[Kept], scale: str = "full") -> Evidence:
    """All of them as evidence."""
    return Evidence(scale=scale, words="made by hand", runs=tuple(kept for group in groups for kept in group))


def series_of(figure: Figure) -> set[str]:
    """Names of the series that a figure's artists are marked with."""
    found = (artist.get_gid() for artist in figure.findobj() if artist.get_gid())
    return {str(name).removeprefix(PREFIX) for name in found}
