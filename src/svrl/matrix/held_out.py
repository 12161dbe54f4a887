"""Held-out error: hide some observed entries, recover them, compare."""

from __future__ import annotations

import math

import torch

from svrl.matrix.arrays import Generator, as_tensor, torch_generator
from svrl.matrix.estimate import Estimator
from svrl.matrix.observed import Observed

SHARE = 0.05
FEWEST = 20
"""Observed entries below which nothing can be spared to judge by."""


def held_out_error(
    estimator: Estimator, observed: Observed, *, share: float = SHARE, generator: Generator | None = None
) -> float | None:
    """Relative root-mean-square error on hidden observed entries of one matrix.

    Every row and column keeps at least one shown entry, so that hiding never makes the problem
    one that no method can solve.

    Args:
        estimator: What to judge.
        observed: One matrix (m, n).
        share: Share of the observed entries to hide.
        generator: Chooses them.

    Returns:
        |recovered - hidden|_F / |hidden|_F, or None where there are too few entries to hide any.
    """
    values, mask = observed.tensors
    if values.ndim != 2:
        raise ValueError(f"A held-out error is for one matrix (m, n), got shape {tuple(values.shape)}.")
    source = torch_generator(generator, values.device)
    at = torch.nonzero(mask)
    at = at[torch.randperm(len(at), generator=source, device=values.device)]
    if len(at) < FEWEST:
        return None
    hidden = _spare(mask, at, math.ceil(share * len(at)))
    if not bool(hidden.any()):
        return None
    shown = mask & ~hidden
    estimate = estimator(Observed(values=values, mask=shown, allow_empty=True), generator=source)
    truth = values[hidden].double()
    unit = truth.abs().max()  # squares of very large or small numbers would leave the range
    if float(unit) == 0:
        return float(torch.linalg.vector_norm(as_tensor(estimate.matrix)[hidden].double()))
    wrong = (as_tensor(estimate.matrix)[hidden].double() - truth) / unit
    return float(torch.linalg.vector_norm(wrong) / torch.linalg.vector_norm(truth / unit))


def _spare(mask: torch.Tensor, order: torch.Tensor, count: int) -> torch.Tensor:
    """Hide the first `count` entries of `order` (k, 2) that leave no row or column empty."""
    rows, columns = mask.sum(1).tolist(), mask.sum(0).tolist()
    chosen = []
    for i, j in order[: 4 * count].tolist():
        if rows[i] > 1 and columns[j] > 1:
            rows[i] -= 1
            columns[j] -= 1
            chosen.append((i, j))
            if len(chosen) == count:
                break
    hidden = torch.zeros_like(mask)
    if chosen:
        where = torch.tensor(chosen, device=mask.device)
        hidden[where[:, 0], where[:, 1]] = True
    return hidden
