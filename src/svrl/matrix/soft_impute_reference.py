"""Soft-Impute in plain torch, for any device: the published iteration, and SI-RF, which the kernels run faster.

The published iteration fills, shrinks and repeats,

    Z <- shrink(P(X) + missing part of Z),

which is a gradient step of length 1 on the objective as a function of the missing entries alone, whose gradient is
1-Lipschitz: the objective never rises. With `momentum` it is Nesterov's method on the same function, restarted when it
points uphill. Mazumder, Hastie and Tibshirani, JMLR 2010.

SI-RF (Soft-Impute, rows free) takes the right singular vectors of the filled matrices from an eigendecomposition,
freezes the hat matrix W = V diag((1 - shrinkage / s_k)_+) V', relaxes every missing entry twice by Gauss-Seidel and
extrapolates. `soft_impute_kernel.py` explains why this is right. It replaces the eigendecomposition by Jacobi sweeps on
the basis of the last iteration; both stop by the same rule at the same optimum.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import torch

from svrl.matrix.certificate import shrink_singular_values
from svrl.matrix.estimate import Outcome, repeat
from svrl.matrix.scaling import row_means

GAUSS_SEIDEL_PASSES = 2
FINEST_IN_SINGLE = 1e-3
"""SI-RF works in float64 on shrinkages below this share of the largest singular value."""
GRAM_FLOOR = 1e-6
"""Below this share of the largest singular value a float64 Gram matrix no longer resolves the shrinkage."""

Kind = TypeVar("Kind")


class Solution(NamedTuple, Generic[Kind]):
    """A batch of solved matrices, before the centre is added back; tensors, or NumPy arrays from the CPU kernel.

    Attributes:
        matrix: A Kind (B, m, n), the minimiser or, from SI-RF with `fill`, the observed entries and the missing ones
            of the minimiser; None where there are factors.
        shrinkage, change: (B,), float64.
        iterations, rank, code: (B,), int64.
        factors: (left (B, m, r), right (B, n, r)) of the minimiser, or None.
    """

    matrix: Any
    shrinkage: Kind
    change: Kind
    iterations: Kind
    rank: Kind
    code: Kind
    factors: tuple[Kind, Kind] | None = None


def solve_plain(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    momentum: bool,
) -> Solution[torch.Tensor]:
    """Complete values (B, m, n) with shrinkage (B,); a settled matrix no longer changes."""

    def step(
        filled: torch.Tensor, last: torch.Tensor, theta: torch.Tensor, *_: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        shrunk, rank = _shrink(filled, shrinkage)
        landed, moved, change = fill(values, mask, filled, shrunk)
        if not momentum:
            return (landed, landed, theta, shrunk, rank), change
        uphill = (moved * (landed - last)).sum((-2, -1)) < 0
        theta, weight = _momentum(theta, uphill)
        return (landed + weight[:, None, None] * (landed - last), landed, theta, shrunk, rank), change

    filled = values if start is None else torch.where(mask, values, start)
    theta = torch.ones_like(values[:, 0, 0])
    rank = torch.zeros_like(theta, dtype=torch.int64)
    state, steps, change, code = repeat(step, (filled, filled, theta, filled, rank), tolerance, max_steps)
    return Solution(state[3], shrinkage, change, steps, state[4], code)


def fill(
    values: torch.Tensor, mask: torch.Tensor, filled: torch.Tensor, approximation: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Fill the missing entries from an approximation of the filled matrix, all (B, m, n).

    Returns:
        The newly filled matrix; how far its missing entries moved, zero where observed; the relative change, (B,)
        and float64.
    """
    moved = (approximation - filled).masked_fill(mask, 0)
    return torch.where(mask, values, approximation), moved, _relative(moved, filled, mask)


def _relative(moved: torch.Tensor, filled: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The norm of a step over that of the missing entries before it, (B,) and float64."""
    size = torch.linalg.matrix_norm(filled.masked_fill(mask, 0)).double()
    distance = torch.linalg.matrix_norm(moved).double()
    return torch.where(distance == 0, 0.0, distance / size)


def _momentum(theta: torch.Tensor, uphill: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Nesterov's next theta (B,) and the weight of the last step (B,); restarts where the step points uphill."""
    theta = torch.where(uphill, 1.0, theta)
    following = (1 + (1 + 4 * theta**2).sqrt()) / 2
    return following, (theta - 1) / following


def _shrink(matrix: torch.Tensor, shrinkage: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Singular-value shrinkage through the smaller Gram matrix in float64, or an SVD where that is too coarse."""
    if matrix.shape[-1] > matrix.shape[-2]:
        shrunk, rank = _shrink(matrix.mT, shrinkage)
        return shrunk.mT, rank
    wide = matrix.double()
    squares, vectors = torch.linalg.eigh(wide.mT @ wide)
    s = squares.clamp(min=0).sqrt()
    if bool((shrinkage <= GRAM_FLOOR * s[:, -1]).any()):
        return shrink_singular_values(matrix, shrinkage)
    keep = (1 - shrinkage.double().unsqueeze(-1) / s.clamp(min=torch.finfo(torch.float64).tiny)).clamp(min=0)
    hat = (vectors * keep.unsqueeze(-2)) @ vectors.mT
    return matrix @ hat.to(matrix.dtype), (keep > 0).sum(-1)


def solve_in_torch(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor | None,
    ratio: float,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> Solution[torch.Tensor]:
    """Complete values (B, m, n), m >= n; shrinkage (B,), or None for ratio times the largest singular value."""
    scale = values.abs().amax((-2, -1)).double()
    unit = torch.where(scale > 0, scale, 1.0)
    by_matrix = unit[:, None, None].to(values.dtype)
    x = values / by_matrix
    t = ratio * torch.linalg.svdvals(x)[:, 0].double() if shrinkage is None else shrinkage.double() / unit
    t = torch.where(t > 0, t, 1.0)
    guess = row_means(x, mask) if start is None else start / by_matrix
    f = torch.where(mask, x, guess)
    running = (~mask).any(-1).any(-1) & (scale > 0)
    f, steps, change, running = _iterate(f, mask, t, running, tolerance, max_steps)
    hat, _, rank = _hat_matrix(f, t)
    return Solution(
        matrix=torch.where(mask, values, f * by_matrix) if fill else (f @ hat) * by_matrix,
        shrinkage=t * unit,
        change=change,
        iterations=torch.where(scale > 0, steps.clamp(min=1), 0),
        rank=torch.where(scale > 0, rank, 0),
        code=torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code),
    )


def _iterate(
    f: torch.Tensor, mask: torch.Tensor, t: torch.Tensor, running: torch.Tensor, tolerance: float, max_steps: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Relax and extrapolate until every matrix settles; return F, steps, last change, and which matrices still run."""
    steps = torch.zeros(len(f), dtype=torch.int64, device=f.device)
    change = torch.where(running, torch.inf, 0.0).double()
    lowest = torch.full_like(t, torch.inf)
    theta = torch.ones_like(t)
    last = f
    slack = 1e-7 if f.dtype == torch.float32 else 1e-14
    for step in range(max_steps):
        if not bool(running.any()):
            break
        hat, bound, _ = _hat_matrix(f, t)
        back = (bound > lowest * (1 + slack)) & (theta > 1)
        if bool((back & running).any()):
            theta = torch.where(back, 1.0, theta)
            f = torch.where(back[:, None, None], last, f)
            hat, bound, _ = _hat_matrix(f, t)
        lowest = torch.minimum(lowest, bound)
        new = _relax_rows(f, ~mask, hat)
        moved = new - f
        new_change = _relative(moved, f, mask)
        change = torch.where(running, new_change, change)
        steps = steps + running
        stays = running & (new_change >= tolerance)
        theta, weight = _momentum(theta, (moved * (new - last)).sum((-2, -1)) < 0)
        goes_on = stays & (step + 1 < max_steps)
        weight = torch.where(goes_on, weight, 0.0).to(f.dtype)[:, None, None]
        alive = running[:, None, None]
        f, last = torch.where(alive, new + weight * (new - last), f), torch.where(alive, new, last)
        running = stays
    return f, steps, change, running


def _hat_matrix(f: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W = V diag((1 - t / s)_+) V' (B, n, n), the objective as a function of F (B,), and the rank (B,)."""
    wide = f.double()
    squares, vectors = torch.linalg.eigh(wide.mT @ wide)
    s = squares.clamp(min=0).sqrt()
    level = t.unsqueeze(-1)
    above = s > level
    keep = torch.where(above, 1 - level / s.clamp(min=1e-300), 0.0)
    bound = torch.where(above, level * s - level**2 / 2, s**2 / 2).sum(-1)
    hat = (vectors * keep.unsqueeze(-2)) @ vectors.mT
    return hat.to(f.dtype), bound, above.sum(-1)


def _relax_rows(f: torch.Tensor, missing: torch.Tensor, hat: torch.Tensor) -> torch.Tensor:
    """Gauss-Seidel on (I - W)_mm z_m = W_mo z_o, all rows of all matrices at once, column by column."""
    f = f.clone()
    own = hat.diagonal(dim1=-2, dim2=-1)
    for _ in range(GAUSS_SEIDEL_PASSES):
        for j in range(f.shape[-1]):
            pull = (f @ hat[:, :, j : j + 1]).squeeze(-1) - own[:, None, j] * f[:, :, j]
            f[:, :, j] = torch.where(missing[:, :, j], pull / (1 - own[:, None, j]), f[:, :, j])
    return f
