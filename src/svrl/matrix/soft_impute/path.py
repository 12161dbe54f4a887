"""Soft-Impute for large matrices: a growing subspace, ridge regressions inside, a proof at the end.

The minimiser has some rank r far below m and n. On a fixed rank the problem is ridge alternating
least squares (see `factor_als`), whose halves are exact; only the right rank is unknown. So:

1. Start from a few leading directions of the zero-filled matrix, or from the caller's start.
2. Alternate the two halves. Every few iterations form the residual R = P(X - Z) and
   a. take one shrinkage step of the filled matrix R + Z inside the current right subspace, which
      lowers the objective and drops the directions that the shrinkage kills;
   b. look for directions of R with singular values above the shrinkage. By the optimality
      conditions these, and only these, show that the subspace is too small: they join it, each
      with about the length that lowers the objective most.
3. Stop when Z has settled and no such direction is left.

The objective falls along this path of growing ranks, and no singular value decomposition of the
whole matrix is ever taken. If the rank grows past `most`, the outcome says so and the caller takes full
decompositions instead, which are then cheaper.
"""

from __future__ import annotations

import math

import torch

from svrl.matrix.estimate import Outcome
from svrl.matrix.ridge_step import residual, solve_columns, solve_rows
from svrl.matrix.soft_impute.reference import Solution
from svrl.matrix.subspace import relative_change, split, top_directions

Factors = tuple[torch.Tensor, torch.Tensor]

FIRST_RANK = 8
LOOK_EVERY = 4
ROUNDING = 8
"""A change of fewer units in the last place is rounding: factors that have settled go on moving by 2 to 7."""


def most_useful_rank(m: int, n: int) -> int:
    """Beyond about sqrt(8 min(m, n)) factors, the packed Grams are wider than the matrix itself.

    Up to 16 they are cheap whatever the shape.
    """
    return min(m, n, max(16, math.isqrt(8 * min(m, n))))


def solve_path(
    values: torch.Tensor,
    mask: torch.Tensor,
    shrinkage: torch.Tensor,
    start: Factors | None,
    tolerance: float,
    max_steps: int,
    source: torch.Generator,
) -> Solution[torch.Tensor]:
    """Complete one matrix, values and mask (1, m, n), with shrinkage (1,).

    The code is NOT_LOW_ENOUGH if the minimiser's rank turned out too high for this method; the
    factors are then a good start for another.
    """
    t = shrinkage.to(values.dtype)
    tolerance = max(tolerance, ROUNDING * torch.finfo(values.dtype).eps)
    share = mask.to(values.dtype).mean((-2, -1))
    left, right = start if start is not None else _first(values, t, share, source)
    most = most_useful_rank(*values.shape[-2:])
    beyond, seen = FIRST_RANK, None
    change = torch.full_like(shrinkage, torch.inf)
    code, step = Outcome.OUT_OF_STEPS, 0
    for step in range(1, max_steps + 1):
        old = (left, right)
        left = solve_rows(values, mask, right, t)
        right = solve_columns(values, mask, left, t)
        change = relative_change((left, right), old).double()
        settled = bool(change < tolerance)
        if not (settled or step % LOOK_EVERY == 0 or step == max_steps):
            continue
        rest = residual(values, mask, left, right)
        if not bool(torch.isfinite(rest).all()):
            code = Outcome.NOT_FINITE
            break
        left, right = _shrink_inside(rest, left, right, t)
        u, s, v = top_directions(rest, beyond, source, guess=seen, tolerance=1e-3, watch=1)
        seen = v
        extra = s[0] > t * (1 + 10 * tolerance)
        found = int(extra.sum())
        if settled and not found:
            code = Outcome.CONVERGED
            break
        if found and left.shape[-1] == most:
            code = Outcome.NOT_LOW_ENOUGH
            break
        found = min(found, most - left.shape[-1])
        more = split(u[..., :found], (s[..., :found] - t) / share, v[..., :found])
        left, right = torch.cat([left, more[0]], -1), torch.cat([right, more[1]], -1)
        beyond = min(2 * beyond, most) if found == beyond else beyond
    whole = torch.tensor([step], device=values.device)
    rank, codes = torch.full_like(whole, left.shape[-1]), torch.full_like(whole, code.code)
    return Solution(None, shrinkage, change, whole, rank, codes, factors=(left, right))


def _first(values: torch.Tensor, t: torch.Tensor, share: torch.Tensor, source: torch.Generator) -> Factors:
    """Leading directions of the zero-filled matrix, at the length they would have if it were full."""
    u, s, v = top_directions(values, FIRST_RANK, source, max_steps=6, watch=1)
    return split(u, s / share.unsqueeze(-1), v)


def _shrink_inside(rest: torch.Tensor, left: torch.Tensor, right: torch.Tensor, t: torch.Tensor) -> Factors:
    """One Soft-Impute step restricted to the span of the right factors; killed directions leave."""
    basis, triangle = torch.linalg.qr(right)
    u, s, vt = torch.linalg.svd(rest @ basis + left @ triangle.mT, full_matrices=False)
    kept = s[0] > t
    return split(u[..., kept], (s - t.unsqueeze(-1))[:, kept], (basis @ vt.mT)[..., kept])
