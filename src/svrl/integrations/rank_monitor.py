"""How low-rank are the values that an agent learns from? Remembered from the last batch, computed when asked.

Looking costs nothing in an update: the monitor keeps a reference to the last output of a network, and the singular
values are taken when the library logs.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from svrl.matrix.rank import approximate_rank

TIGHT_ENERGY = 0.9999


def ranks_of(q: Tensor) -> dict[str, float]:
    """Approximate ranks of values (..., B, A), means over the leading axes; nothing if they are not all finite.

    Returns:
        rank_99 (the paper's), rank_9999, and row_centred_rank_99, that of the advantages.
    """
    q = q.detach().float()
    if not bool(torch.isfinite(q).all()):
        return {}
    return {
        "rank_99": _mean(approximate_rank(q)),
        "rank_9999": _mean(approximate_rank(q, energy=TIGHT_ENERGY)),
        "row_centred_rank_99": _mean(approximate_rank(q, centre_rows=True)),
    }


class RankMonitor:
    """Watches a network: a forward hook that changes nothing.

        with RankMonitor(target_network) as monitor:
            ...
            log(monitor.ranks())

    Attributes:
        seen: Batches that went by.
    """

    def __init__(self, network: nn.Module, *, quantiles: bool = False) -> None:
        """Attach it.

        Args:
            network: Gives values (B, A), or quantiles (B, N, A).
            quantiles: Whether it gives the latter; then the ranks are those of the means.
        """
        if not isinstance(network, nn.Module):
            raise ValueError(f"RankMonitor watches a torch.nn.Module, got {type(network).__name__}.")
        self.seen = 0
        self._quantiles = quantiles
        self._last: Tensor | None = None
        self._handle = network.register_forward_hook(self._look)

    def _look(self, network: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self._last = output.detach()
            self.seen += 1

    def ranks(self) -> dict[str, float]:
        """Of the last batch; nothing before the first."""
        if self._last is None:
            return {}
        return ranks_of(self._last.mean(1) if self._quantiles else self._last)

    def remove(self) -> None:
        """Detach it."""
        self._handle.remove()

    def __enter__(self) -> RankMonitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _mean(rank: Any) -> float:
    return float(torch.as_tensor(rank, dtype=torch.float32).mean())
