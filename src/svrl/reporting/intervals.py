"""An interval for a mean over seeds, 95%: one rule for every claim and figure.

Below ten values it is Student's t, mean +- t(.975, n - 1) s / sqrt(n), which is wide for three and says so. From ten
on it is the percentile bootstrap of the mean, which does not ask for a normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

LEVEL = 0.95
FEW = 10
"""Below so many values the bootstrap's quantiles are too narrow."""
RESAMPLES = 4000


def mean_interval(values: Iterable[float]) -> tuple[float, float]:
    """The 95% interval (low, high) of the mean of independent values.

    Raises:
        ValueError: If there are fewer than 2 values, or some are not finite: one seed has no interval.
    """
    found = np.array(list(values), float)
    if len(found) < 2:
        raise ValueError(f"An interval needs at least 2 values, got {len(found)}. Run more seeds.")
    if not np.isfinite(found).all():
        raise ValueError(f"An interval needs finite values, got {found.tolist()}. Look at the run that gave them.")
    if len(found) >= FEW:
        rng = np.random.default_rng(0)
        means = found[rng.integers(len(found), size=(RESAMPLES, len(found)))].mean(1)
        low, high = np.quantile(means, [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2])
        return float(low), float(high)
    half = float(stats.t.ppf((1.0 + LEVEL) / 2, len(found) - 1)) * float(found.std(ddof=1)) / math.sqrt(len(found))
    return float(found.mean()) - half, float(found.mean()) + half


def interval_if_several(values: Iterable[float]) -> tuple[float, float] | None:
    """The same, or None where there are fewer than 2 values: for pictures of a single seed."""
    found = list(values)
    return mean_interval(found) if len(found) > 1 else None


def mean_over_games_interval(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray] = ()
) -> tuple[float, float] | None:
    """The 95% interval of the mean over games of each game's mean over seeds, or of the difference of two such means.

    It is Welch's: every game has its own variance, and the degrees of freedom are Satterthwaite's.

    Args:
        ours: For each game the values of its seeds, (seeds,).
        theirs: What is taken off, in the same way.

    Returns:
        (low, high), or None if a game has one seed.
    """
    groups = [np.asarray(seeds, float) for seeds in (*ours, *theirs)]
    if min(map(len, groups)) < 2:
        return None
    middle = float(np.mean([seeds.mean() for seeds in ours]))
    if len(theirs):
        middle -= float(np.mean([seeds.mean() for seeds in theirs]))
    parts = np.array([seeds.var(ddof=1) / len(seeds) for seeds in groups])
    if not parts.any():
        return middle, middle
    freedom = float(parts.sum() ** 2 / (parts**2 / np.array([len(seeds) - 1 for seeds in groups])).sum())
    half = float(stats.t.ppf((1.0 + LEVEL) / 2, freedom)) * math.sqrt(float(parts.sum())) / len(ours)
    return middle - half, middle + half
