"""SoftImpute: the paper's convex matrix-estimation problem.

Minimises over Z

    1/2 * sum over observed (i, j) of (Z_ij - X_ij)^2  +  shrinkage * |Z|_*

where |Z|_* is the sum of the singular values (Mazumder, Hastie and Tibshirani, JMLR 2010; the
paper's equation for Soft-Impute). The problem is convex and all solvers here reach the same
minimum; they differ in cost:

- "small" (SI-RF): batches of matrices up to 512 x 64, a compiled loop without Python inside;
- "path": one large matrix whose minimiser has a low rank, see `solve_path`;
- "plain": the published iteration, for any shape; "accelerated": the same with momentum.

Shrinkage biases: every singular value of the estimate is too small by about the shrinkage over
the observed share, and missing entries are pulled towards zero. Where values are far from zero
(a Q matrix of negative rewards, say), centre them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch

from svrl.matrix.arrays import (
    Bounds,
    Centre,
    Generator,
    Output,
    as_array,
    check_choice,
    check_settings,
    torch_generator,
)
from svrl.matrix.estimate import Estimate, Factors, Outcome, Start
from svrl.matrix.factor_als import leading_factors, residual, solve_columns, solve_rows
from svrl.matrix.observed import Observed, check_observed
from svrl.matrix.scaling import Completed, Problem, Scale, scale_on_cpu, unscale_on_cpu
from svrl.matrix.soft_impute_cuda import complete_scaled_on_gpu, serves, solve_on_gpu, working_type
from svrl.matrix.soft_impute_reference import Solution, solve_in_torch, solve_plain
from svrl.matrix.subspace import largest_singular_value_of, relative_change, split, top_directions

Solver = Literal["auto", "small", "path", "plain", "accelerated"]

LONGEST_SIDE, SHORTEST_SIDE = 512, 64
"""Up to this size SI-RF is the fastest: its basis stays in the cache."""
FIRST_RANK, LOOK_EVERY = 8, 4
"""Directions that "path" begins with, and iterations between two searches for more."""
ROUNDING = 8
"""A change of fewer units in the last place is rounding: factors that have settled still move by 2 to 7."""


@dataclass(frozen=True, kw_only=True)
class SoftImpute:
    """Nuclear-norm shrinkage at one fixed level.

    Attributes:
        shrinkage: Weight of the nuclear norm, in units of the values. None takes `ratio` instead.
        ratio: The shrinkage as a share of the largest singular value of the zero-filled (and
            centred) matrix; the authors' is 1/50.
        tolerance: Stop once the missing entries (with "path": the whole estimate) move by less
            than this fraction of their norm in one iteration.
        max_steps: Most iterations. Running out of them is reported, not raised.
        output: "estimate" returns the minimiser Z; "fill" keeps the observed entries and takes
            only the missing ones from Z, as the authors' code does.
        centre: What to subtract before and add back after: "none", "mean", "midrange" (of the
            observed entries) or "row" (each row's observed mean).
        clip: Bounds (low, high) on estimated entries; observed entries that are kept do not change.
        solver: "auto" chooses by size; "small", "path", "plain" and "accelerated" force one.
    """

    shrinkage: float | None = None
    ratio: float = 1 / 50
    tolerance: float = 1e-5
    max_steps: int = 1000
    output: Output = "estimate"
    centre: Centre = "none"
    clip: Bounds = None
    solver: Solver = "auto"

    def __post_init__(self) -> None:
        check_settings(self, whole=("max_steps",), positive=("shrinkage", "ratio"))
        check_choice("SoftImpute", "solver", self.solver, get_args(Solver))

    @classmethod
    def authors(cls, **changes: object) -> SoftImpute:
        """The authors' rule, iterate for iterate (fancyimpute's defaults).

        The shrinkage is 1/50 of the largest singular value and the first guess is zero. At most 100
        published iterations run, until the missing entries change by less than 1e-3 of their norm,
        and the observed entries are kept. Agrees with fancyimpute to 1e-5.
        """
        record = cls(tolerance=1e-3, max_steps=100, output="fill", solver="plain")
        return replace(record, **changes)  # type: ignore[arg-type]

    def captures(self, m: int, n: int, device: torch.device) -> bool:
        """Whether a CUDA graph can record a call on float32 matrices (..., m, n), because the call never waits.

        On a device without graphs, calls with these settings return True.
        """
        if self.centre != "none" or not self._small(m, n):
            return False
        kind = working_type(torch.float32, self.shrinkage, self.ratio)
        return device.type != "cuda" or serves(max(m, n), min(m, n), kind, device)

    def complete_scaled(self, q: torch.Tensor, mask: torch.Tensor, *, scale: Scale, fill: bool) -> Completed | None:
        """`svrl.matrix.scaling.complete_scaled` in one kernel, or None if no kernel fits these matrices or settings."""
        m, n = q.shape[-2:]
        plain = self.shrinkage is None and self.output == "estimate" and self.centre == "none" and self.clip is None
        if not (plain and m >= n and self._small(m, n)):
            return None
        flat, known = q.reshape(-1, m, n), mask.reshape(-1, m, n)
        rule = {"ratio": self.ratio, "tolerance": self.tolerance, "max_steps": self.max_steps}
        if not q.is_cuda:
            found = self._complete_on_cpu(as_array(flat), as_array(known), scale, fill)
        elif working_type(q.dtype, None, self.ratio) == torch.float32 and serves(m, n, q.dtype, q.device):
            found = complete_scaled_on_gpu(flat, known, scale=scale, fill=fill, **rule)  # type: ignore[arg-type]
        else:
            found = None
        return found and Completed(*(part.view((*q.shape[:-2], *part.shape[1:])) for part in found))

    def _complete_on_cpu(self, q: np.ndarray, mask: np.ndarray, scale: Scale, fill: bool) -> Completed | None:
        from svrl.matrix.soft_impute_kernel import solve_on_cpu

        values, offset, factor = np.zeros_like(q), np.empty(q.shape[:2], q.dtype), np.empty(len(q), q.dtype)
        if not scale_on_cpu(q, mask, scale == "row", scale == "minmax", values, offset, factor):
            return None
        found = solve_on_cpu(values, mask, None, self.ratio, None, self.tolerance, self.max_steps, fill=False)
        matrix = np.empty_like(q)
        unscale_on_cpu(q, mask, offset, factor, scale == "minmax", fill, found.matrix, matrix)
        return Completed(*map(torch.from_numpy, (matrix, found.matrix, found.rank, found.code)))

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix: as factors with solver "path" and output "estimate", else dense."""
        check_observed(observed)
        m, n = observed.shape[-2:]
        small = self._small(m, n)
        if small and start is None and self.centre == "none" and self.clip is None and m >= n:
            values, mask = observed.values, observed.mask
            if isinstance(values, np.ndarray) or values.device.type == "cpu":
                return self._straight_to_the_kernel(observed, as_array(values), as_array(mask))
        problem = Problem(observed, self.centre, rescale=not small)
        if small:
            solution = self._solve_small(problem, start)
        else:
            solution = self._solve_large(problem, start, torch_generator(generator, problem.values.device))
        return problem.deliver(**solution._asdict(), output=self.output, clip=self.clip)

    def _small(self, m: int, n: int) -> bool:
        """Whether SI-RF is the solver for this shape."""
        fits = max(m, n) <= LONGEST_SIDE and min(m, n) <= SHORTEST_SIDE
        return self.solver == "small" or (self.solver == "auto" and fits)

    def _straight_to_the_kernel(self, observed: Observed, values: np.ndarray, mask: np.ndarray) -> Estimate:
        """Solve the common small case from arrays to arrays, with a few microseconds of overhead around the kernel."""
        from svrl.matrix.soft_impute_kernel import solve_on_cpu

        *batch, m, n = values.shape
        fill, rule = self.output == "fill", (self.shrinkage, self.ratio, None, self.tolerance, self.max_steps)
        found = solve_on_cpu(values.reshape(-1, m, n), mask.reshape(-1, m, n), *rule, fill=fill)
        arrays: list[Any] = [found.matrix.reshape(values.shape), *(numbers.reshape(batch) for numbers in found[1:6])]
        if not observed.numpy:
            arrays = [torch.from_numpy(array) for array in arrays]
        matrix, shrinkage, change, iterations, rank, code = arrays
        return Estimate(
            dense=matrix,
            factors=None,
            code=code,
            rank=rank,
            iterations=iterations,
            change=change,
            shrinkage=shrinkage,
            kept=fill,
        )

    def _solve_small(self, problem: Problem, start: Start) -> Solution[torch.Tensor]:
        """SI-RF: compiled by numba on the CPU, by NVRTC on a GPU, and in torch where that kernel does not fit."""
        values, mask, first = problem.values, problem.mask, problem.start_matrix(start)
        shrinkage = None if self.shrinkage is None else problem.absolute(self.shrinkage)
        wide = values.shape[-2] < values.shape[-1]
        if wide:
            values, mask, first = values.mT, mask.mT, None if first is None else first.mT
        fill, rest = self.output == "fill", (self.tolerance, self.max_steps)
        if values.device.type == "cpu":
            from svrl.matrix.soft_impute_kernel import solve_on_cpu

            level, guess = (None if given is None else as_array(given) for given in (shrinkage, first))
            arrays = solve_on_cpu(as_array(values), as_array(mask), level, self.ratio, guess, *rest, fill=fill)
            solution: Solution[torch.Tensor] = Solution._make((*map(torch.from_numpy, arrays[:6]), None))
        else:
            kind = working_type(values.dtype, shrinkage, self.ratio)
            m, n = values.shape[-2:]
            solve = solve_on_gpu if serves(m, n, kind, values.device) else solve_in_torch
            solution = solve(values, mask, shrinkage, self.ratio, first, *rest, fill=fill)
        return solution._replace(matrix=solution.matrix.mT) if wide else solution

    def _solve_large(self, problem: Problem, start: Start, source: torch.Generator) -> Solution[torch.Tensor]:
        values, mask = problem.values, problem.mask
        if self.shrinkage is not None:
            shrinkage = problem.absolute(self.shrinkage)
        else:
            shrinkage = self.ratio * largest_singular_value_of(values, source).double()
            # A zero matrix has no scale of its own; any positive shrinkage solves it.
            shrinkage = torch.where(shrinkage > 0, shrinkage, torch.ones_like(shrinkage))
        if self.solver in ("plain", "accelerated"):
            momentum, first = self.solver == "accelerated", problem.start_matrix(start)
            return solve_plain(values, mask, shrinkage, first, self.tolerance, self.max_steps, momentum=momentum)
        given = problem.start_factors(start)
        if given is None and start is not None:
            matrix = problem.start_matrix(start)
            assert matrix is not None
            given = split(*top_directions(matrix, 32, source))
        solved = []
        for b in range(len(values)):
            one = slice(b, b + 1)
            factors = None if given is None else (given[0][one], given[1][one])
            solved.append(self._solve_one(values[one], mask[one], shrinkage[one], factors, source))
        return solved[0] if len(solved) == 1 else _stack(solved)

    def _solve_one(
        self,
        values: torch.Tensor,
        mask: torch.Tensor,
        shrinkage: torch.Tensor,
        start: Factors | None,
        source: torch.Generator,
    ) -> Solution[torch.Tensor]:
        found = solve_path(values, mask, shrinkage, start, self.tolerance, self.max_steps, source)
        if int(found.code) != Outcome.NOT_LOW_ENOUGH.code or self.solver == "path":
            return found
        dense = solve_plain(values, mask, shrinkage, _matrix(found), self.tolerance, self.max_steps, momentum=True)
        return dense._replace(iterations=dense.iterations + found.iterations)


def _matrix(solution: Solution[torch.Tensor]) -> torch.Tensor:
    if solution.matrix is not None:
        return solution.matrix
    assert solution.factors is not None
    return solution.factors[0] @ solution.factors[1].mT


def _stack(solved: list[Solution[torch.Tensor]]) -> Solution[torch.Tensor]:
    """Join single solutions as dense matrices, because their factors may differ in rank."""
    numbers = (torch.cat(parts) for parts in zip(*(one[1:6] for one in solved), strict=True))
    return Solution._make((torch.cat([_matrix(one) for one in solved]), *numbers, None))


def most_useful_rank(m: int, n: int) -> int:
    """Beyond about sqrt(8 min(m, n)) factors, packed Grams are wider than the matrix; 16 are always cheap."""
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
    """Complete one large matrix, values and mask (1, m, n), with shrinkage (1,).

    The minimiser has some rank r far below m and n. On a fixed rank the problem is ridge alternating
    least squares (see `factor_als`), whose halves are exact; only the right rank is unknown. So:

    1. Start from a few leading directions of the zero-filled matrix, or from the caller's start.
    2. Alternate the two halves. Every few iterations form the residual R = P(X - Z) and
       a. take one shrinkage step of the filled matrix R + Z inside the current right subspace, which
          lowers the objective and drops the directions that the shrinkage sets to zero;
       b. look for directions of R with singular values above the shrinkage. By the optimality
          conditions these, and only these, show that the subspace is too small: they join it, each
          with about the length that lowers the objective most.
    3. Stop when Z has settled and no such direction is left.

    The objective falls along this path of growing ranks, and no singular value decomposition of the
    whole matrix is ever taken. The code is NOT_LOW_ENOUGH if the minimiser's rank is too high for this
    method: then full decompositions are cheaper, and the factors are a good start for them.
    """
    t = shrinkage.to(values.dtype)
    tolerance = max(tolerance, ROUNDING * torch.finfo(values.dtype).eps)
    share = mask.to(values.dtype).mean((-2, -1))
    # A zero-filled matrix has shorter directions than a full one; the first guess allows for that.
    left, right = start or leading_factors(values, mask, FIRST_RANK, source, max_steps=6)[0]
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


def _shrink_inside(rest: torch.Tensor, left: torch.Tensor, right: torch.Tensor, t: torch.Tensor) -> Factors:
    """One Soft-Impute step restricted to the span of the right factors; directions that it sets to zero leave."""
    basis, triangle = torch.linalg.qr(right)
    u, s, vt = torch.linalg.svd(rest @ basis + left @ triangle.mT, full_matrices=False)
    kept = s[0] > t
    return split(u[..., kept], (s - t.unsqueeze(-1))[:, kept], (basis @ vt.mT)[..., kept])
