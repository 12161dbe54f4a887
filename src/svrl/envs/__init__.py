"""What agents learn on: Atari, MinAtar, the control tasks and any Gymnasium environment, N at a time.

Names are loaded on first use: the list of environments is there without an import of NumPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
