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
from functools import cached_property, partial
from typing import Any

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiments.trainings import (
    ATARI,
    Measure,
    envs_of,
    mean_rank,
    normalised,
    random_score,
    score_of,
    share_at_most,
    title_of,
    values,
)
from svrl.paper.verdicts import FULL, nothing_yet, settled, shown
from svrl.stats import (
    Interval,
    Scores,
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
"""Of relative gains (..., panels) to a number for each, (...)."""
Measured = tuple[Any, Interval | None]
"""A number and its interval over seeds; None where the seeds are too few."""


@dataclass(frozen=True)
class Panels:
    """Numbers of plain and of structured trainings, of which more is better, panel by panel.

    A panel is an environment; several of them may be the same one with other arms or batch sizes.

    Attributes:
        envs: Of each panel.
        plain, structured: Of each panel (seeds,).
    """

    envs: tuple[str, ...] = ()
    plain: tuple[np.ndarray, ...] = ()
    structured: tuple[np.ndarray, ...] = ()

    @classmethod
    def of(
        cls, evidence: Evidence, plain: str, structured: str, wanted: Iterable[str], measure: Measure = score_of
    ) -> Panels:
        """Those of the wanted environments that both arms were trained on."""
        envs = tuple(envs_of(evidence, wanted, (plain, structured), measure))
        return cls(envs, *(tuple(values(evidence, arm, envs, measure)) for arm in (plain, structured)))

    def __add__(self, other: Panels) -> Panels:
        return Panels(self.envs + other.envs, self.plain + other.plain, self.structured + other.structured)

    def __len__(self) -> int:
        return len(self.envs)

    def where(self, chosen: np.ndarray) -> Panels:
        """Some of them, by a mask (panels,)."""
        one_by_one = map(Panels, zip(self.envs), zip(self.plain), zip(self.structured))
        return sum((panel for panel, wanted in zip(one_by_one, chosen, strict=True) if wanted), Panels())

    @property
    def gains(self) -> np.ndarray:
        """(panels,): the relative gains."""
        return relative_gains(self.plain, self.structured, self.envs)

    def over_seeds(self, statistic: Transform) -> Measured:
        """A statistic of the relative gains."""
        return self._measured(lambda x, y: statistic(relative_gains(x, y, self.envs)), self.plain, self.structured)

    @cached_property
    def improvement(self) -> Measured:
        """Probability of improvement."""
        return self._measured(probability_of_improvement, *self._on_one_scale())

    @cached_property
    def difference(self) -> Measured:
        """Of scores, see above; one environment has no interval of it."""
        ours, theirs = self._on_one_scale()
        if len(self) == 1:
            return float(mean_score(ours) - mean_score(theirs)), None
        return self._measured(lambda x, y: iqm(x) - iqm(y), ours, theirs)

    @property
    def words(self) -> str:
        """Improvement and difference, as a person would read them."""
        (chance, ends), (change, around) = self.improvement, self.difference
        word = "difference" if len(self) == 1 else "IQM difference"
        if self.envs[0].startswith(ATARI):
            word = f"human-normalised {word}"
        elif len(self) > 1:
            word = f"relative {word}"
        return f"probability of improvement {chance:.2f}{shown(ends)}, {word} {change:+.3g}{shown(around)}"

    def __str__(self) -> str:
        return ", ".join(f"{title_of(env)} {signed(gain)}" for env, gain in zip(self.envs, self.gains, strict=True))

    def _measured(self, statistic: Statistic, *scores: Scores) -> Measured:
        ends = stratified_interval(statistic, *scores) if can_tell(self.plain, self.structured) else None
        return np.asarray(statistic(*scores)).item(), ends

    def _on_one_scale(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Scores of the structured and of the plain arm, (seeds,) of each environment."""
        arms = self.structured, self.plain
        if self.envs[0].startswith(ATARI) or len(self) == 1:
            ours, theirs = (
                [normalised(env, of_env) for env, of_env in zip(self.envs, arm, strict=True)] for arm in arms
            )
        else:
            scales = [abs(float(of_env.mean())) or 1.0 for of_env in self.plain]
            ours, theirs = ([of_env / scale for of_env, scale in zip(arm, scales, strict=True)] for arm in arms)
        return ours, theirs


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


def improved(
    evidence: Evidence, panels: Panels, holds: bool | None = None, note: str = "", budgets: Sequence[str] = (FULL,)
) -> Finding:
    """Whether an arm improves on another: the interval of the probability of improvement lies above one half.

    Args:
        evidence: What it was judged from.
        panels: Of both arms.
        holds: False where something else failed.
        note: What else to say.
        budgets: Scales that settle the claim.
    """
    chance, ends = panels.improvement
    return settled(evidence, holds, ours=panels.words, value=chance, ends=ends, note=note, limit=0.5, budgets=budgets)


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

    With fewer environments than wanted nothing is settled, and it cannot hold. The note has the share by the other
    definition: with row means taken out, or with them where `centred` judges without.
    """
    envs = envs_of(evidence, wanted, (arm,))
    if not envs:
        return nothing_yet(evidence)
    shares, others = (
        values(evidence, arm, envs, partial(share_at_most, rank=limit, centred=out)) for out in (centred, not centred)
    )
    worst = min(range(len(envs)), key=lambda at: float(shares[at].mean()))
    share, ends = float(shares[worst].mean()), interval_if_several(shares[worst])
    if ends is not None:
        ends = max(ends[0], 0.0), min(ends[1], 1.0)  # Student's t does not know of shares
    least = min(float(seeds.mean()) for seeds in others)
    complete = len(envs) == len(wanted)
    of_some = "" if complete else f" of {len(envs)} of {len(wanted)} environments"
    return settled(
        evidence,
        None if complete else False,
        ours=f"{share:.0%}{shown(ends)} of the batches in {title_of(envs[worst])}, where they are fewest{of_some}",
        value=share,
        ends=ends,
        note=f"With row means {'left in' if centred else 'taken out'} it is {least:.0%} where they are fewest.",
        limit=0.5,
        budgets=budgets if complete else (),
    )


def ranks_of(evidence: Evidence, arm: str, envs: Sequence[str], rank: Measure = mean_rank) -> np.ndarray:
    """(envs,): mean rank over seeds."""
    return np.array([seeds.mean() for seeds in values(evidence, arm, envs, rank)])


def correlation(ranks: np.ndarray, gains: np.ndarray) -> tuple[float, Interval] | None:
    """Kendall's tau-b of each game's rank and gain, and its interval over games; None where all of one are the same."""
    tau = rank_correlation(ranks, gains)
    return None if math.isnan(tau) else (tau, rank_correlation_interval(ranks, gains))


def judge_falling(evidence: Evidence, *, kind: str, wanted: Sequence[str], rank: Measure = mean_rank) -> Finding:
    """Whether games of lower rank gain more with a technique: the interval of tau lies below 0."""
    panels = Panels.of(evidence, kind, f"sv-{kind}", wanted)
    games = len(panels)
    if games < FEWEST_GAMES:
        return nothing_yet(evidence)
    found = correlation(ranks_of(evidence, kind, panels.envs, rank), panels.gains)
    tau, ends = found or (0.0, (-1.0, 1.0))
    ours, note = f"Kendall's tau {tau:+.2f}{shown(ends)} over {games} games", "The interval is over games."
    if found is None:
        ours, note = f"rank or gain is the same in all {games} games", ""
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
    says: str,
    envs: Sequence[str],
    *,
    plain: str = PLAIN,
    measure: Measure = score_of,
    read: Callable[[Evidence], Evidence] = lambda evidence: evidence,
    paper: str = "not in the paper, which says so of Atari games of low rank",
    by: str = "Mean of the last 100 games",
    difference: str = "the difference of the interquartile means over all environments, of the means where there is "
    "one",
) -> Claim:
    """That a structured arm is better than plain DQN, or than another.

    Args:
        figure, name, says, paper: Of the claim.
        arm: The structured one.
        envs: Environments of the addition.
        plain: The other arm.
        measure: Of one training; more is better.
        read: Where the arms of the evidence have other names.
        by: The measure in words.
        difference: What the number beside the probability of improvement is.
    """

    def judge(evidence: Evidence) -> Finding:
        panels = Panels.of(read(evidence), plain, arm, envs, measure)
        if not panels:
            return nothing_yet(evidence)
        return improved(evidence, panels, budgets=SCALES if len(panels) == len(envs) else ())

    return Claim(
        name=name,
        figure=figure,
        section="",
        says=says,
        paper=paper,
        test=f"{by}; holds if the interval of the probability of improvement over seeds, by resampling seeds within "
        f"each environment, lies above one half. Beside it stands {difference}.",
        judge=judge,
        scales=SCALES,
    )


def rank_claim(
    figure: str, name: str, limit: int, actions: int, envs: Sequence[str], *, centred: bool = False
) -> Claim:
    """That the values of plain DQN, or what is left of them without row means, have a low rank in most batches."""
    without = "With row means taken out, the" if centred else "The"
    return Claim(
        name=name,
        figure=figure,
        section="",
        says=f"{without} approximate rank of DQN's values is mostly {limit} or less, of at most {actions}.",
        paper="not in the paper, which says so of Atari",
        test=f"Share of the batches with a rank of at most {limit}, where it is least; holds if the 95% interval of "
        "its mean over seeds lies above one half.",
        judge=partial(mostly_low, arm=PLAIN, wanted=envs, limit=limit, centred=centred, budgets=SCALES),
        scales=SCALES,
    )
