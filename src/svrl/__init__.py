"""svrl: structured (low-rank) value-based planning and deep reinforcement learning.

A Q function is a matrix, states by actions, and often nearly of low rank, so that some of its entries tell the others.
This package exports what most programs need; the rest is one level down, in `svrl.matrix`, `svrl.mdp`, `svrl.planning`,
`svrl.envs`, `svrl.agents` and `svrl.integrations`. Names are loaded on first use: importing svrl is quick.
"""

import difflib
import importlib

import lazy_loader

__version__ = "0.1.0"

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_PACKAGES = ("matrix", "mdp", "envs", "planning", "agents", "integrations")

_ELSEWHERE = {
    "StructuredDQN": "stable_baselines3 (tianshou has one, too)",
    "StructuredQRDQN": "sb3_contrib (tianshou has one, too)",
    "DoubleDQN": "stable_baselines3",
    "DuelingDQN": "stable_baselines3",
    "HeadPolicy": "stable_baselines3",
    "StructuredDQNLoss": "torchrl",
    "StructuredDQNConfig": "rllib",
    "SoftImputer": "scikit_learn",
    "mdp_from_env": "gymnasium",
    "agent_from_plan": "gymnasium",
}
"""Names that need another library, and their file in svrl.integrations."""


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    raise AttributeError(f"module 'svrl' has no attribute {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    """Where the name is, or the name that was probably meant."""
    if name.startswith("_"):
        return ""
    if name in _ELSEWHERE:
        return f". It is in svrl.integrations.{_ELSEWHERE[name]}."
    for package in _PACKAGES:
        if name in importlib.import_module(f"svrl.{package}").__all__:
            return f". It is svrl.{package}.{name}."
    close = difflib.get_close_matches(name, __all__, n=1)
    return f". Did you mean {close[0]}?" if close else ""
