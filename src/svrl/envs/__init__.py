"""Environments for agents: Atari, MinAtar, the control tasks and any Gymnasium environment, N at a time.

Names load on first use, so you can list the environments without importing NumPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
