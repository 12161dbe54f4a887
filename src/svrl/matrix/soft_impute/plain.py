"""Soft-Impute step by step, as published: fill, shrink, repeat.

    Z <- shrink(P(X) + missing part of Z)

The step is a gradient step of length 1 on the objective as a function of the missing entries
alone, whose gradient is 1-Lipschitz: the objective never rises. With `momentum` it is Nesterov's
method on the same function, restarted when it points uphill.
Mazumder, Hastie and Tibshirani, JMLR 2010.
"""

from __future__ import annotations

import torch

from svrl.matrix.certificate import shrink_singular_values
from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.solution import Solution

_GRAM_FLOOR = 1e-6
"""Below this share of the largest singular value a float64 Gram matrix no longer resolves the shrinkage."""


def solve_plain(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    momentum: bool,
) -> Solution:
    """Complete values (B, m, n) with shrinkage (B,); finished matrices are left as they are."""
    missing = ~mask
    none = torch.zeros((), dtype=values.dtype, device=values.device)
    filled = values if start is None else torch.where(mask, values, start)
    batch = values.shape[0]
    running = torch.ones(batch, dtype=torch.bool, device=values.device)
    steps = torch.zeros(batch, dtype=torch.int64, device=values.device)
    change = torch.full((batch,), torch.inf, dtype=torch.float64, device=values.device)
    rank = torch.zeros(batch, dtype=torch.int64, device=values.device)
    theta = torch.ones(batch, dtype=values.dtype, device=values.device)
    last, result = filled, filled
    for step in range(1, max_steps + 1):
        shrunk, new_rank = _shrink(filled, shrinkage)
        moved = torch.where(missing, shrunk - filled, none)
        size = torch.linalg.matrix_norm(torch.where(missing, filled, none)).double()
        distance = torch.linalg.matrix_norm(moved).double()
        new_change = torch.where(distance == 0, 0.0, distance / size)
        alive = running[:, None, None]
        landed = torch.where(mask, values, shrunk)
        if momentum and step < max_steps:
            uphill = (moved * torch.where(missing, landed - last, none)).sum((-2, -1)) < 0
            theta = torch.where(uphill, 1.0, theta)
            following = (1 + (1 + 4 * theta**2).sqrt()) / 2
            ahead = landed + ((theta - 1) / following)[:, None, None] * (landed - last)
            last, theta = torch.where(alive, landed, last), following
        else:
            ahead = landed
        result = torch.where(alive, shrunk, result)
        rank = torch.where(running, new_rank, rank)
        change = torch.where(running, new_change, change)
        steps = steps + running
        stays = running & (new_change >= tolerance)
        filled = torch.where(alive, torch.where(stays[:, None, None], ahead, landed), filled)
        running = stays
        if not bool(running.any()):
            break
    code = torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code)
    code = torch.where(torch.isfinite(filled).all(-1).all(-1), code, Outcome.NOT_FINITE.code)
    return Solution(
        filled=torch.where(mask, values, filled),
        estimate=result,
        shrinkage=shrinkage,
        rank=rank,
        iterations=steps,
        change=change,
        code=code,
    )


def _shrink(matrix: torch.Tensor, shrinkage: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Singular-value shrinkage through the smaller Gram matrix in float64, or an SVD where that is too coarse."""
    if matrix.shape[-1] > matrix.shape[-2]:
        shrunk, rank = _shrink(matrix.mT, shrinkage)
        return shrunk.mT, rank
    wide = matrix.double()
    squares, vectors = torch.linalg.eigh(wide.mT @ wide)
    s = squares.clamp(min=0).sqrt()
    if bool((shrinkage <= _GRAM_FLOOR * s[:, -1]).any()):
        return shrink_singular_values(matrix, shrinkage)
    keep = (1 - shrinkage.double().unsqueeze(-1) / s.clamp(min=torch.finfo(torch.float64).tiny)).clamp(min=0)
    hat = (vectors * keep.unsqueeze(-2)) @ vectors.mT
    return matrix @ hat.to(matrix.dtype), (keep > 0).sum(-1)
