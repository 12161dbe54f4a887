"""Our claims on control tasks with many actions.

The measure is the policy loss: the mean over grid states of V* - V of acting greedily by the network, over the range of
V*, both exact on the grid without the task's noise; averaged over the last quarter of training, because a single
network is one of many that fluctuate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svrl.paper.control_learning.settings import ARMS, ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.additions import Comparison, improvement_claim, rank_claim
from svrl.paper.training_cells.gains import gain_of, shown
from svrl.paper.training_cells.reading import envs_of, mean_rank, row_of, title_of, trainings, values
from svrl.stats import interval_if_several

PLAIN, *STRUCTURED = ARMS
_LAST = 0.25
"""Share of the training over which losses and errors are averaged."""
_DIGITS = 3
_LOW = 5
"""The highest rank that the best Q of a task has, on average over batches of 32 states, with row means taken out."""


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
    losses, errors = (
        "; ".join(f"{title_of(env)} {_means(evidence, env, name)}" for env in found)
        for name in ("greedy_loss", "value_error")
    )
    ranks = ", ".join(f"{title_of(env)} {_ranks(evidence, env)}" for env in found)
    return (
        f"Policy loss over the last quarter of training, mean over seeds: {losses}. Error of the best value, over the "
        f"range of Q*: {errors}. Mean rank of DQN's values: {ranks}."
    )


def _means(evidence: Evidence, env: str, name: str) -> str:
    told = []
    for arm in ARMS:
        (found,) = values(evidence, arm, (env,), lambda kept: over_the_end(kept, name))
        told.append(f"{arm} {found.mean():.{_DIGITS}f}{shown(interval_if_several(found), _DIGITS)}")
    return ", ".join(told)


def _ranks(evidence: Evidence, env: str) -> str:
    cells = trainings(evidence, env=env, arm=PLAIN)
    raw, centred = (float(np.mean([mean_rank(kept, centred=rows) for kept in cells])) for rows in (False, True))
    return f"{raw:.1f}, rows centred {centred:.1f}"


def _errors(evidence: Evidence, arm: str, envs: Sequence[str]) -> str:
    """Whose best values are nearer to V*."""
    gain = gain_of(evidence, PLAIN, arm, envs, measure=lambda kept: -over_the_end(kept, "value_error"))
    return (
        f"Its best values err less than plain DQN's with probability {gain.improvement:.2f}"
        f"{shown(gain.improvement_interval)}."
    )


LOSSES = Comparison(
    measure=less_loss,
    says="loses less than plain DQN, where actions are many and what decides between them is of low rank in the best Q",
    by="Loss of the greedy policy, exact on the grid without noise, mean over the last quarter of training",
    difference="by how much less it loses: plain less structured, of interquartile means over all tasks of losses "
    "divided by plain DQN's mean; of the losses themselves where there is one task",
    note=_errors,
)

CLAIMS = (
    improvement_claim("control", "control-structure-improves", "sv-dqn", "Structured DQN", ENVS, LOSSES),
    improvement_claim(
        "control",
        "control-structured-choice-improves",
        "sv-dqn-network",
        "DQN that chooses by the completed matrix and values by the network",
        ENVS,
        LOSSES,
    ),
    rank_claim("control", "control-low-rank", _LOW, "32", ENVS, centred=True),
)
