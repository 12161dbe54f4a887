"""One number over many games and seeds, and how sure it is.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
Scores are normalised beforehand, so that games can be compared. They come as an array (..., runs, games), or,
where games have different numbers of runs, as a sequence with the scores (..., runs) of each game. Leading
axes are batches. Games weigh the same however many runs they have.

- interquartile mean: the mean of the middle half of all runs of all games, floor(N / 4) of N cut off at each end;
- median, mean: over games, of each game's mean over runs;
- optimality gap: the mean of max(0, target - score);
- probability of improvement: the mean over games of P(X > Y) + P(X = Y) / 2 for runs X of ours and Y of theirs,
  which is the Mann-Whitney statistic over the number of pairs;
- performance profile: at each threshold, the share of runs with a higher score.

Intervals are by stratified percentile bootstrap: runs are drawn again within each game, independently for each
game and each set of scores. Games are not drawn again: an interval is about other seeds, not about other games.
A game with one run adds no width, and few runs make intervals too narrow: with normal scores in 6 games, a 95%
interval of the interquartile mean held the truth in 85% of cases with 3 runs, in 89% with 5 and in 93% with 10. Where
every run of ours beats every run of theirs, every draw does too: the interval of the probability of improvement is
(1, 1) however few they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Scores = np.ndarray | Sequence[np.ndarray]
"""(..., runs, games), or for each game (..., runs)."""
Statistic = Callable[..., np.ndarray]
"""Of one or more sets of scores; it must keep their leading axes."""
RESAMPLES = 2000
LEVEL = 0.95


def iqm(scores: Scores) -> np.ndarray:
    """Interquartile mean over runs and games, (...); a number for one set of scores."""
    games = _by_game(scores)
    pooled = np.concatenate(games, axis=-1)
    weights = np.concatenate([np.full(game.shape[-1], 1.0 / (len(games) * game.shape[-1])) for game in games])
    cut = (len(weights) // 4) / len(weights)
    order = np.argsort(pooled, axis=-1, kind="stable")
    ends = np.cumsum(weights[order], axis=-1)
    inside = np.diff(np.clip(ends, cut, 1.0 - cut), axis=-1, prepend=cut)
    return (inside * np.take_along_axis(pooled, order, axis=-1)).sum(-1) / inside.sum(-1)


def median_score(scores: Scores) -> np.ndarray:
    """Median over games of the mean over runs, (...)."""
    return np.median(_game_means(_by_game(scores)), axis=-1)


def mean_score(scores: Scores) -> np.ndarray:
    """Mean over games of the mean over runs, (...)."""
    return _game_means(_by_game(scores)).mean(-1)


def optimality_gap(scores: Scores, target: float = 1.0) -> np.ndarray:
    """How far runs stay below the target, on average, (...); what exceeds it does not count."""
    return _game_means([np.maximum(target - game, 0.0) for game in _by_game(scores)]).mean(-1)


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


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs that score above each of the thresholds (T,), (..., T)."""
    limits = np.asarray(thresholds, np.float64)
    return np.mean([(game[..., None] > limits).mean(-2) for game in _by_game(scores)], axis=0)


def interval(
    statistic: Statistic, *scores: Scores, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[float, float]:
    """Stratified bootstrap interval of a number. The order of the runs does not matter.

    Args:
        statistic: Called once, as statistic(*drawn), with every set of scores drawn again along a new first axis
            (resamples, ...); it returns one number for each, (resamples,). Those of this file do.
        *scores: What the statistic takes, without leading axes. Each set is drawn independently.
        resamples: How often to draw.
        level: Share of the resamples that lie inside.
        seed: Of the draws.

    Example:
        interval(probability_of_improvement, ours, theirs)
        interval(lambda x, y: iqm(x) - iqm(y), ours, theirs)
    """
    low, high = band(statistic, *scores, resamples=resamples, level=level, seed=seed)
    if np.ndim(low) != 0:
        raise ValueError(
            f"An interval is of one number, got a statistic with shape {np.shape(low)}. Use band for several."
        )
    return float(low), float(high)


def band(
    statistic: Statistic, *scores: Scores, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The same as `interval` for each of several numbers: the statistic returns (resamples, T), the ends are (T,).

    Each is an interval of its own; they do not hold all at once.

    Example:
        band(lambda x: performance_profile(x, thresholds), ours)
    """
    _check(resamples, level)
    rng = np.random.default_rng(seed)
    sets = [_by_game(each) for each in scores]
    if max((game.shape[-1] for games in sets for game in games), default=0) < 2:
        raise ValueError("A bootstrap over runs needs a game with at least 2 runs, got 1 run of each. Add seeds.")
    drawn: list[Scores] = []
    for given, games in zip(scores, sets, strict=True):
        fresh = [_redrawn(game, resamples, rng) for game in games]
        drawn.append(np.stack(fresh, axis=-1) if isinstance(given, np.ndarray) else fresh)
    values = np.asarray(statistic(*drawn))
    if values.shape[:1] != (resamples,):
        raise ValueError(
            f"The statistic must keep the first axis of {resamples} resamples, got shape {values.shape}. "
            "Reduce the last axes only."
        )
    return _ends(values, level)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b of one pair of numbers for each game, x and y (games,), in [-1, 1].

    Tau-b and not Spearman's rho for two reasons. Approximate ranks are small whole numbers with many ties, which
    it accounts for. And a game that is drawn twice in a bootstrap ties with itself, which leaves tau-b as it is.
    """
    first, second = _pairs(x, y)
    return float(_tau_b(first, second, np.ones((1, len(first))))[0])


def rank_correlation_interval(
    x: np.ndarray, y: np.ndarray, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of `rank_correlation` over games.

    It is about other games, not about other seeds. Draws in which all x or all y are equal have no correlation
    and are left out. A few games are in perfect order by luck, with probability 2 / games!, and then so is every draw.
    Where that probability exceeds 1 - level (fewer than 5 games at 95%) the interval is (-1, 1).
    """
    _check(resamples, level)
    first, second = _pairs(x, y)
    games = len(first)
    if 2 / math.factorial(games) > 1.0 - level:
        return -1.0, 1.0
    times = np.random.default_rng(seed).multinomial(games, np.full(games, 1.0 / games), size=resamples)
    taus = _tau_b(first, second, times.astype(np.float64))
    low, high = _ends(taus[np.isfinite(taus)], level)
    return float(low), float(high)


def _tau_b(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(B,): tau-b where game i is there times[b, i] times, times (B, games); NaN where x or y has one value."""
    order_x, order_y = (np.sign(values[:, None] - values[None, :]) for values in (x, y))
    concordant, apart_x, apart_y = (
        ((times @ signs) * times).sum(-1) for signs in (order_x * order_y, order_x**2, order_y**2)
    )
    norm = np.sqrt(apart_x * apart_y)
    return np.divide(concordant, norm, out=np.full(len(times), np.nan), where=norm > 0)


def _pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"A rank correlation needs x and y for each game, (games,), got shapes {first.shape} and {second.shape}. "
            "Leave out the games that lack one."
        )
    if not np.isfinite([first, second]).all():
        raise ValueError("A rank correlation needs finite numbers, got NaN or infinity. Leave out those games.")
    for name, values in (("x", first), ("y", second)):
        if len(np.unique(values)) < 2:
            raise ValueError(
                f"A rank correlation needs values that differ, got {len(values)} games with no two different {name}. "
                "Add games."
            )
    return first, second


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


def _game_means(games: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([game.mean(-1) for game in games], axis=-1)


def _redrawn(game: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples, runs) from the runs (runs,) of a game, sorted first so that their order does not matter."""
    if game.ndim != 1:
        raise ValueError(f"A bootstrap needs scores (runs, games), got {game.ndim - 1} more axes. Call it for each.")
    return np.sort(game)[rng.integers(len(game), size=(resamples, len(game)))]


def _ends(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.quantile(values, [(1.0 - level) / 2, (1.0 + level) / 2], axis=0)
    return low, high


def _check(resamples: int, level: float) -> None:
    if resamples < 100 or not 0.0 < level < 1.0:
        raise ValueError(
            f"A bootstrap needs at least 100 resamples and a level in (0, 1), got {resamples} and {level}."
        )
