"""Rank and gain: whether structure gains more in games whose values have a lower rank.

A game is a point: the mean rank of the plain agent's values over seeds, by one or another measure, and the relative
gain of its structured twin (`svrl.paper.training_cells.gains`). Over games they are put together by Kendall's
tau-b.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svrl.paper.claim import Finding
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.gains import Interval, gain_of, shown
from svrl.paper.training_cells.reading import Measure, envs_of, mean_rank, values
from svrl.paper.training_cells.verdicts import nothing_yet, settled
from svrl.stats import rank_correlation, rank_correlation_interval

FEWEST_GAMES = 3


def ranks_and_gains(
    evidence: Evidence, plain: str, structured: str, envs: Sequence[str], rank: Measure = mean_rank
) -> tuple[np.ndarray, np.ndarray]:
    """(envs,) each: mean rank of the plain agent over seeds, and relative gain."""
    ranks = np.array([seeds.mean() for seeds in values(evidence, plain, envs, rank)])
    return ranks, gain_of(evidence, plain, structured, envs).relative


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
    envs = envs_of(evidence, wanted, (plain, structured))
    if len(envs) < FEWEST_GAMES:
        return 0.0, None, 0
    ranks, gains = ranks_and_gains(evidence, plain, structured, envs, rank)
    if len(set(ranks)) < 2 or len(set(gains)) < 2:
        return 0.0, None, 0
    return rank_correlation(ranks, gains), rank_correlation_interval(ranks, gains), len(envs)


def judge_falling(
    plain: str, structured: str, wanted: Sequence[str], evidence: Evidence, *, rank: Measure = mean_rank
) -> Finding:
    """Whether games of lower rank gain more: the interval of tau lies below 0."""
    tau, ends, games = correlation(evidence, plain, structured, wanted, rank)
    if not games:
        envs = envs_of(evidence, wanted, (plain, structured))
        if len(envs) < FEWEST_GAMES:
            return nothing_yet(evidence)
        ours = f"rank or gain is the same in all {len(envs)} games"
        return settled(evidence, False, ours=ours, value=0.0, ends=(-1.0, 1.0), limit=0.0, side=-1)
    return settled(
        evidence,
        ends is not None and ends[1] < 0.0,
        ours=f"Kendall's tau {tau:+.2f}{shown(ends)} over {games} games",
        value=tau,
        ends=ends,
        note="The interval is over games.",
        limit=0.0,
        side=-1,
    )
