"""One seed for a run, many generators: each part draws from its own, so that no part disturbs another."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.random import SeedSequence


def derived_seed(seed: int, name: str) -> int:
    """A seed in 0..2^63-1 for the part `name` of a run, independent of those of the other parts."""
    words = SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])


def generator_for(seed: int, name: str, device: str | torch.device = "cpu") -> torch.Generator:
    """A separate torch generator for the part `name` of a run."""
    return torch.Generator(device).manual_seed(derived_seed(seed, name))
