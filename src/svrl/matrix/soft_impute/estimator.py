"""SoftImpute: the paper's convex matrix-estimation problem.

Minimises over Z

    1/2 * sum over observed (i, j) of (Z_ij - X_ij)^2  +  shrinkage * |Z|_*

where |Z|_* is the sum of the singular values (Mazumder, Hastie and Tibshirani, JMLR 2010; the
paper's equation for Soft-Impute). The problem is convex and all solvers here reach the same
minimum; they differ in what they cost:

- "small" (SI-RF): batches of matrices up to 512 x 64, a compiled loop without Python inside;
- "path": one large matrix whose minimiser has a low rank;
- "plain": the published iteration, of any shape; "accelerated": the same with momentum.

Shrinkage biases: every singular value of the estimate is too small by about the shrinkage over
the observed share, and missing entries are pulled towards zero. Where values are far from zero
(a Q matrix of negative rewards, say), centre them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch

from svrl.matrix.arrays import Generator, as_array, torch_generator
from svrl.matrix.estimate import Estimate, Outcome, Start
from svrl.matrix.observed import Observed, check_observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options, check_positive, check_tolerance, check_whole
from svrl.matrix.problem import Problem
from svrl.matrix.soft_impute.path import Factors, solve_path
from svrl.matrix.soft_impute.plain import solve_plain
from svrl.matrix.soft_impute.small import is_small, solve_small, solve_small_arrays
from svrl.matrix.soft_impute.small_cuda import Completed, complete_scaled_cuda, serves, working_type
from svrl.matrix.soft_impute.solution import Solution
from svrl.matrix.subspace import largest_singular_value_of, top_directions

Solver = Literal["auto", "small", "path", "plain", "accelerated"]


@dataclass(frozen=True, kw_only=True)
class SoftImpute:
    """Nuclear-norm shrinkage at one fixed level.

    Attributes:
        shrinkage: Weight of the nuclear norm, in units of the values. None takes `ratio` instead.
        ratio: The shrinkage as a share of the largest singular value of the zero-filled (and
            centred) matrix; the authors' is 1/50.
        tolerance: Stop once the missing entries (with "path": the whole estimate) move by less
            than this fraction of their norm in one iteration.
        max_steps: Most iterations. Running out is reported, not raised.
        output: "estimate" returns the minimiser Z; "fill" keeps the observed entries and takes
            only the missing ones from Z, as the authors' code does.
        centre: What to take out before and add back after: "none", "mean", "midrange" (of the
            observed entries) or "row" (each row's observed mean).
        clip: Bounds (low, high) for what is estimated; observed entries that are kept are not touched.
        solver: "auto" chooses by size; the others are named in the module's text.
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
        check_options("SoftImpute", self.output, self.centre, self.clip)
        check_positive("SoftImpute", shrinkage=self.shrinkage, ratio=self.ratio)
        check_tolerance("SoftImpute", self.tolerance)
        check_whole("SoftImpute", max_steps=self.max_steps)
        if self.solver not in get_args(Solver):
            raise ValueError(f"SoftImpute has no solver {self.solver!r}: choose one of {', '.join(get_args(Solver))}.")

    @classmethod
    def authors(cls, **changes: object) -> SoftImpute:
        """The authors' rule, iterate for iterate (fancyimpute's defaults).

        Shrinkage of 1/50 of the largest singular value, zeros as the first guess, at most 100
        published iterations, stop at a relative change of 1e-3 of the missing entries, observed
        entries kept. Agrees with fancyimpute to 1e-5.
        """
        record = cls(tolerance=1e-3, max_steps=100, output="fill", solver="plain")
        return replace(record, **changes)  # type: ignore[arg-type]

    def captures(self, m: int, n: int) -> bool:
        """Whether a call on matrices (..., m, n) on a CUDA device can be recorded in a graph: it never waits there."""
        return self.centre == "none" and (self.solver == "small" or (self.solver == "auto" and is_small(m, n)))

    def completed_on_gpu(self, q: torch.Tensor, mask: torch.Tensor, *, scaling: str, fill: bool) -> Completed | None:
        """Scaling, estimation and filling of q (..., m, n) in one launch; None where the kernel does not serve.

        Args:
            q: On a CUDA device.
            mask: (..., m, n), what is observed.
            scaling: "none", "minmax" or "row", as `StructuredTargets` has them.
            fill: Keep the observed entries.
        """
        m, n = q.shape[-2:]
        plain = self.shrinkage is None and self.output == "estimate" and self.clip is None and self.captures(m, n)
        if not plain or m < n or working_type(q.dtype, None, self.ratio) != torch.float32:
            return None
        if not serves(m, n, q.dtype, q.device):
            return None
        found = complete_scaled_cuda(
            q.reshape(-1, m, n),
            mask.reshape(-1, m, n),
            scaling=scaling,
            fill=fill,
            ratio=self.ratio,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
        )
        batch = q.shape[:-2]
        return Completed(found[0].view(q.shape), found[1].view(q.shape), found[2].view(batch), found[3].view(batch))

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; with solver "path" and output "estimate" as factors, else dense."""
        check_observed(observed)
        m, n = observed.shape[-2:]
        small = self.solver == "small" or (self.solver == "auto" and is_small(m, n))
        if small and start is None and self.centre == "none" and self.clip is None and m >= n:
            values, mask = observed.values, observed.mask
            if isinstance(values, np.ndarray) or values.device.type == "cpu":
                return self._complete_small(observed, as_array(values), as_array(mask))
        problem = Problem.of(observed, self.centre, rescale=not small)
        if small:
            solution = solve_small(
                problem.values,
                problem.mask,
                None if self.shrinkage is None else problem.absolute(self.shrinkage),
                self.ratio,
                problem.start_matrix(start),
                self.tolerance,
                self.max_steps,
                fill=self.output == "fill",
            )
        else:
            solution = self._solve_large(problem, start, torch_generator(generator, problem.values.device))
        filled = self.output == "fill" and solution.filled is not None
        dense = solution.filled if filled else solution.estimate
        return problem.deliver(
            matrix=dense,
            factors=solution.factors if dense is None else None,
            code=solution.code,
            rank=solution.rank,
            iterations=solution.iterations,
            change=solution.change,
            shrinkage=solution.shrinkage,
            output=self.output,
            clip=self.clip,
            already_filled=filled,
        )

    def _complete_small(self, observed: Observed, values: np.ndarray, mask: np.ndarray) -> Estimate:
        """The common small case from arrays to arrays: what is left around the kernel is a few microseconds."""
        *batch, m, n = values.shape
        found = solve_small_arrays(
            values.reshape(-1, m, n),
            mask.reshape(-1, m, n),
            self.shrinkage,
            self.ratio,
            None,
            self.tolerance,
            self.max_steps,
            fill=self.output == "fill",
        )
        arrays: list[Any] = [found.result.reshape(values.shape), *(numbers.reshape(batch) for numbers in found[1:])]
        if not observed.numpy:
            arrays = [torch.from_numpy(array) for array in arrays]
        result, shrinkage, change, iterations, rank, code = arrays
        return Estimate(
            dense=result,
            factors=None,
            code=code,
            rank=rank,
            iterations=iterations,
            change=change,
            shrinkage=shrinkage,
            kept=self.output == "fill",
        )

    def _solve_large(self, problem: Problem, start: Start, source: torch.Generator) -> Solution:
        values, mask = problem.values, problem.mask
        if self.shrinkage is not None:
            shrinkage = problem.absolute(self.shrinkage)
        else:
            shrinkage = self.ratio * largest_singular_value_of(values, source).double()
            # A zero matrix has no scale of its own; any positive shrinkage solves it.
            shrinkage = torch.where(shrinkage > 0, shrinkage, torch.ones_like(shrinkage))
        if self.solver in ("plain", "accelerated"):
            return solve_plain(
                values,
                mask,
                shrinkage,
                problem.start_matrix(start),
                self.tolerance,
                self.max_steps,
                momentum=self.solver == "accelerated",
            )
        first = _start_factors(problem, start, source)
        solved = [
            self._solve_one(values[b : b + 1], mask[b : b + 1], shrinkage[b : b + 1], at, source)
            for b, at in enumerate(first)
        ]
        return solved[0] if len(solved) == 1 else _stack(solved)

    def _solve_one(
        self,
        values: torch.Tensor,
        mask: torch.Tensor,
        shrinkage: torch.Tensor,
        start: Factors | None,
        source: torch.Generator,
    ) -> Solution:
        found = solve_path(values, mask, shrinkage, start, self.tolerance, self.max_steps, source)
        if int(found.code) != Outcome.NOT_LOW_ENOUGH.code or self.solver == "path":
            return found
        assert found.factors is not None
        left, right = found.factors
        dense = solve_plain(values, mask, shrinkage, left @ right.mT, self.tolerance, self.max_steps, momentum=True)
        return replace(dense, iterations=dense.iterations + found.iterations)


def _start_factors(problem: Problem, start: Start, source: torch.Generator) -> list[Factors | None]:
    """The caller's start as thin factors, one pair a matrix."""
    batch = len(problem.values)
    if start is None:
        return [None] * batch
    given = problem.start_factors(start)
    if given is None:
        matrix = problem.start_matrix(start)
        assert matrix is not None
        u, s, v = top_directions(matrix, 32, source)
        root = s.sqrt().unsqueeze(-2)
        given = u * root, v * root
    left, right = given
    return [(left[b : b + 1], right[b : b + 1]) for b in range(batch)]


def _stack(solved: list[Solution]) -> Solution:
    """Join single solutions; a batch of factors may differ in rank, so the matrices are formed."""
    dense = []
    for one in solved:
        if one.estimate is not None:
            dense.append(one.estimate)
        else:
            assert one.factors is not None
            dense.append(one.factors[0] @ one.factors[1].mT)
    return Solution(
        estimate=torch.cat(dense),
        shrinkage=torch.cat([one.shrinkage for one in solved]),
        rank=torch.cat([one.rank for one in solved]),
        iterations=torch.cat([one.iterations for one in solved]),
        change=torch.cat([one.change for one in solved]),
        code=torch.cat([one.code for one in solved]),
    )
