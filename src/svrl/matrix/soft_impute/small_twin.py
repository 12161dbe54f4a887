"""SI-RF in plain torch: the twin of `small_kernel`, for any device, and the version to read.

Each iteration takes the right singular vectors of the filled matrices from an eigendecomposition,
freezes the hat matrix W, relaxes every missing entry twice by Gauss-Seidel and extrapolates.
The kernel replaces the eigendecomposition by Jacobi sweeps on the basis of the last iteration;
both stop by the same rule at the same optimum.
"""

from __future__ import annotations

import torch

from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.solution import Solution

GAUSS_SEIDEL_PASSES = 2


def solve_small_twin(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor | None,
    ratio: float,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> Solution:
    """Complete values (B, m, n), m >= n; shrinkage (B,), or None for ratio times the largest singular value."""
    scale = values.abs().amax((-2, -1)).double()
    unit = torch.where(scale > 0, scale, 1.0)
    x = values / unit[:, None, None].to(values.dtype)
    t = ratio * torch.linalg.svdvals(x)[:, 0].double() if shrinkage is None else shrinkage.double() / unit
    t = torch.where(t > 0, t, 1.0)
    guess = row_means(x, mask) if start is None else start / unit[:, None, None].to(values.dtype)
    f = torch.where(mask, x, guess)
    running = (~mask).any(-1).any(-1) & (scale > 0)
    f, steps, change, running = _iterate(f, mask, t, running, tolerance, max_steps)
    hat, _, rank = _hat_matrix(f, t)
    back_scale = unit[:, None, None].to(values.dtype)
    return Solution(
        filled=torch.where(mask, values, f * back_scale) if fill else None,
        estimate=None if fill else (f @ hat) * back_scale,
        shrinkage=t * unit,
        rank=torch.where(scale > 0, rank, 0),
        iterations=torch.where(scale > 0, steps.clamp(min=1), 0),
        change=change,
        code=torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code),
    )


def _iterate(
    f: torch.Tensor, mask: torch.Tensor, t: torch.Tensor, running: torch.Tensor, tolerance: float, max_steps: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Relax and extrapolate until every matrix has settled: F, steps, last change, and who is still running."""
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
        new = relax_rows(f, ~mask, hat)
        moved = new - f
        size = torch.linalg.matrix_norm(f.masked_fill(mask, 0)).double()
        distance = torch.linalg.matrix_norm(moved).double()
        new_change = torch.where(distance == 0, 0.0, distance / size)
        change = torch.where(running, new_change, change)
        steps = steps + running
        stays = running & (new_change >= tolerance)
        uphill = (moved * (new - last)).sum((-2, -1)) < 0
        theta = torch.where(uphill, 1.0, theta)
        following = (1 + (1 + 4 * theta**2).sqrt()) / 2
        goes_on = stays & (step + 1 < max_steps)
        weight = torch.where(goes_on, (theta - 1) / following, 0.0).to(f.dtype)[:, None, None]
        alive = running[:, None, None]
        f, last = torch.where(alive, new + weight * (new - last), f), torch.where(alive, new, last)
        theta, running = following, stays
    return f, steps, change, running


def row_means(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of each row's observed entries, (B, m, 1); x is zero elsewhere."""
    return x.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


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


def relax_rows(f: torch.Tensor, missing: torch.Tensor, hat: torch.Tensor) -> torch.Tensor:
    """Gauss-Seidel on (I - W)_mm z_m = W_mo z_o, all rows of all matrices at once, column by column."""
    f = f.clone()
    own = hat.diagonal(dim1=-2, dim2=-1)
    for _ in range(GAUSS_SEIDEL_PASSES):
        for j in range(f.shape[-1]):
            pull = (f @ hat[:, :, j : j + 1]).squeeze(-1) - own[:, None, j] * f[:, :, j]
            f[:, :, j] = torch.where(missing[:, :, j], pull / (1 - own[:, None, j]), f[:, :, j])
    return f
