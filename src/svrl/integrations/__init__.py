"""Structure in other people's code: one file for each library, each loaded only by those who name it.

    pytorch.py            pure functions for your own training loop, for torch.compile and CUDA graphs
    target_hook.py        the same as a hook on a target network, for scripts in the manner of CleanRL; ranks
    stable_baselines3.py  sb3_contrib.py  tianshou.py  torchrl.py  rllib.py; agents.py: what they share
    gymnasium.py          its toy-text problems as models, our tasks as environments, plans as agents
    model_table.py        models as arrays and as a file; quantecon.py: as QuantEcon's; plan_files.py: a plan's Q
    scikit_learn.py       estimators as imputers
    versions.py           which versions were tested

Masks are drawn from a seed and the number of updates, so a run that was saved and loaded draws what it would have
drawn. No random number of a library's is used: p = 1 with output "fill" gives exactly its own result.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.integrations.pytorch import structured, structured_quantiles, structured_values
    from svrl.integrations.target_hook import RankMonitor, TargetHook, structure

__all__ = ["RankMonitor", "TargetHook", "structure", "structured", "structured_quantiles", "structured_values"]


def __getattr__(name: str) -> object:
    # Loaded when asked for: importing one integration does not wait for what another one needs.
    if name in __all__:
        file = "pytorch" if name.startswith("structured") else "target_hook"
        return getattr(importlib.import_module(f"svrl.integrations.{file}"), name)
    raise AttributeError(f"module 'svrl.integrations' has no attribute {name!r}")
