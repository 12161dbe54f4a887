"""Our claims on control tasks with many actions.

The measure is the exact policy loss: the mean over grid states of V* - V of acting greedily by the network, over the
range of V*, averaged over the last quarter of training, because a single network is one of many that fluctuate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from svrl.experiments.control_learning.settings import ARMS, ENVS
from svrl.experiments.paper.claim import Claim, Finding
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.paper.store import Kept
from svrl.experiments.training_cells.additions import rank_claim
from svrl.experiments.training_cells.gains import gain_of, shown
from svrl.experiments.training_cells.reading import envs_of, mean_rank, row_of, title_of, trainings, values
from svrl.experiments.training_cells.verdicts import improved
from svrl.reporting.intervals import interval_if_several

PLAIN, *STRUCTURED = ARMS
SCALES = ("laptop", "full")
_LAST = 0.25
"""Share of the training over which losses and errors are averaged."""


def over_the_end(kept: Kept, name: str) -> float:
    """Mean of a column of the comparison with Q*, over the last quarter of training."""
    row = row_of(kept, "q_star")
    late = [value for step, value in zip(row["steps"], row[name], strict=True) if step > (1 - _LAST) * row["steps"][-1]]
    return float(np.mean(late))


def less_loss(kept: Kept) -> float:
    """The policy loss with its sign turned, so that more is better."""
    return -over_the_end(kept, "greedy_loss")


def got(figure: str, evidence: Evidence) -> str:
    """Losses, errors and ranks."""
    found = envs_of(evidence, ENVS, ARMS)
    losses = "; ".join(f"{title_of(env)} {_means(evidence, env, 'greedy_loss', 2)}" for env in found)
    errors = "; ".join(f"{title_of(env)} {_means(evidence, env, 'value_error', 3)}" for env in found)
    ranks = ", ".join(f"{title_of(env)} {_rank(evidence, env)}" for env in found)
    return (
        f"Policy loss over the last quarter of training, mean over seeds: {losses}. Error of the best value, over the "
        f"range of Q*: {errors}. Mean rank of DQN's values with row means taken out: {ranks}."
    )


def _means(evidence: Evidence, env: str, name: str, digits: int) -> str:
    told = []
    for arm in ARMS:
        (found,) = values(evidence, arm, (env,), lambda kept: over_the_end(kept, name))
        told.append(f"{arm} {found.mean():.{digits}g}{shown(interval_if_several(found), digits + 1)}")
    return ", ".join(told)


def _rank(evidence: Evidence, env: str) -> str:
    return f"{np.mean([mean_rank(kept, centred=True) for kept in trainings(evidence, env=env, arm=PLAIN)]):.1f}"


def judge_loss(arm: str, evidence: Evidence) -> Finding:
    """Whether an arm loses less than plain DQN; the note says what became of the values."""
    found = envs_of(evidence, ENVS, ARMS)
    gain = gain_of(evidence, PLAIN, arm, found, measure=less_loss)
    return improved(evidence, gain, _errors(evidence, arm, found), SCALES if len(found) == len(ENVS) else ())


def _errors(evidence: Evidence, arm: str, envs: Sequence[str]) -> str:
    """Whose best values are nearer to V*."""
    gain = gain_of(evidence, PLAIN, arm, envs, measure=lambda kept: -over_the_end(kept, "value_error"))
    return (
        f"Its best values err less than plain DQN's with probability {gain.improvement:.2f}"
        f"{shown(gain.improvement_interval)}."
    )


def _claim(name: str, arm: str, words: str) -> Claim:
    return Claim(
        name=name,
        figure="control",
        section="",
        says=f"{words} loses less than plain DQN where actions are many and the best Q is of low rank.",
        paper="not in the paper, which says so of Atari games of low rank",
        test="Exact loss of the greedy policy, mean over the last quarter of training; holds if the interval of the "
        "probability of improvement over seeds, by resampling seeds within each task, lies above one half. Beside it "
        "stands the difference of interquartile means, of losses over plain DQN's.",
        judge=partial(judge_loss, arm),
        scales=SCALES,
    )


CLAIMS = (
    _claim("control-structure-improves", "sv-dqn", "Structured DQN"),
    _claim(
        "control-structured-choice-improves",
        "sv-dqn-network",
        "DQN that chooses by the completed matrix and values by the network",
    ),
    rank_claim("control", "control-low-rank", 3, "32", ENVS),
)
