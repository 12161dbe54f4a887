"""Our claims on CartPole."""

from __future__ import annotations

from svrl.paper.cartpole_learning.settings import ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.additions import caption, improvement_claim, rank_claim

_ARMS = {"sv-dqn": "structured"}


def got(figure: str, evidence: Evidence) -> str:
    """Scores, gains and ranks."""
    return caption(evidence, ENVS, _ARMS)


CLAIMS = (
    improvement_claim("cartpole", "cartpole-structure-improves", "sv-dqn", "On CartPole structured DQN", ENVS),
    rank_claim("cartpole", "cartpole-rank-one", 1, "2", ENVS),
)
