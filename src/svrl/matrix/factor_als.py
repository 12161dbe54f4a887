"""FactorALS: matrix completion by ridge alternating least squares on two thin factors.

Minimises over A (m, r) and B (n, r)

    1/2 |P(A B' - X)|_F^2 + ridge / 2 (|A|_F^2 + |B|_F^2),    P = projection on the observed entries,

one factor at a time, each half a set of small independent ridge regressions. Because
|Z|_* = min over Z = A B' of (|A|_F^2 + |B|_F^2) / 2, this is Soft-Impute's problem with shrinkage =
ridge, restricted to rank r: once r reaches the rank of that minimiser, every stationary point
with a residual below the ridge in spectral norm is the same global minimum (Srebro, Rennie and
Jaakkola 2004; Hastie, Mazumder, Lee and Zadeh 2015). The objective never rises. Stops when the
product A B' moves by less than `tolerance` of its norm in one iteration.

The ridge matters: with none, a rank guessed too high fits the observed entries and leaves the
others anywhere, and inside a Bellman loop the iterates grow without bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from svrl.matrix.arrays import Generator, torch_generator
from svrl.matrix.estimate import Estimate, Outcome, Start
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options, check_positive, check_tolerance, check_whole
from svrl.matrix.problem import Problem
from svrl.matrix.ridge_step import residual, solve_columns, solve_rows, squared_residual
from svrl.matrix.subspace import balance, relative_change, split, top_directions

Factors = tuple[torch.Tensor, torch.Tensor]

HIDDEN_SHARE = 0.1
"""Share of the observed entries on which rank="auto" judges; they return for the final fit."""
ANNEAL_FROM, ANNEAL_BY = 0.02, 4.0
"""First ridge of a cold start as a share of the largest singular value, and the factor down."""
TINY_ERROR = 3e-3
"""Relative error on hidden entries below which a rank counts as found."""
LOOK_AHEAD = 5
"""Ranks tried beyond the best so far: on hard problems the error rises before it falls."""
JUDGE_ON_ENTRIES = 1 << 22
"""Larger matrices are judged on a random part of about this many entries."""


@dataclass(frozen=True, kw_only=True)
class FactorALS:
    """Ridge alternating least squares.

    Attributes:
        rank: Number of factors, or "auto": ranks 1, 2, 3, ... are tried on 90% of the observed
            entries (of a random part, if the matrix is large) until the error on the other 10%
            has stopped falling. Choosing synchronises
            the device and is done for each matrix of a batch. The estimate carries the error
            that decided, `held_out`.
        max_rank: Where "auto" stops looking.
        ridge: Weight of the squared factors, in units of the values; the shrinkage of the
            equivalent nuclear-norm problem. None takes `ratio` instead.
        ratio: The ridge as a share of the largest singular value of the zero-filled matrix.
        tolerance: Stop once A B' moves by less than this fraction of its norm.
        max_steps: Most iterations (a row half and a column half each).
        output: "estimate" returns the factors; "fill" forms the matrix and keeps observed entries.
        centre: What to take out first: "none", "mean", "midrange" or "row" (each row's mean).
        clip: Bounds (low, high) for what is estimated; observed entries that are kept are not touched.
            Needs the matrix to be formed.
    """

    rank: int | Literal["auto"] = "auto"
    max_rank: int = 30
    ridge: float | None = None
    ratio: float = 1e-4
    tolerance: float = 1e-4
    max_steps: int = 100
    output: Output = "estimate"
    centre: Centre = "none"
    clip: Bounds = None

    def __post_init__(self) -> None:
        check_options("FactorALS", self.output, self.centre, self.clip)
        if isinstance(self.rank, str) and self.rank != "auto":
            raise ValueError(f'FactorALS needs a rank of at least 1, or "auto", got {self.rank!r}.')
        check_whole("FactorALS", max_rank=self.max_rank, max_steps=self.max_steps)
        check_whole("FactorALS", rank=1 if isinstance(self.rank, str) else self.rank)
        check_positive("FactorALS", ridge=self.ridge, ratio=self.ratio)
        check_tolerance("FactorALS", self.tolerance)

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; factors (..., m, r) and (..., n, r) come back unless output or clip need the matrix."""
        problem = Problem.of(observed, self.centre)
        source = torch_generator(generator, problem.values.device)
        most = min(problem.values.shape[-2:])
        held_out = None
        if self.rank == "auto":
            rank, held_out = self._choose_rank(problem, min(self.max_rank, most), source)
        else:
            rank = torch.full(problem.values.shape[:1], min(self.rank, most), device=problem.values.device)
        widest = int(rank.max()) if self.rank == "auto" else min(self.rank, most)
        ridge, first, cold = self._first_guess(problem, start, widest, source)
        live = (torch.arange(widest, device=rank.device) < rank.unsqueeze(-1)).unsqueeze(-2)
        first = first[0] * live, first[1] * live
        if cold:
            first = _anneal(problem.values, problem.mask, first, ridge)
        factors, steps, change, code = self._iterate(problem.values, problem.mask, first, ridge)
        return problem.deliver(
            factors=factors,
            code=code,
            rank=_live_rank(factors, ridge),
            iterations=steps,
            change=change,
            shrinkage=ridge.double(),
            output=self.output,
            clip=self.clip,
            held_out=held_out,
        )

    def _first_guess(
        self, problem: Problem, start: Start, rank: int, source: torch.Generator
    ) -> tuple[torch.Tensor, Factors, bool]:
        """The ridge (B,), factors of the start or of the zero-filled matrix over p, and whether any are new."""
        values, mask = problem.values, problem.mask
        given = problem.start_factors(start)
        if given is not None and self.ridge is not None:
            # Nothing of the zero-filled matrix is needed, and in a loop its directions would cost most.
            ridge = self._ridge(values.new_zeros(values.shape[0]), problem)
            return ridge, _from_factors(given, rank, problem, source), given[0].shape[-1] < rank
        u, s, v = top_directions(values, rank, source, max_steps=8, watch=1)
        ridge = self._ridge(s[:, 0], problem)
        if given is not None:
            return ridge, _from_factors(given, rank, problem, source), given[0].shape[-1] < rank
        if start is not None:
            matrix = problem.start_matrix(start)
            assert matrix is not None
            u, s, v = top_directions(matrix, rank, source, max_steps=8, watch=1)
        else:
            s = s / mask.to(s.dtype).mean((-2, -1)).unsqueeze(-1)
        return ridge, split(u, s, v), start is None

    def _iterate(
        self, values: torch.Tensor, mask: torch.Tensor, factors: Factors, ridge: torch.Tensor
    ) -> tuple[Factors, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Alternate until every matrix has stopped; one that stopped is not written to again."""
        batch = values.shape[0]
        running = torch.ones(batch, dtype=torch.bool, device=values.device)
        steps = torch.zeros(batch, dtype=torch.int64, device=values.device)
        change = torch.full((batch,), torch.inf, dtype=values.dtype, device=values.device)
        for _ in range(self.max_steps):
            new = _alternate(values, mask, factors, ridge)
            moved = relative_change(new, factors)
            factors = _where(running, new, factors)
            change = torch.where(running, moved, change)
            steps = steps + running
            # Written so that NaN stops too.
            running = running & (moved >= self.tolerance)
            if not bool(running.any()):
                break
        code = torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code)
        finite = torch.stack([torch.isfinite(f).all(-1).all(-1) for f in factors]).all(0)
        code = torch.where(finite, code, Outcome.NOT_FINITE.code)
        return factors, steps, change, code

    def _choose_rank(self, problem: Problem, most: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """The rank (B,) with the least error on hidden entries, and that error (B,), relative.

        Looks some ranks beyond the best so far.
        """
        values, mask = _sample(problem.values, problem.mask, most, source)
        most = min(most, *values.shape[-2:])
        # One draw for the whole batch, so that a matrix gets the same rank alone and among others.
        hidden = mask & (torch.rand(mask.shape[-2:], generator=source, device=mask.device) < HIDDEN_SHARE)
        shown = mask & ~hidden
        visible, target = values * shown, values * hidden
        size = target.double().square().sum((-2, -1))
        u, s, v = top_directions(visible, most, source, max_steps=8, watch=1)
        every = split(u, s / shown.to(s.dtype).mean((-2, -1)).unsqueeze(-1), v)
        ridge = self._ridge(s[:, 0], problem)
        best = torch.full((values.shape[0],), torch.inf, dtype=torch.float64, device=values.device)
        rank = torch.ones_like(best, dtype=torch.int64)
        factors = u[..., :0], v[..., :0]
        looking = torch.ones_like(rank, dtype=torch.bool)
        for r in range(1, most + 1):
            left, right = (torch.cat([f, one[..., r - 1 : r]], -1) for f, one in zip(factors, every, strict=True))
            factors, error = _fit_until_flat(visible, shown, target, hidden, (left, right), ridge)
            # A larger rank must earn its place: 2% off the squared error, or three quarters of it once
            # that error is tiny, where what falls is the rest of an iteration and no structure.
            better = looking & (error < torch.where(best > TINY_ERROR**2 * size, 0.98, 0.25) * best)
            best, rank = torch.where(better, error, best), torch.where(better, r, rank)
            looking = looking & (rank > r - LOOK_AHEAD) & (best > self.tolerance**2 * size)
            if not bool(looking.any()):
                break
        return rank, (best / torch.where(size > 0, size, 1.0)).sqrt()

    def _ridge(self, top: torch.Tensor, problem: Problem) -> torch.Tensor:
        """The ridge (B,) for matrices with these largest singular values (B,)."""
        ridge = self.ratio * top if self.ridge is None else problem.absolute(self.ridge).to(top.dtype)
        # A zero matrix has no scale of its own; any positive ridge solves it.
        return torch.where(ridge > 0, ridge, torch.ones_like(ridge))


def _live_rank(factors: Factors, ridge: torch.Tensor) -> torch.Tensor:
    """How many singular values of the product (B,) are neither rounding nor crushed by the ridge (B,)."""
    left, right = (torch.nan_to_num(factor, posinf=0.0, neginf=0.0) for factor in factors)
    s = balance(left, right)[1]
    floor = torch.maximum(1e-6 * s[:, :1], 1e-9 * ridge.unsqueeze(-1))
    return (s > floor).sum(-1)


def _fit_until_flat(
    visible: torch.Tensor,
    shown: torch.Tensor,
    target: torch.Tensor,
    hidden: torch.Tensor,
    factors: Factors,
    ridge: torch.Tensor,
) -> tuple[Factors, torch.Tensor]:
    """Alternate while the squared error on the hidden entries (B,) still falls by 5% in two iterations."""
    old = torch.full((len(visible),), torch.inf, dtype=torch.float64, device=visible.device)
    running = torch.ones_like(old, dtype=torch.bool)
    error = old
    for _ in range(20):
        new = factors
        for _ in range(2):
            new = _alternate(visible, shown, new, ridge)
        factors = _where(running, new, factors)
        error = torch.where(running, squared_residual(target, hidden, *factors), error)
        running = running & (error < 0.95 * old)
        if not bool(running.any()):
            break
        old = error
    return factors, error


def _anneal(values: torch.Tensor, mask: torch.Tensor, factors: Factors, ridge: torch.Tensor) -> Factors:
    """Bring the ridge down from far above, one iteration a level.

    A cold start at a tiny ridge fits noise with every factor beyond the true rank, and takes
    hundreds of iterations to let go of it; under a large ridge those factors never grow.
    """
    left, right = factors
    level = ANNEAL_FROM * torch.linalg.matrix_norm(left, 2) * torch.linalg.matrix_norm(right, 2)
    while bool((level > ridge).any()):
        factors = _where(level > ridge, _alternate(values, mask, factors, torch.maximum(level, ridge)), factors)
        level = level / ANNEAL_BY
    return factors


def _alternate(values: torch.Tensor, mask: torch.Tensor, factors: Factors, ridge: torch.Tensor) -> Factors:
    """One iteration: the rows given the columns, then the columns given the rows."""
    left = solve_rows(values, mask, factors[1], ridge)
    return left, solve_columns(values, mask, left, ridge)


def _where(condition: torch.Tensor, yes: Factors, no: Factors) -> Factors:
    """Choose factors matrix by matrix, condition (B,): one that has finished is not written to again."""
    if bool(condition.all()):
        return yes
    where = condition[:, None, None]
    return torch.where(where, yes[0], no[0]), torch.where(where, yes[1], no[1])


def _sample(
    values: torch.Tensor, mask: torch.Tensor, rank: int, source: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random rows and columns of a large matrix: enough to judge its rank, in a fraction of the time.

    Keeps at least five observed entries a row and column for every factor that may be asked for.
    """
    _, m, n = values.shape
    share = float(mask.to(torch.float32).mean())
    least = 5 * rank / max(share, 1e-9)
    shrink = (JUDGE_ON_ENTRIES / (m * n)) ** 0.5
    if shrink >= 1 or min(m, n) * shrink < least:
        return values, mask
    rows = torch.randperm(m, generator=source, device=values.device)[: int(m * shrink)].sort().values
    columns = torch.randperm(n, generator=source, device=values.device)[: int(n * shrink)].sort().values
    return values[:, rows][:, :, columns], mask[:, rows][:, :, columns]


def _from_factors(given: Factors, rank: int, problem: Problem, source: torch.Generator) -> Factors:
    """The first `rank` singular directions of a start's factors.

    If there are fewer, directions of the residual join them: zeros would stay zeros for ever, since
    either half of an iteration sees nothing to fit along them.
    """
    values, mask = problem.values, problem.mask
    u, s, v = balance(*given)
    left, right = split(u[..., :rank], s[..., :rank], v[..., :rank])
    lacking = rank - left.shape[-1]
    if lacking <= 0:
        return left, right
    u, s, v = top_directions(residual(values, mask, left, right), lacking, source, max_steps=8, watch=1)
    more = split(u, s / mask.to(s.dtype).mean((-2, -1)).unsqueeze(-1), v)
    return torch.cat([left, more[0]], -1), torch.cat([right, more[1]], -1)
