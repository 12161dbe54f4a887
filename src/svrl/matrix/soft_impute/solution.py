"""What every solver of the Soft-Impute problem returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A batch of solved matrices, before the centre is added back.

    Attributes:
        filled: (B, m, n) with observed entries kept, or None where the solver was asked for the other.
        estimate: (B, m, n) minimiser, or None.
        factors: (left (B, m, r), right (B, n, r)) of the minimiser, or None.
        shrinkage, change: (B,), float64. rank, iterations, code: (B,), int64.
    """

    filled: torch.Tensor | None = None
    estimate: torch.Tensor | None = None
    factors: tuple[torch.Tensor, torch.Tensor] | None = None
    shrinkage: torch.Tensor
    rank: torch.Tensor
    iterations: torch.Tensor
    change: torch.Tensor
    code: torch.Tensor

    def transposed(self) -> Solution:
        """The solution of the transposed problem."""
        return replace(
            self,
            filled=None if self.filled is None else self.filled.mT,
            estimate=None if self.estimate is None else self.estimate.mT,
            factors=None if self.factors is None else self.factors[::-1],
        )
