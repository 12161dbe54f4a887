"""What matrix estimation makes of the values of a learned Q: how well hidden entries are found, and at what price.

Of a batch of values q (B x A) each entry is observed with probability p, and Soft-Impute completes the rest, as in a
structured update. Over all batches

    held_out          sqrt(sum (estimate - q)^2 / sum q^2), both over hidden entries
    beyond_row_mean   the same, against sum (q - mean of the row's observed entries)^2: 1 is no better than that mean
    row_max_bias      mean over rows of max(completed row) - max(row), in units of Q: what a target gains or loses
    best_kept         share of rows whose best action is the same

A matrix with a large mean is easy to complete: `held_out` is then small, and says little about the actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.agents.config import Scale
from svrl.agents.structured_targets import StructuredTargets

BATCHES = 1_000
"""Most batches that are completed."""
SCALES: tuple[Scale, ...] = ("minmax", "row")
"""The authors' scaling, and each row's mean taken out."""
ROUNDING = 1e-12
"""Of squares in single precision: rows whose entries are equal differ by no more."""


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """See the top of this file.

    Attributes:
        scale: What came before estimation, see `svrl.agents.structured_targets`.
        observe: Probability p of an entry to be observed.
        batches: Batches that were completed.
        held_out, beyond_row_mean: Errors on hidden entries; None where they have nothing to be held against.
        row_max_bias: In units of Q.
        best_kept: In [0, 1].
    """

    scale: Scale
    observe: float
    batches: int
    held_out: float | None
    beyond_row_mean: float | None
    row_max_bias: float
    best_kept: float


def estimate_batches(
    q: Tensor, rows: Tensor, generator: torch.Generator, *, scale: Scale = "minmax", observe: float = 0.9
) -> Estimation:
    """Complete batches of values and hold them against the values.

    Args:
        q: (states, A), finite.
        rows: (batches, B), int64: the states of each batch; the first 1,000 batches are taken.
        generator: For the masks, on the CPU.
        scale: As in `StructuredTargets`.
        observe: Probability p in (0, 1].
    """
    values = q.detach().cpu().float()[rows[:BATCHES]]
    found = StructuredTargets(scale=scale, observe=observe)(values, generator)
    hidden = ~found.mask & found.mask.any(-1, keepdim=True)  # a row that nothing is known of is not estimated
    truth, guess, done = values.double(), found.estimate.double(), found.matrix.double()
    means = torch.where(found.mask, truth, 0.0).sum(-1, keepdim=True) / found.mask.sum(-1, keepdim=True).clamp(min=1)
    wrong, whole = _sum_of_squares(guess - truth, hidden), _sum_of_squares(truth, hidden)
    spread = _sum_of_squares(truth - means, hidden)
    return Estimation(
        scale=scale,
        observe=observe,
        batches=len(values),
        held_out=(wrong / whole) ** 0.5 if whole > 0.0 else None,
        beyond_row_mean=(wrong / spread) ** 0.5 if spread > ROUNDING * whole else None,
        row_max_bias=float((done.amax(-1) - truth.amax(-1)).mean()),
        best_kept=float((done.argmax(-1) == truth.argmax(-1)).double().mean()),
    )


def _sum_of_squares(entries: Tensor, where: Tensor) -> float:
    return float(torch.where(where, entries, 0.0).square().sum())
