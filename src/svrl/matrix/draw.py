"""Draw the observed set: which entries of an m x n matrix are looked at.

`mask(shape, generator)` gives a boolean (..., m, n), one draw for every matrix of the batch.
`indices(shape, generator)` gives the sorted flat indices of one matrix and costs time in proportion
to the entries drawn, not to m * n: a backup that tests a mask entry by entry saves no time at
p = 0.2, a list does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from svrl.matrix.arrays import Generator, torch_generator

_CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Bernoulli:
    """Observe each entry independently with probability p, as the paper does.

    Attributes:
        p: Probability in (0, 1].
        cover: Then add one uniformly drawn entry to every row and every column that came out
            empty, so that nothing is unrecoverable.
    """

    p: float
    cover: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise ValueError(f"Bernoulli needs a probability p in (0, 1], got {self.p}.")

    def mask(self, shape: tuple[int, ...], generator: Generator, device: torch.device = _CPU) -> torch.Tensor:
        """Boolean (..., m, n)."""
        source = _explicit(generator, device)
        # float32 uniforms are multiples of 6e-8: too coarse for a tiny probability.
        precise = torch.float32 if self.p > 1e-3 else torch.float64
        mask = torch.rand(shape, generator=source, device=device, dtype=precise) < self.p
        return _cover(mask, source) if self.cover else mask

    def indices(self, shape: tuple[int, int], generator: Generator, device: torch.device = _CPU) -> torch.Tensor:
        """Sorted flat indices (k,); the gaps between them are geometric, so only k numbers are drawn."""
        source = _explicit(generator, device)
        size = shape[0] * shape[1]
        if self.p == 1:
            return torch.arange(size, device=device)
        found: list[torch.Tensor] = []
        last = -1
        while last < size:
            left = size - last
            count = int(left * self.p + 4 * math.sqrt(left * self.p) + 16)
            uniform = torch.rand(count, generator=source, device=device, dtype=torch.float64)
            # 1 - U lies in (0, 1], where the logarithm is finite.
            gaps = torch.log(1 - uniform).div_(math.log1p(-self.p)).floor_().clamp_(max=float(size)).long()
            at = torch.cumsum(gaps + 1, 0).add_(last)
            last = int(at[-1])
            found.append(at)
        at = torch.cat(found)
        at = at[at < size]
        return _cover_indices(at, shape, source) if self.cover else at


def _explicit(generator: Generator, device: torch.device) -> torch.Generator:
    """Drawing without a generator would draw the same set again and again."""
    if generator is None:
        raise TypeError("Drawing needs a generator, got None. Use torch.Generator().manual_seed(0), and keep it.")
    return torch_generator(generator, device)


def _cover(mask: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    """Add one entry to each empty row, then to each empty column."""
    for axis in (-1, -2):
        keys = torch.rand(mask.shape, generator=source, device=mask.device)
        one = torch.zeros_like(mask).scatter_(axis, keys.argmax(axis, keepdim=True), True)
        mask = mask | (one & ~mask.any(axis, keepdim=True))
    return mask


def _cover_indices(at: torch.Tensor, shape: tuple[int, int], source: torch.Generator) -> torch.Tensor:
    m, n = shape
    drawn = len(at)
    seen = torch.zeros(m, dtype=torch.bool, device=at.device).index_fill_(0, at // n, True)
    rows = torch.nonzero(~seen).squeeze(-1)
    columns = torch.randint(n, (len(rows),), generator=source, device=at.device)
    at = torch.cat([at, rows * n + columns])
    seen = torch.zeros(n, dtype=torch.bool, device=at.device).index_fill_(0, at % n, True)
    columns = torch.nonzero(~seen).squeeze(-1)
    rows = torch.randint(m, (len(columns),), generator=source, device=at.device)
    if len(at) == drawn and len(columns) == 0:
        return at  # sorted already, and sorting costs more than drawing
    return torch.cat([at, rows * n + columns]).sort().values
