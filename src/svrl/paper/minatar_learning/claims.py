"""Our claims on MinAtar."""

from __future__ import annotations

from svrl.paper.evidence import Evidence
from svrl.paper.minatar_learning.settings import ENVS
from svrl.paper.training_cells.additions import caption, improvement_claim, rank_claim

_ARMS = {"sv-dqn": "structured as in the authors' program", "sv-dqn-network": "rows centred, valued by the network"}


def got(figure: str, evidence: Evidence) -> str:
    """Scores, gains and ranks."""
    return caption(evidence, ENVS, _ARMS)


CLAIMS = (
    improvement_claim("minatar", "minatar-structure-improves", "sv-dqn", "On MinAtar structured DQN", ENVS),
    improvement_claim(
        "minatar",
        "minatar-structured-choice-improves",
        "sv-dqn-network",
        "On MinAtar DQN that chooses by the completed matrix and values by the network",
        ENVS,
    ),
    rank_claim("minatar", "minatar-low-rank", 3, "6", ENVS),
)
