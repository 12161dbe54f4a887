"""Unknown model -> Q by deep reinforcement learning, plain or structured (SV-RL).

Names load on first use, so the command line reads the configuration without waiting for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
