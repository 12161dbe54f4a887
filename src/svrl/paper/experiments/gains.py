"""What structure gains: a structured arm against its plain twin on the same environments, and claims on that.

- probability of improvement: that a structured run beats a plain one in an environment drawn at random;
- difference: structured less plain, of interquartile means over the runs of all environments; of means where
  there is one environment. Scores are human-normalised on Atari. Elsewhere they are raw, and divided by the plain arm's
  mean where there are several environments, whose scores differ by orders of magnitude;
- relative gain of one environment: (structured - plain) / (the better of the two - random), cut to [-1, 1], which
  it is anyway where both beat a random player. It is what an eye sees in a panel whose axis ends at the better curve;
- label: better or worse if the relative gain exceeds 10%, similar otherwise;
- rank and gain: a game is a point, the mean rank of the plain agent's values over seeds, by one or another measure, and
  the relative gain of its structured twin. Over games they are put together by Kendall's tau-b.

Intervals are 95%, by resampling seeds within each environment (stratified bootstrap). Where the seeds are too few to
tell two arms apart at all there is none: see `can_tell`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiments import trainings
from svrl.paper.experiments.trainings import Measure, envs_of, mean_rank, score_of, title_of, values
from svrl.paper.verdicts import FULL, nothing_yet, settled, shown
from svrl.stats import (
    Interval,
    Statistic,
    interval_if_several,
    iqm,
    mean_score,
    probability_of_improvement,
    rank_correlation,
    rank_correlation_interval,
    stratified_interval,
)

LEVEL = 0.05
MARGIN = 0.1
"""Relative gain that counts as a difference."""
FEWEST_GAMES = 3
Transform = Callable[[np.ndarray], np.ndarray]
"""Of relative gains (..., envs) to a number for each, (...)."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A structured arm against its plain twin.

    Attributes:
        envs: Environments that both were trained on.
        improvement: Probability of improvement, with its interval.
        difference: Of scores, see above, with its interval; one environment has no interval of it.
    """

    envs: tuple[str, ...]
    improvement: float
    improvement_interval: Interval | None
    difference: float
    difference_interval: Interval | None

    def __str__(self) -> str:
        ends = shown(self.improvement_interval)
        word = "relative IQM difference" if len(self.envs) > 1 else "difference"
        if self.envs[0].startswith(trainings.ATARI):
            word = f"human-normalised {word.removeprefix('relative ')}"
        number = f"{self.difference:+.3g}{shown(self.difference_interval)}"
        return f"probability of improvement {self.improvement:.2f}{ends}, {word} {number}"


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
        improvement=float(probability_of_improvement(ours, theirs)),
        improvement_interval=ends(probability_of_improvement),
        difference=float(middle(ours) - middle(theirs)),
        difference_interval=ends(lambda x, y: iqm(x) - iqm(y)) if len(envs) > 1 else None,
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
    if len(envs) > 1 and not envs[0].startswith(trainings.ATARI):
        scales = [abs(float(scores.mean())) or 1.0 for scores in raw[0]]
        return [[scores / scale for scores, scale in zip(arm, scales, strict=True)] for arm in raw]
    return [[trainings.normalised(env, scores) for env, scores in zip(envs, arm, strict=True)] for arm in raw]


def relative_gains(plain: Sequence[np.ndarray], structured: Sequence[np.ndarray], envs: Sequence[str]) -> np.ndarray:
    """(..., envs) from the scores (..., seeds) of each environment; 0 where neither beats a random player."""
    found = []
    for env, theirs, ours in zip(envs, plain, structured, strict=True):
        base = trainings.random_score(env)
        before, after = theirs.mean(-1) - base, ours.mean(-1) - base
        best = np.maximum(before, after)
        change = np.divide(after - before, best, out=np.zeros_like(best), where=best > 0)
        found.append(np.clip(change, -1.0, 1.0))
    return np.stack(found, axis=-1)


def labels_of(relative: np.ndarray) -> np.ndarray:
    """1 for better, 0 for similar, -1 for worse, (..., envs)."""
    return np.where(relative > MARGIN, 1, np.where(relative < -MARGIN, -1, 0))


@dataclass(frozen=True)
class Panels:
    """Scores of plain and of structured trainings, panel by panel.

    A panel is an environment; several of them may be the same one with other arms or batch sizes.

    Attributes:
        envs: Of each panel.
        plain, structured: Of each panel (seeds,).
    """

    envs: tuple[str, ...]
    plain: tuple[np.ndarray, ...]
    structured: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, evidence: Evidence, plain: str, structured: str, wanted: Iterable[str], batch_size: int | None = None
    ) -> Panels:
        """Those of the wanted environments that both arms were trained on."""
        envs = tuple(envs_of(evidence, wanted, (plain, structured), batch_size))
        scores = (tuple(values(evidence, arm, envs, batch_size=batch_size)) for arm in (plain, structured))
        return cls(envs, *scores)

    def __add__(self, other: Panels) -> Panels:
        return Panels(self.envs + other.envs, self.plain + other.plain, self.structured + other.structured)

    def __len__(self) -> int:
        return len(self.envs)

    @property
    def gains(self) -> np.ndarray:
        """(panels,): the relative gains."""
        return relative_gains(self.plain, self.structured, self.envs)

    def ends(self, statistic: Transform) -> Interval | None:
        """Interval of a statistic of the relative gains (resamples, panels) over seeds; None if they are too few."""
        if not can_tell(self.plain, self.structured):
            return None
        return stratified_interval(lambda x, y: statistic(relative_gains(x, y, self.envs)), self.plain, self.structured)

    def where(self, chosen: np.ndarray) -> Panels:
        """Some of them, by a mask (panels,)."""
        some = np.flatnonzero(chosen)
        plain, structured = (tuple(scores[at] for at in some) for scores in (self.plain, self.structured))
        return Panels(tuple(self.envs[at] for at in some), plain, structured)

    def __str__(self) -> str:
        return ", ".join(f"{title_of(env)} {signed(gain)}" for env, gain in zip(self.envs, self.gains, strict=True))


def improved(evidence: Evidence, gain: Gain, note: str = "", budgets: Sequence[str] = (FULL,)) -> Finding:
    """Whether an arm improves on another: the interval of the probability of improvement lies above one half.

    Args:
        evidence: What it was judged from.
        gain: Of the arm over the other.
        note: What else to say.
        budgets: Scales that settle the claim.
    """
    ends = gain.improvement_interval
    return settled(evidence, ours=str(gain), value=gain.improvement, ends=ends, note=note, limit=0.5, budgets=budgets)


def mostly_low(
    evidence: Evidence,
    arm: str,
    wanted: Sequence[str],
    limit: int,
    *,
    centred: bool = False,
    budgets: Sequence[str] = (FULL,),
) -> Finding:
    """Whether most batches have a rank of at most `limit`, judged where the fewest have.

    With fewer environments than wanted it may fail, and cannot hold. The note has the share by the other definition:
    with row means taken out, or with them where `centred` judges without.
    """
    envs, expected = envs_of(evidence, wanted, (arm,)), len(wanted)
    if not envs:
        return nothing_yet(evidence)
    shares, others = (
        values(evidence, arm, envs, partial(trainings.share_at_most, rank=limit, centred=out))
        for out in (centred, not centred)
    )
    worst = min(range(len(envs)), key=lambda at: float(shares[at].mean()))
    share, ends = float(shares[worst].mean()), interval_if_several(shares[worst])
    if ends is not None:
        ends = max(ends[0], 0.0), min(ends[1], 1.0)  # Student's t does not know of shares
    least = min(float(seeds.mean()) for seeds in others)
    other = "left in" if centred else "taken out"
    return settled(
        evidence,
        None if len(envs) == expected else False,
        ours=f"{share:.0%}{shown(ends)} of the batches in {title_of(envs[worst])}, where they are fewest"
        + (f" of {len(envs)} of {expected} environments" if len(envs) < expected else ""),
        value=share,
        ends=ends,
        note=f"With row means {other} it is {least:.0%} where they are fewest.",
        limit=0.5,
        budgets=budgets,
    )


def ranks_of(evidence: Evidence, arm: str, envs: Sequence[str], rank: Measure = mean_rank) -> np.ndarray:
    """(envs,): mean rank over seeds."""
    return np.array([seeds.mean() for seeds in values(evidence, arm, envs, rank)])


def correlation(
    evidence: Evidence, plain: str, structured: str, wanted: Sequence[str], rank: Measure = mean_rank
) -> tuple[float, Interval | None, int]:
    """Kendall's tau-b of rank and gain, its interval over games, and the number of games; 0 if there are too few.

    Args:
        evidence: What to read.
        plain: Arm.
        structured: Its twin.
        wanted: Environments; those that were not trained are left out.
        rank: Of one training of the plain arm.
    """
    panels = Panels.of(evidence, plain, structured, wanted)
    ranks, gains = ranks_of(evidence, plain, panels.envs, rank), panels.gains if len(panels) else np.array([])
    if len(panels) < FEWEST_GAMES or len(set(ranks)) < 2 or len(set(gains)) < 2:
        return 0.0, None, 0
    return rank_correlation(ranks, gains), rank_correlation_interval(ranks, gains), len(panels)


def judge_falling(
    plain: str, structured: str, wanted: Sequence[str], evidence: Evidence, *, rank: Measure = mean_rank
) -> Finding:
    """Whether games of lower rank gain more: the interval of tau lies below 0."""
    tau, ends, games = correlation(evidence, plain, structured, wanted, rank)
    ours, note = f"Kendall's tau {tau:+.2f}{shown(ends)} over {games} games", "The interval is over games."
    if not games:
        envs = envs_of(evidence, wanted, (plain, structured))
        if len(envs) < FEWEST_GAMES:
            return nothing_yet(evidence)
        ours, note, ends = f"rank or gain is the same in all {len(envs)} games", "", (-1.0, 1.0)
    return settled(evidence, ours=ours, value=tau, ends=ends, note=note, limit=0.0, side=-1)


def signed(share: float) -> str:
    """A gain as in +7%; one that would round to nothing keeps its sign and two digits more."""
    return f"{share:+.0%}" if abs(share) >= 0.005 or share == 0.0 else f"{share:+.2%}"


def signed_ends(ends: Interval | None) -> str:
    """An interval behind its number, as in " (-31% to +24%)"; nothing where there is none."""
    return "" if ends is None else f" ({signed(ends[0])} to {signed(ends[1])})"


# Additions: structured arms and plain DQN on small environments.

PLAIN = "dqn"
SCALES = ("laptop", "short", "full")
"""All settle a claim, once all environments are there: it is ours, and each budget is one of its own."""


def improvement_claim(
    figure: str,
    name: str,
    arm: str,
    words: str,
    envs: Sequence[str],
    *,
    measure: Measure = score_of,
    says: str = "scores higher than plain DQN",
    by: str = "Mean of the last 100 games",
    difference: str = "the difference of the interquartile means over all environments, of the means where there is "
    "one",
) -> Claim:
    """That a structured arm is better than plain DQN.

    Args:
        figure, name: Of the claim.
        arm: The structured one.
        words: What the claim calls it.
        envs: Environments of the addition.
        measure: Of one training; more is better.
        says: What an arm does if the claim holds.
        by: The measure in words.
        difference: What the number beside the probability of improvement is.
    """
    return Claim(
        name=name,
        figure=figure,
        section="",
        says=f"{words} {says}.",
        paper="not in the paper, which says so of Atari games of low rank",
        test=f"{by}; holds if the interval of the probability of improvement over seeds, by resampling seeds within "
        f"each environment, lies above one half. Beside it stands {difference}.",
        judge=partial(judge_improvement, arm=arm, envs=envs, measure=measure),
        scales=SCALES,
    )


def judge_improvement(
    evidence: Evidence, *, arm: str, envs: Sequence[str], measure: Measure = score_of, plain: str = PLAIN
) -> Finding:
    """Whether an arm beats another, plain DQN by default; some of the environments settle nothing."""
    found = envs_of(evidence, envs, (plain, arm))
    if not found:
        return nothing_yet(evidence)
    gain = gain_of(evidence, plain, arm, found, measure=measure)
    return improved(evidence, gain, budgets=SCALES if len(found) == len(envs) else ())


def rank_claim(
    figure: str, name: str, limit: int, actions: str, envs: Sequence[str], *, centred: bool = False
) -> Claim:
    """That the values of plain DQN, or what is left of them without row means, have a low rank in most batches."""
    without = "With row means taken out, the" if centred else "The"

    def judge(evidence: Evidence) -> Finding:
        complete = len(envs_of(evidence, envs, (PLAIN,))) == len(envs)
        return mostly_low(evidence, PLAIN, envs, limit, centred=centred, budgets=SCALES if complete else ())

    return Claim(
        name=name,
        figure=figure,
        section="",
        says=f"{without} approximate rank of DQN's values is mostly {limit} or less, of at most {actions}.",
        paper="not in the paper, which says so of Atari",
        test=f"Share of the batches with a rank of at most {limit}, where it is least; holds if the 95% interval of "
        "its mean over seeds lies above one half.",
        judge=judge,
        scales=SCALES,
    )
