"""What the paper says about the rank of learned values, and what we find."""

from __future__ import annotations

import numpy as np

from svrl.paper.atari_rank.settings import ARM, ENVS
from svrl.paper.claim import Claim, Finding
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.reading import envs_of, mean_rank, title_of, trainings
from svrl.paper.training_cells.verdicts import ATARI_SCALES, mostly_low

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
    return mostly_low(evidence, ARM, envs_of(evidence, ENVS, (ARM,)), LOW, expected=len(ENVS))


CLAIMS = (
    Claim(
        name="atari-low-rank",
        figure="fig4",
        section="4.1",
        says="The approximate rank of batches of learned values is mostly 3 or less in all four games.",
        paper="mostly 3 or less, of at most 18",
        test="Share of the batches with a rank of at most 3, in the game where it is least; reproduced if the 95% "
        "interval of its mean over seeds lies above one half.",
        judge=judge_low_rank,
        scales=ATARI_SCALES,
    ),
)
