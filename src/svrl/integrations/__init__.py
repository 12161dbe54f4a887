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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
