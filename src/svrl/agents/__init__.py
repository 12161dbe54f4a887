"""Unknown model -> Q by deep reinforcement learning, plain or structured (SV-RL)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.agents.agent import Agent, load_agent
    from svrl.agents.config import AgentConfig
    from svrl.agents.evaluation import Games, evaluate
    from svrl.agents.replay import Batch, Replay
    from svrl.agents.structured_targets import AUTHORS_WAY, Completion, StructuredTargets
    from svrl.agents.study import RankStudy, rank_study
    from svrl.agents.training import Training, train

# The command line reads the configuration, and must not wait for torch.
_PLACES = {
    "AUTHORS_WAY": "structured_targets",
    "Agent": "agent",
    "AgentConfig": "config",
    "Batch": "replay",
    "Completion": "structured_targets",
    "Games": "evaluation",
    "RankStudy": "study",
    "Replay": "replay",
    "StructuredTargets": "structured_targets",
    "Training": "training",
    "evaluate": "evaluation",
    "load_agent": "agent",
    "rank_study": "study",
    "train": "training",
}

__all__ = [
    "AUTHORS_WAY",
    "Agent",
    "AgentConfig",
    "Batch",
    "Completion",
    "Games",
    "RankStudy",
    "Replay",
    "StructuredTargets",
    "Training",
    "evaluate",
    "load_agent",
    "rank_study",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(importlib.import_module(f"svrl.agents.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'svrl.agents' has no attribute {name!r}")
