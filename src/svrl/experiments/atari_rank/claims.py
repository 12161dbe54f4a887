"""What the paper says about the rank of learned values, and what we find."""

from __future__ import annotations

import numpy as np

from svrl.experiments.atari_rank.settings import ARM, ENVS
from svrl.experiments.paper.claim import Claim, Finding
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.gains import Interval, shown
from svrl.experiments.training_cells.reading import envs_of, mean_rank, share_at_most, title_of, trainings, values
from svrl.experiments.training_cells.verdicts import ATARI_SCALES, settled
from svrl.reporting.aggregate import interval, mean_score

LOW = 3
"""Ranks that the paper calls small."""


def got(figure: str, evidence: Evidence) -> str:
    """What the ranks came to, game by game."""
    found = []
    for env in envs_of(evidence, ENVS, (ARM,)):
        cells = trainings(evidence, env=env, arm=ARM)
        raw, centred = (np.mean([mean_rank(kept, centred=rows) for kept in cells]) for rows in (False, True))
        found.append(f"{title_of(env)} {raw:.1f} ({centred:.1f})")
    rest = f" This budget has {len(found)} of the {len(ENVS)} games." if len(found) < len(ENVS) else ""
    return f"Mean rank, and with row means taken out in brackets: {', '.join(found)}.{rest}"


def judge_low_rank(evidence: Evidence) -> Finding:
    """The share of batches of rank 3 or less in the game where it is least."""
    envs = envs_of(evidence, ENVS, (ARM,))
    shares = values(evidence, ARM, envs, lambda kept: share_at_most(kept, LOW))
    means = [float(scores.mean()) for scores in shares]
    worst = int(np.argmin(means))
    ends = _over_seeds(shares[worst])
    centred = values(evidence, ARM, envs, lambda kept: share_at_most(kept, LOW, centred=True))
    least = min(float(scores.mean()) for scores in centred)
    return settled(
        evidence,
        ends is not None and ends[0] > 0.5,
        ours=f"at least {means[worst]:.0%}{shown(ends)} of the batches in each game, least in {title_of(envs[worst])}",
        value=means[worst],
        ends=ends,
        note=f"With row means taken out the share is {least:.0%} in the game where it is least.",
    )


def _over_seeds(shares: np.ndarray) -> Interval | None:
    return interval(mean_score, shares[:, None]) if len(shares) > 1 else None


CLAIMS = (
    Claim(
        name="atari-low-rank",
        figure="fig4",
        section="4.1",
        says="The approximate rank of batches of learned values is mostly 3 or less in all four games.",
        paper="mostly 3 or less, of at most 18",
        test="Share of the batches with a rank of at most 3, in the game where it is least; reproduced if its interval "
        "over seeds lies above one half.",
        judge=judge_low_rank,
        scales=ATARI_SCALES,
    ),
)
