"""Structure in other people's code: one file for each library, each loaded only by those who name it.

    pytorch.py            pure functions for a training loop of one's own, for torch.compile and CUDA graphs
    target_hook.py        the same as a hook on a target network: scripts in the manner of CleanRL
    rank_monitor.py       how low-rank the values of the last batch are, where the library logs
    stable_baselines3.py  sb3_contrib.py  tianshou.py  torchrl.py  rllib.py
    gymnasium_models.py   gymnasium_tasks.py  planned_agent.py: what Gymnasium has as a model, what we have as its own
    quantecon.py          mdpsolver.py  mdptoolbox.py  sparse_files.py: models in and out, by way of model_table.py
    plan_files.py         a plan's Q as a file
    scikit_learn.py       estimators as transformers; scikit_learn_base.py is what they share, new_rows.py how they
                          complete rows that they have not seen
    versions.py           which versions were tested

Whatever the library, p = 1 with output "fill" gives exactly its own result.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.integrations.pytorch import structured, structured_quantiles, structured_values
    from svrl.integrations.rank_monitor import RankMonitor
    from svrl.integrations.target_hook import TargetHook, structure

__all__ = ["RankMonitor", "TargetHook", "structure", "structured", "structured_quantiles", "structured_values"]

_FILES = {
    "RankMonitor": "rank_monitor",
    "TargetHook": "target_hook",
    "structure": "target_hook",
    "structured": "pytorch",
    "structured_quantiles": "pytorch",
    "structured_values": "pytorch",
}


def __getattr__(name: str) -> object:
    # Whoever imports one integration shall not wait for what another one needs.
    if name in _FILES:
        return getattr(importlib.import_module(f"svrl.integrations.{_FILES[name]}"), name)
    raise AttributeError(f"module 'svrl.integrations' has no attribute {name!r}")
