"""Which entries are observed: drawn by counting, so that a seed and the number of updates say it all.

A generator has a state that a library would have to save, move between devices and hand to a compiler. Here an
entry's number, the number of updates and a seed are mixed to 64 bits (the finaliser of splitmix64, Steele, Lea and
Flood 2014), and an entry is observed if those bits, as a number in [0, 1), are below p. So

- nothing but the count of updates has to be kept: a run that was saved and loaded draws what it would have drawn;
- CPU and CUDA draw the same;
- it is plain arithmetic on tensors, which torch.compile traces and a CUDA graph records.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9 as a signed number; multiplication wraps
_SECOND = -7723592293110705685  # 0x94D049BB133111EB
_BITS = 24  # what a float32 holds exactly


def observed_entries(
    shape: tuple[int, ...], p: float | Tensor, *, seed: int, updates: int | Tensor, device: torch.device | str = "cpu"
) -> Tensor:
    """What is observed, bool, of matrices (..., B, A).

    Args:
        shape: Of the matrices.
        p: Probability of an entry, or a tensor of it that broadcasts to the shape.
        seed: Any whole number.
        updates: How many were made before; another number draws another mask. A tensor stays on its device.
        device: Where the mask is made.
    """
    if not isinstance(seed, int | np.integer):
        raise ValueError(f"A seed is a whole number, got {seed!r}.")
    count = 1
    for size in shape:
        count *= size
    if not isinstance(updates, Tensor):
        updates = torch.full((), updates, dtype=torch.int64, device=device)  # filled on the device: nothing waits
    # Joined by xor: a compiler takes sums and products of a counter for an index, which must not overflow.
    key = _mixed(updates ^ _seeded(int(seed)))
    bits = _mixed(torch.arange(count, device=device) ^ key)
    uniform = (bits & ((1 << _BITS) - 1)).to(torch.float32) * 2.0**-_BITS
    return uniform.view(shape) < p


def _seeded(seed: int) -> int:
    """A seed as a signed number of 64 bits, mixed a little: neighbouring seeds shall not be neighbouring updates."""
    mixed = (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64
    return mixed - 2**64 if mixed >= 2**63 else mixed


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """The bits moved right, zeros moved in: `>>` alone repeats the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)
