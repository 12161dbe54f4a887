"""Claims and captions of our additions, which compare structured arms with plain DQN on small environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from svrl.paper.claim import Claim, Finding
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.gains import gain_of, shown
from svrl.paper.training_cells.reading import (
    Measure,
    envs_of,
    mean_rank,
    row_of,
    score_of,
    title_of,
    trainings,
    values,
)
from svrl.paper.training_cells.verdicts import improved, mostly_low
from svrl.stats import interval_if_several

PLAIN = "dqn"
SCALES = ("laptop", "short", "full")
"""All settle a claim, once all environments are there: it is ours, and each budget is one of its own."""


def caption(evidence: Evidence, envs: Sequence[str], arms: Mapping[str, str]) -> str:
    """Gains of each structured arm and the ranks of plain DQN.

    Args:
        evidence: What to read.
        envs: Environments of the addition.
        arms: Structured arms by what they are called.
    """
    found = envs_of(evidence, envs, (PLAIN, *arms))
    gains = "; ".join(f"{words}: {gain_of(evidence, PLAIN, arm, found)}" for arm, words in arms.items())
    scores = "; ".join(_means(evidence, env, (PLAIN, *arms)) for env in found)
    ranks = ", ".join(_ranks(evidence, env) for env in found)
    return f"Score of the last 100 games, mean over seeds: {scores}. {gains}. Mean rank of DQN's values: {ranks}."


def pushed(evidence: Evidence, arm: str, envs: Sequence[str]) -> str:
    """What completion did to the largest entry of a row, on average over training."""
    found = [
        value
        for env in envs
        for kept in trainings(evidence, env=env, arm=arm)
        for value in row_of(kept, "learning")["row_max_bias"]
        if value is not None
    ]
    return f"Completion moved the largest value of a row by {np.mean(found):+.3g} on average." if found else ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a structured arm is compared with plain DQN by.

    Attributes:
        measure: Of one training; more is better.
        says: What an arm does if the claim holds.
        by: The measure in words.
        difference: What the number beside the probability of improvement is.
        note: What structure did to the values themselves, from the evidence, the arm and its environments.
    """

    measure: Measure
    says: str
    by: str
    difference: str
    note: Callable[[Evidence, str, Sequence[str]], str]


SCORES = Comparison(
    measure=score_of,
    says="scores higher than plain DQN",
    by="Mean of the last 100 games",
    difference="the difference of the interquartile means over all environments, of the means where there is one",
    note=pushed,
)


def improvement_claim(
    figure: str, name: str, arm: str, words: str, envs: Sequence[str], comparison: Comparison = SCORES
) -> Claim:
    """That a structured arm is better than plain DQN."""
    return Claim(
        name=name,
        figure=figure,
        section="",
        says=f"{words} {comparison.says}.",
        paper="not in the paper, which says so of Atari games of low rank",
        test=f"{comparison.by}; holds if the interval of the probability of improvement over seeds, by "
        "resampling seeds within each environment, lies above one half. Beside it stands "
        f"{comparison.difference}.",
        judge=partial(judge_improvement, arm, tuple(envs), comparison),
        scales=SCALES,
    )


def rank_claim(
    figure: str, name: str, limit: int, actions: str, envs: Sequence[str], *, centred: bool = False
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
        judge=partial(judge_ranks, limit, tuple(envs), centred),
        scales=SCALES,
    )


def judge_improvement(arm: str, envs: Sequence[str], comparison: Comparison, evidence: Evidence) -> Finding:
    """Whether an arm beats plain DQN."""
    found = envs_of(evidence, envs, (PLAIN, arm))
    gain = gain_of(evidence, PLAIN, arm, found, measure=comparison.measure)
    return improved(evidence, gain, comparison.note(evidence, arm, found), _settling(found, envs))


def judge_ranks(limit: int, envs: Sequence[str], centred: bool, evidence: Evidence) -> Finding:
    """The share of low ranks in the environment where it is least."""
    found = envs_of(evidence, envs, (PLAIN,))
    return mostly_low(
        evidence, PLAIN, found, limit, expected=len(envs), centred=centred, budgets=_settling(found, envs)
    )


def _settling(found: Sequence[str], envs: Sequence[str]) -> tuple[str, ...]:
    return SCALES if len(found) == len(envs) else ()


def _ranks(evidence: Evidence, env: str) -> str:
    cells = trainings(evidence, env=env, arm=PLAIN)
    raw, centred = (float(np.mean([mean_rank(kept, centred=rows) for kept in cells])) for rows in (False, True))
    return f"{title_of(env)} {raw:.1f}, rows centred {centred:.1f}"


def _means(evidence: Evidence, env: str, arms: Sequence[str]) -> str:
    """Mean over seeds of each arm, with its interval."""
    found = [values(evidence, arm, (env,))[0] for arm in arms]
    told = (f"{arm} {x.mean():.3g}{shown(interval_if_several(x))}" for arm, x in zip(arms, found, strict=True))
    return f"{title_of(env)} {', '.join(told)}"
