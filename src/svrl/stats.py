"""Every statistic over seeds, games and environments that claims, tables and figures use, in one place.

**One group of seeds.** `mean_interval` is Student's t below ten values, mean +- t(.975, n - 1) s / sqrt(n), which is
wide for three, as it should be. From ten on it is the percentile bootstrap of the mean (Efron, 1979), which needs no
normal distribution.

**Groups with spreads of their own.** `welch_interval` is that of a mean of means, or of a difference of two, with
Satterthwaite's degrees of freedom.

**Many games and seeds**, after Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
NeurIPS 2021. Scores are normalised beforehand, so that games can be compared. They come as an array (..., runs, games),
or, where games have different numbers of runs, as a sequence with the scores (..., runs) of each game. Leading axes are
batches. Games weigh the same however many runs they have.

- `iqm`: the mean of the middle half of all runs of all games, floor(N / 4) of N cut off at each end;
- `mean_score`: the mean over games of each game's mean over runs;
- `probability_of_improvement`: the mean over games of P(X > Y) + P(X = Y) / 2 for runs X of ours and Y of theirs, which
  is the Mann-Whitney statistic over the number of pairs.

`stratified_interval` draws runs again within each game, independently for each game and each set of scores. Games are
not drawn again: the interval is about other seeds, not about other games. A game with one run adds no width, which is
why this is not `scipy.stats.bootstrap`: that refuses such a game. Few runs make intervals too narrow: with normal
scores in 6 games, a 95% interval of the interquartile mean held the truth in 85% of cases with 3 runs, in 89% with 5
and in 93% with 10. Where every run of ours beats every run of theirs, every draw does too: the interval of the
probability of improvement is (1, 1) however few they are.

**Pairs of numbers.** `rank_correlation` is Kendall's tau-b, with an interval over games.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

LEVEL = 0.95
FEW = 10
"""Below so many values the bootstrap's quantiles are too narrow."""
RESAMPLES = 2000
Interval = tuple[float, float]
Scores = np.ndarray | Sequence[np.ndarray]
"""(..., runs, games), or for each game (..., runs)."""
Statistic = Callable[..., np.ndarray]
"""Of one or more sets of scores; it must keep their leading axes."""


def mean_interval(values: Iterable[float]) -> Interval:
    """The 95% interval (low, high) of the mean of independent values: Student's below `FEW`, else the bootstrap's.

    Raises:
        ValueError: If there are fewer than 2 values, or some are not finite: one seed has no interval.
    """
    found = np.array(list(values), float)
    if len(found) < FEW:
        return student_interval(found)
    low, high = bootstrap_interval(_finite(found), resamples=4000)
    return float(low), float(high)


def interval_if_several(values: Iterable[float]) -> Interval | None:
    """The same, or None where there are fewer than 2 values: for pictures of a single seed."""
    found = list(values)
    return mean_interval(found) if len(found) > 1 else None


def student_interval(values: ArrayLike) -> Interval:
    """The 95% interval of the mean of values (n,) by Student's t, however many there are.

    Raises:
        ValueError: As `mean_interval`.
    """
    found = np.asarray(values, float)
    if len(found) < 2:
        raise ValueError(f"An interval needs at least 2 values, got {len(found)}. Run more seeds.")
    half = _student(len(found) - 1) * float(_finite(found).std(ddof=1)) / math.sqrt(len(found))
    return float(found.mean()) - half, float(found.mean()) + half


def welch_interval(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike] = ()) -> Interval:
    """The 95% interval of the mean over groups of each group's mean, or of the difference of two such means (Welch).

    With v = s^2 / n for the variance s^2 and the number n of the values of a group, the half-width is
    t(.975, nu) sqrt(sum v) / G, where nu = (sum v)^2 / sum(v^2 / (n - 1)) and G groups are averaged. A group of a
    single value counts as exact.

    Args:
        ours: The values of each group, (n,). One group and one other are the usual comparison of two means.
        theirs: What is taken off, in the same way.

    Raises:
        ValueError: If all groups are single values.
    """
    groups = [np.asarray(values, float) for values in (*ours, *theirs)]
    several = [values for values in groups if len(values) > 1]
    if not several:
        raise ValueError("An interval of a difference needs 2 values on one side, got 1 on each. Run more seeds.")
    middle = float(np.mean([values.mean() for values in groups[: len(ours)]]))
    if len(theirs):
        middle -= float(np.mean([values.mean() for values in groups[len(ours) :]]))
    parts = np.array([values.var(ddof=1) / len(values) for values in several])
    if not parts.any():
        return middle, middle
    freedom = float(parts.sum() ** 2 / (parts**2 / np.array([len(values) - 1 for values in several])).sum())
    half = _student(freedom) * math.sqrt(float(parts.sum())) / len(ours)
    return middle - half, middle + half


def mean_over_games_interval(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray] = ()) -> Interval | None:
    """`welch_interval` with a game for a group; None if a game has one seed, since nobody knows how sure that is."""
    return None if min(map(len, (*ours, *theirs))) < 2 else welch_interval(ours, theirs)


def bootstrap_interval(
    values: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap of the mean over the first axis of values (n, ...); each end has the other axes, (...).

    The values are drawn again with replacement, the same draws at each place. With few it is too narrow, and with one
    it is a point.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"A bootstrap needs a level in (0, 1), got {level}.")
    found = np.asarray(values, float)
    drawn = np.random.default_rng(seed).integers(len(found), size=(resamples, len(found)))
    return ends(np.apply_along_axis(lambda column: column[drawn].mean(1), 0, found), level)


def ends(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The ends between which the middle `level` of the draws (resamples, ...) lie, (...) each."""
    low, high = np.quantile(draws, [(1.0 - level) / 2, (1.0 + level) / 2], axis=0)
    return low, high


def iqm(scores: Scores) -> np.ndarray:
    """Interquartile mean over runs and games, (...); a number for one set of scores."""
    games = _by_game(scores)
    pooled = np.concatenate(games, axis=-1)
    weights = np.concatenate([np.full(game.shape[-1], 1.0 / (len(games) * game.shape[-1])) for game in games])
    cut = (len(weights) // 4) / len(weights)
    order = np.argsort(pooled, axis=-1, kind="stable")
    mass = np.cumsum(weights[order], axis=-1)
    inside = np.diff(np.clip(mass, cut, 1.0 - cut), axis=-1, prepend=cut)
    return (inside * np.take_along_axis(pooled, order, axis=-1)).sum(-1) / inside.sum(-1)


def mean_score(scores: Scores) -> np.ndarray:
    """Mean over games of the mean over runs, (...)."""
    return np.stack([game.mean(-1) for game in _by_game(scores)], axis=-1).mean(-1)


def probability_of_improvement(ours: Scores, theirs: Scores) -> np.ndarray:
    """That a run of ours beats one of theirs in a game drawn at random, (...); ties count half.

    Args:
        ours: Scores of one algorithm.
        theirs: Scores of another in the same games in the same order; the numbers of runs may differ.
    """
    pairs = _by_game(ours), _by_game(theirs)
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(
            f"Both sets of scores must be of the same games, got {len(pairs[0])} and {len(pairs[1])} games. "
            "Leave out the games that only one of them has."
        )
    wins = []
    for x, y in zip(*pairs, strict=True):
        difference = x[..., :, None] - y[..., None, :]
        wins.append((0.5 + 0.5 * np.sign(difference)).mean((-2, -1)))
    return np.stack(wins, axis=-1).mean(-1)


def stratified_interval(statistic: Statistic, *scores: Scores, resamples: int = RESAMPLES) -> Interval:
    """Stratified percentile bootstrap of a number, over runs: its 95% interval. The order of the runs does not matter.

    Args:
        statistic: Called once, as statistic(*drawn), with every set of scores drawn again along a new first axis
            (resamples, ...); it returns one number for each, (resamples,). Those of this file do.
        *scores: What the statistic takes, without leading axes. Each set is drawn independently.
        resamples: How often to draw.

    Example:
        stratified_interval(probability_of_improvement, ours, theirs)
        stratified_interval(lambda x, y: iqm(x) - iqm(y), ours, theirs)
    """
    rng = np.random.default_rng(0)
    sets = [_by_game(each) for each in scores]
    if max((game.shape[-1] for games in sets for game in games), default=0) < 2:
        raise ValueError("A bootstrap over runs needs a game with at least 2 runs, got 1 run of each. Add seeds.")
    drawn: list[Scores] = []
    for given, games in zip(scores, sets, strict=True):
        # Sorted first, so that the order of the runs does not matter.
        fresh = [np.sort(game)[rng.integers(len(game), size=(resamples, len(game)))] for game in games]
        drawn.append(np.stack(fresh, axis=-1) if isinstance(given, np.ndarray) else fresh)
    values = np.asarray(statistic(*drawn))
    if values.shape != (resamples,):
        raise ValueError(
            f"The statistic must give one number for each of {resamples} resamples, got shape {values.shape}. "
            "Reduce the last axes, and keep the first."
        )
    low, high = ends(values)
    return float(low), float(high)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b of one pair of numbers for each game, x and y (games,), in [-1, 1].

    Tau-b and not Spearman's rho for two reasons. Approximate ranks are small whole numbers with many ties, which
    it accounts for. And a game that is drawn twice in a bootstrap ties with itself, which leaves tau-b as it is.
    It is NaN where all x or all y are equal.
    """
    return float(_tau_b(x, y, np.ones((1, len(x))))[0])


def rank_correlation_interval(x: np.ndarray, y: np.ndarray, *, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap of `rank_correlation` over games: its 95% interval.

    It is about other games, not about other seeds. Draws in which all x or all y are equal have no correlation
    and are left out. A few games are in perfect order by luck, with probability 2 / games!, and then so is every draw.
    Where that probability exceeds 5%, with fewer than 5 games, the interval is (-1, 1).
    """
    games = len(x)
    if 2 / math.factorial(games) > 1.0 - LEVEL:
        return -1.0, 1.0
    times = np.random.default_rng(0).multinomial(games, np.full(games, 1.0 / games), size=resamples)
    taus = _tau_b(x, y, times.astype(np.float64))
    low, high = ends(taus[np.isfinite(taus)])
    return float(low), float(high)


def _tau_b(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(B,): tau-b where game i is there times[b, i] times, times (B, games); NaN where x or y has one value.

    `scipy.stats.kendalltau` is the oracle in the tests; thousands of resamples at once are matrix products here.
    """
    order_x, order_y = (np.sign(values[:, None] - values[None, :]) for values in (x.astype(float), y.astype(float)))
    concordant, apart_x, apart_y = (
        ((times @ signs) * times).sum(-1) for signs in (order_x * order_y, order_x**2, order_y**2)
    )
    norm = np.sqrt(apart_x * apart_y)
    return np.divide(concordant, norm, out=np.full(len(times), np.nan), where=norm > 0)


def _by_game(scores: Scores) -> list[np.ndarray]:
    """The scores of each game, (..., runs), float64."""
    if isinstance(scores, np.ndarray):
        if scores.ndim < 2:
            raise ValueError(f"Scores must be (runs, games), got shape {scores.shape}. Use scores[:, None] for a game.")
        games = list(np.moveaxis(scores.astype(np.float64), -1, 0))
    else:
        games = [np.asarray(game, np.float64) for game in scores]
    if not games or any(game.ndim < 1 or game.shape[-1] < 1 for game in games):
        raise ValueError(f"Scores need a run of every game, got runs {[np.shape(game)[-1:] for game in games]}.")
    if not all(np.isfinite(game).all() for game in games):
        raise ValueError("Scores must be finite, got NaN or infinity. Leave out the runs that have no score.")
    return games


def _student(freedom: float) -> float:
    """The quantile of Student's t that leaves out half of 1 - `LEVEL` above it."""
    from scipy.stats import t as student  # slow to import, and not needed to train

    return float(student.ppf((1.0 + LEVEL) / 2, freedom))


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError(f"An interval needs finite values, got {values.tolist()}. Look at the run that gave them.")
    return values
