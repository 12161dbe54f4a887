"""What structure gains: a structured arm against its plain twin on the same environments.

- probability of improvement: that a structured run beats a plain one in an environment drawn at random;
- difference: structured less plain, of interquartile means over the runs of all environments; of means where
  there is one environment. Scores are human-normalised on Atari. Elsewhere they are raw, and divided by the plain arm's
  mean where there are several environments, whose scores differ by orders of magnitude;
- relative gain of one environment: (structured - plain) / (the better of the two - random), cut to [-1, 1], which
  it is anyway where both beat a random player. It is what an eye sees in a panel whose axis ends at the better curve;
- label: better or worse if the relative gain exceeds 10%, similar otherwise.

Intervals are 95%, by resampling seeds within each environment (stratified bootstrap). Where the seeds are too few to
tell two arms apart at all there is none: see `can_tell`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.reading import ATARI, SCORES, Measure, normalised, random_score, score_of, values
from svrl.stats import Statistic, iqm, mean_score, probability_of_improvement, stratified_interval

LEVEL = 0.05
MARGIN = 0.1
"""Relative gain that counts as a difference."""
Interval = tuple[float, float]
Transform = Callable[[np.ndarray], np.ndarray]
"""Of relative gains (..., envs) to a number for each, (...)."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A structured arm against its plain twin.

    Attributes:
        envs: Environments that both were trained on.
        seeds: The fewest trainings of an environment.
        improvement: Probability of improvement, with its interval.
        difference: Of scores, see above, with its interval; one environment has no interval of it.
        relative: Of each environment, (envs,); NaN if they are compared by something else than a score, of which nobody
            knows what a random player has.
    """

    envs: tuple[str, ...]
    seeds: int
    improvement: float
    improvement_interval: Interval | None
    difference: float
    difference_interval: Interval | None
    relative: np.ndarray

    def __str__(self) -> str:
        ends = shown(self.improvement_interval)
        unit = "human-normalised " if self.envs[0].startswith(ATARI) else "relative " if len(self.envs) > 1 else ""
        word = "IQM difference" if len(self.envs) > 1 else "difference"
        number = f"{self.difference:+.3g}{shown(self.difference_interval)}"
        return f"probability of improvement {self.improvement:.2f}{ends}, {unit}{word} {number}"


def gain_of(
    evidence: Evidence,
    plain: str,
    structured: str,
    envs: Sequence[str],
    *,
    measure: Measure = score_of,
    batch_size: int | None = None,
) -> Gain:
    """Compare two arms on environments that both were trained on, by a measure of which more is better.

    Raises:
        ValueError: If there is no environment.
    """
    if not envs:
        raise ValueError(f"{structured} and {plain} have no environment in common at {evidence.scale}.")
    raw = [values(evidence, arm, envs, measure, batch_size) for arm in (plain, structured)]
    theirs, ours = _comparable(raw, envs)
    enough = can_tell(*raw)

    def ends(statistic: Statistic) -> Interval | None:
        return stratified_interval(statistic, ours, theirs) if enough else None

    middle = iqm if len(envs) > 1 else mean_score
    return Gain(
        envs=tuple(envs),
        seeds=min(len(scores) for arm in raw for scores in arm),
        improvement=float(probability_of_improvement(ours, theirs)),
        improvement_interval=ends(probability_of_improvement),
        difference=float(middle(ours) - middle(theirs)),
        difference_interval=ends(lambda x, y: iqm(x) - iqm(y)) if len(envs) > 1 else None,
        relative=relative_gains(raw[0], raw[1], envs) if measure in SCORES else np.full(len(envs), np.nan),
    )


def can_tell(plain: Sequence[np.ndarray], structured: Sequence[np.ndarray]) -> bool:
    """Whether two arms, (seeds,) of each environment, could differ at the level of 5% at all.

    If all runs of one arm beat all of the other, the chance of that by luck is 2 over the number of ways to deal the
    runs of each environment to the two arms. Three against three in one environment have .1, and a bootstrap of so few
    would find differences where there are none.
    """
    sizes = [(len(x), len(y)) for x, y in zip(plain, structured, strict=True)]
    if min(min(pair) for pair in sizes) < 2:
        return False
    return 2.0 / math.prod(math.comb(n + m, n) for n, m in sizes) <= LEVEL


def _comparable(raw: Sequence[Sequence[np.ndarray]], envs: Sequence[str]) -> list[list[np.ndarray]]:
    """Scores of the plain and of the structured arm, (seeds,) of each environment, on one scale."""
    if len(envs) > 1 and not envs[0].startswith(ATARI):
        scales = [abs(float(scores.mean())) or 1.0 for scores in raw[0]]
        return [[scores / scale for scores, scale in zip(arm, scales, strict=True)] for arm in raw]
    return [[normalised(env, scores) for env, scores in zip(envs, arm, strict=True)] for arm in raw]


def relative_gains(plain: Sequence[np.ndarray], structured: Sequence[np.ndarray], envs: Sequence[str]) -> np.ndarray:
    """(..., envs) from the scores (..., seeds) of each environment; 0 where neither beats a random player."""
    found = []
    for env, theirs, ours in zip(envs, plain, structured, strict=True):
        base = random_score(env)
        before, after = theirs.mean(-1) - base, ours.mean(-1) - base
        best = np.maximum(before, after)
        change = np.divide(after - before, best, out=np.zeros_like(best), where=best > 0)
        found.append(np.clip(change, -1.0, 1.0))
    return np.stack(found, axis=-1)


def labels_of(relative: np.ndarray) -> np.ndarray:
    """1 for better, 0 for similar, -1 for worse, (..., envs)."""
    return np.where(relative > MARGIN, 1, np.where(relative < -MARGIN, -1, 0))


def resampled(
    statistic: Transform,
    evidence: Evidence,
    plain: str,
    structured: str,
    envs: Sequence[str],
    batch_size: int | None = None,
) -> Interval | None:
    """Interval of a statistic of `relative_gains` (resamples, envs) over seeds; None if they are too few."""
    raw = [values(evidence, arm, envs, batch_size=batch_size) for arm in (plain, structured)]
    if not can_tell(*raw):
        return None
    return stratified_interval(lambda x, y: statistic(relative_gains(x, y, envs)), *raw)


def percent(share: float) -> str:
    """A gain as in +7%; one that would round to nothing keeps its sign and two digits more."""
    return f"{share:+.0%}" if abs(share) >= 0.005 or share == 0.0 else f"{share:+.2%}"


def shown_percent(ends: Interval | None) -> str:
    """An interval behind its number, as in " (-31% to +24%)"; nothing where there is none."""
    return "" if ends is None else f" ({percent(ends[0])} to {percent(ends[1])})"


def shown(ends: Interval | None, digits: int = 2) -> str:
    """An interval behind its number, as in " (0.20 to 0.60)"; nothing where there is none."""
    return "" if ends is None else f" ({ends[0]:.{digits}f} to {ends[1]:.{digits}f})"
