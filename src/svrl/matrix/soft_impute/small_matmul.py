"""SI-RF from matrix products alone: no decomposition, no look at the device, so a CUDA graph can hold it.

The iteration is that of `small_twin`; only the hat matrix is found differently. With G = F'F and t the
shrinkage,

    C = max(G, t^2),    W = I - t C^(-1/2),

where max acts on the eigenvalues: an eigenvalue s^2 above t^2 gives 1 - t / s, the others give 0. Two
matrix functions are needed, and one family of polynomials serves both:

    sign(G - t^2 I) = S,  so that C = t^2 I + (G - t^2 I)(I + S) / 2,    by X <- X q(X X),
    C^(1/2) and C^(-1/2)                                                 by Y <- Y q(Z Y), Z <- q(Z Y) Z,

with q(y) = a + b y + c y^2. In each step x q(x^2) is the odd quintic nearest to 1 on the interval that the
step before has left, which among compositions of quintics is the best one (Amsel, Persson, Musco and Gower,
The Polar Express, 2025). `nearest_to_one` finds it by Remez exchange. The bound on the objective that the
momentum is checked with comes from the same matrices: t tr C^(1/2) - n t^2 / 2 + tr(G - C) / 2.

The (n, n) work is done in float64 whatever the values are: W is then right to 2e-13 on the benchmark's
families, where float32 leaves 3e-5 at best and diverges at worst. The steps suffice for shrinkages from
FINEST of |G|_F^(1/2) on; a matrix with a finer one is reported as out of steps. An iteration that raised the
bound is spent on going back, since to repeat it at once would mean to look. All iterations are made, needed
or not, so outside a graph the twin is faster.

Distance of the missing entries from the float64 optimum, relative to their norm, for 300 matrices of each of
the four families of `benchmarks/matrix.py` (32 x 18, 90% observed, shrinkage of 1/50), float32 and float64 alike:

    tolerance    median, by family      largest
    1e-3         2e-5 to 1.1e-3         3.4e-3
    1e-5         3e-7 to 1.0e-5         3.2e-5 in float32, 4.2e-5 in float64
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch

from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.small_twin import relax_rows, row_means
from svrl.matrix.soft_impute.solution import Solution

CAP = 24
"""Most iterations.

Of 500 matrices of each family of the benchmark, 90% observed, the slowest needs 14 for a tolerance of 1e-3, and
all but one of the 2,000 need at most 24 for 1e-5. At 50% observed Gaussian matrices mostly need 30 and over 64.
"""
FINEST = 1e-3
"""Least shrinkage as a share of the square root of |F'F|_F that the steps can resolve."""
SIGN_REACH = 1e-8
"""Eigenvalues of G nearer to t^2 than this share of |G|_F may pass for either side."""
SQUARINGS = 24
"""Of G, for its largest eigenvalue: the relative error of its root is below n / (2 e 2^24), 7e-7 for n = 64."""
SLACK = {torch.float32: 1e-7, torch.float64: 1e-10}
"""Relative rise of the bound that may be rounding or an unresolved sign."""
Quintic = tuple[float, float, float]


def solve_small_matmul(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor | None,
    ratio: float,
    start: torch.Tensor | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
    cap: int = CAP,
) -> Solution:
    """Complete values (B, m, n), m >= n; shrinkage (B,), or None for ratio times the largest singular value.

    The number of iterations is min(max_steps, cap), whatever the values are.
    """
    scale = values.abs().amax((-2, -1)).double()
    unit = scale.masked_fill(scale == 0, 1.0)
    by_matrix = unit[:, None, None].to(values.dtype)
    x = values / by_matrix
    t = ratio * largest_eigenvalue(_gram(x)).sqrt() if shrinkage is None else shrinkage.double() / unit
    t = t.masked_fill(t <= 0, 1.0)
    guess = row_means(x, mask) if start is None else start / by_matrix
    f = torch.where(mask, x, guess)
    running = (~mask).any(-1).any(-1) & (scale > 0)
    f, steps, change, running = _iterate(f, mask, t, running, tolerance, min(max_steps, cap))
    hat, _, rank = hat_matrix(f, t)
    unsolved = running | (t < FINEST * torch.linalg.matrix_norm(_gram(f)).sqrt())
    code = unsolved.long() * Outcome.OUT_OF_STEPS.code
    return Solution(
        filled=torch.where(mask, values, f * by_matrix) if fill else None,
        estimate=None if fill else (f @ hat) * by_matrix,
        shrinkage=t * unit,
        rank=rank.masked_fill(scale == 0, 0),
        iterations=steps.clamp(min=1).masked_fill(scale == 0, 0),
        change=change,
        code=code.masked_fill(~f.isfinite().all(-1).all(-1), Outcome.NOT_FINITE.code),
    )


def _iterate(
    f: torch.Tensor, mask: torch.Tensor, t: torch.Tensor, running: torch.Tensor, tolerance: float, rounds: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Relax and extrapolate, always `rounds` times: F, steps, last change, and who is still running."""
    steps = torch.zeros_like(running, dtype=torch.int64)
    change = torch.zeros_like(t).masked_fill(running, math.inf)
    lowest = torch.full_like(t, math.inf)
    theta = torch.ones_like(t)
    missing, last = ~mask, f
    for step in range(rounds):
        hat, bound, _ = hat_matrix(f, t)
        back = (bound > lowest * (1 + SLACK[f.dtype])) & (theta > 1)
        lowest = torch.minimum(lowest, bound)
        new = torch.where(back[:, None, None], last, relax_rows(f, missing, hat))
        moved = new - f
        distance = torch.linalg.matrix_norm(moved).double()
        size = torch.linalg.matrix_norm(f.masked_fill(mask, 0)).double()
        new_change = (distance / size).masked_fill(distance == 0, 0.0)
        change = torch.where(running & ~back, new_change, change)
        steps = steps + running
        stays = running & (back | ~(new_change < tolerance))
        uphill = (moved * (new - last)).sum((-2, -1)) < 0
        theta = theta.masked_fill(uphill | back, 1.0)
        following = (1 + (1 + 4 * theta**2).sqrt()) / 2
        weight = ((theta - 1) / following).masked_fill(~stays, 0.0) if step + 1 < rounds else torch.zeros_like(t)
        alive = running[:, None, None]
        extrapolated = new + weight.to(f.dtype)[:, None, None] * (new - last)
        f, last = torch.where(alive, extrapolated, f), torch.where(alive, new, last)
        theta, running = following.masked_fill(back, 1.0), stays
    return f, steps, change, running


def _gram(f: torch.Tensor) -> torch.Tensor:
    wide = f.double()
    return wide.mT @ wide


def hat_matrix(f: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W = V diag((1 - t / s)_+) V' (B, n, n), the objective as a function of F (B,), and the rank (B,)."""
    gram = _gram(f)
    n = gram.shape[-1]
    square = t.square()[:, None, None]
    bound_of_gram = torch.linalg.matrix_norm(gram)[:, None, None]
    eye = torch.eye(n, dtype=gram.dtype, device=gram.device)
    excess = gram - square * eye
    above = (eye + sign(excess, torch.maximum(bound_of_gram, square))) / 2
    raised = torch.baddbmm(square * eye, excess, above)
    raised = (raised + raised.mT) / 2
    inverse_root = invert_root(raised, bound_of_gram + square)
    trace_of_root = (raised * inverse_root).sum((-2, -1))
    lost = (gram - raised).diagonal(dim1=-2, dim2=-1).sum(-1)
    bound = t * trace_of_root - n * t.square() / 2 + lost / 2
    rank = above.diagonal(dim1=-2, dim2=-1).sum(-1).round().long()
    return (eye - t[:, None, None] * inverse_root).to(f.dtype), bound, rank


def sign(matrix: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """The sign of symmetric (B, n, n): eigenvalues to -1 or 1, given (B, 1, 1) above their sizes."""
    x = matrix / norm
    for a, b, c in schedule(SIGN_REACH):
        y = x @ x
        x = torch.baddbmm(x, x, torch.baddbmm(y, y, y, beta=b, alpha=c), beta=a)
    return x


def invert_root(matrix: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
    """C^(-1/2) of positive definite (B, n, n), given (B, 1, 1) above their eigenvalues."""
    root = matrix / norm
    inverse = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
    for a, b, c in schedule(FINEST):
        y = inverse @ root
        q = torch.baddbmm(y, y, y, beta=b, alpha=c)
        root, inverse = torch.baddbmm(root, root, q, beta=a), torch.baddbmm(inverse, q, inverse, beta=a)
    return inverse / norm.sqrt()


def largest_eigenvalue(gram: torch.Tensor) -> torch.Tensor:
    """Of positive semidefinite (B, n, n), (B,), from below: the Rayleigh quotient of a high power."""
    power = gram
    for _ in range(SQUARINGS):
        power = power / torch.linalg.matrix_norm(power, keepdim=True).clamp(min=1e-300)
        power = power @ power
    weight = power.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (gram * power).sum((-2, -1)) / weight.clamp(min=1e-300)


@lru_cache
def schedule(reach: float) -> tuple[Quintic, ...]:
    """Quintics whose composition is 1 on [reach, 1] up to rounding."""
    low, high, steps = reach, 1.0, []
    while high - low > 1e-5:
        best, deviation = nearest_to_one(low, high)
        steps.append(best)
        low, high = 1 - deviation, 1 + deviation
    return (*steps, (15 / 8, -10 / 8, 3 / 8))  # the limit of the others for an interval that shrinks to 1


def nearest_to_one(low: float, high: float) -> tuple[Quintic, float]:
    """The (a, b, c) for which the largest |1 - (a x + b x^3 + c x^5)| on [low, high] is least, and that deviation.

    By Remez exchange: the deviation is equal, with signs that alternate, at four points, the two ends and
    the two places between them where the derivative vanishes.
    """
    points = low + (high - low) * np.array([0.0, 0.45, 0.8, 1.0])
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    while True:
        rows = np.stack([points, points**3, points**5, signs], axis=1)
        a, b, c, deviation = (float(number) for number in np.linalg.solve(rows, np.ones(4)))
        half = math.sqrt(9 * b * b - 20 * a * c)
        inner = math.sqrt((-3 * b - half) / (10 * c)), math.sqrt((-3 * b + half) / (10 * c))
        if np.abs(points[1:3] - inner).max() < 1e-9 * high:
            return (a, b, c), deviation
        points[1:3] = inner
