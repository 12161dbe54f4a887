"""FactorALS: matrix completion by ridge alternating least squares on two thin factors.

Minimises over A (m, r) and B (n, r)

    1/2 |P(A B' - X)|_F^2 + ridge / 2 (|A|_F^2 + |B|_F^2),    P = projection on the observed entries,

one factor at a time: each half is a set of small independent ridge regressions. Because
|Z|_* = min over Z = A B' of (|A|_F^2 + |B|_F^2) / 2, this is Soft-Impute's problem with shrinkage =
ridge, restricted to rank r: once r reaches the rank of that minimiser, every stationary point
with a residual below the ridge in spectral norm is the same global minimum (Srebro, Rennie and
Jaakkola 2004; Hastie, Mazumder, Lee and Zadeh 2015). The objective never rises. Stops when the
product A B' moves by less than `tolerance` of its norm in one iteration.

The ridge matters: with none, a rank guessed too high fits the observed entries and leaves the
others anywhere, and inside a Bellman loop the iterates grow without bound.

One half of an iteration is a few products. For fixed right factors B (n, r), row i of the left factor solves

    (B' diag(mask_i) B + ridge I) a_i = B' (mask_i * x_i).

The matrices on the left are, for all rows at once, one product of the mask (m, n) with the n
vectors b_j b_j', kept as their r (r + 1) / 2 upper entries; the right-hand sides are values @ B.
The mask becomes numbers one block of rows at a time, so no second copy of a large matrix exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from svrl.matrix.arrays import Bounds, Centre, Generator, Output, check_settings, check_whole, torch_generator
from svrl.matrix.estimate import Estimate, Factors, Start, choose, repeat
from svrl.matrix.observed import Observed
from svrl.matrix.scaling import Problem
from svrl.matrix.subspace import balance, relative_change, split, top_directions

HIDDEN_SHARE = 0.1
"""Share of the observed entries that judge a rank in rank="auto"; the final fit uses them again."""
ANNEAL_FROM, ANNEAL_BY = 0.02, 4.0
"""First ridge of a cold start as a share of the largest singular value, and the divisor from level to level."""
TINY_ERROR = 3e-3
"""Relative error on hidden entries below which a rank counts as found."""
LOOK_AHEAD = 5
"""Ranks tried beyond the best so far: on hard problems the error rises before it falls."""
JUDGE_ON_ENTRIES = 1 << 22
"""Larger matrices are judged on a random part of about this many entries."""
BLOCK_ENTRIES = 1 << 23
"""Mask entries turned into numbers at a time: 32 MB in float32."""


@dataclass(frozen=True, kw_only=True)
class FactorALS:
    """Ridge alternating least squares.

    Attributes:
        rank: Number of factors, or "auto": ranks 1, 2, 3, ... are tried on 90% of the observed
            entries (of a random part, if the matrix is large) until the error on the other 10%
            stops falling. This synchronises the device, and each matrix of a batch gets its own
            rank. The estimate's `held_out` is the error at that rank.
        max_rank: Largest rank that "auto" tries.
        ridge: Weight of the squared factors, in units of the values; the shrinkage of the
            equivalent nuclear-norm problem. None takes `ratio` instead.
        ratio: The ridge as a share of the largest singular value of the zero-filled matrix.
        tolerance: Stop once A B' moves by less than this fraction of its norm.
        max_steps: Most iterations (a row half and a column half each).
        output: "estimate" returns the factors; "fill" forms the matrix and keeps observed entries.
        centre: What to subtract first: "none", "mean", "midrange" or "row" (each row's mean).
        clip: Bounds (low, high) on estimated entries; observed entries that are kept do not change.
            The estimate is then a matrix, without factors.
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
        if isinstance(self.rank, str) and self.rank != "auto":
            raise ValueError(f'FactorALS needs a rank of at least 1, or "auto", got {self.rank!r}.')
        check_whole("FactorALS", rank=1 if isinstance(self.rank, str) else self.rank)
        check_settings(self, whole=("max_rank", "max_steps"), positive=("ridge", "ratio"))

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix as factors (..., m, r) and (..., n, r), unless output or clip needs the matrix."""
        problem = Problem(observed, self.centre)
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
        values, mask = problem.values, problem.mask

        def step(left: torch.Tensor, right: torch.Tensor) -> tuple[Factors, torch.Tensor]:
            new = _alternate(values, mask, (left, right), ridge)
            return new, relative_change(new, (left, right))

        (left, right), steps, change, code = repeat(step, first, self.tolerance, self.max_steps)
        return problem.deliver(
            factors=(left, right),
            code=code,
            rank=_live_rank((left, right), ridge),
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
        """The ridge (B,), the first factors, and whether any of them are new."""
        values = problem.values
        given = problem.start_factors(start)
        leading, top = given, values.new_zeros(len(values))
        if given is None or self.ridge is None:  # else nothing needs these directions, the largest cost in a loop
            leading, top = leading_factors(values, problem.mask, rank, source)
        ridge = self._ridge(top, problem)
        if given is not None:
            return ridge, _from_factors(given, rank, problem, source), given[0].shape[-1] < rank
        matrix = problem.start_matrix(start)
        if matrix is not None:
            return ridge, split(*top_directions(matrix, rank, source, max_steps=8, watch=1)), False
        assert leading is not None
        return ridge, leading, True

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
        every, top = leading_factors(visible, shown, most, source)
        ridge = self._ridge(top, problem)
        best = torch.full((values.shape[0],), torch.inf, dtype=torch.float64, device=values.device)
        rank = torch.ones_like(best, dtype=torch.int64)
        factors = every[0][..., :0], every[1][..., :0]
        looking = torch.ones_like(rank, dtype=torch.bool)
        for r in range(1, most + 1):
            left, right = (torch.cat([f, one[..., r - 1 : r]], -1) for f, one in zip(factors, every, strict=True))
            factors, error = _fit_until_flat(visible, shown, target, hidden, (left, right), ridge)
            # A larger rank must lower the squared error by 2%. Once that error is tiny it must lower it by three
            # quarters: there an unfinished iteration still lowers it, without any structure.
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
    """How many singular values of the product exceed rounding and are not crushed by the ridge (B,), (B,)."""
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

    def step(
        left: torch.Tensor, right: torch.Tensor, old: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        for _ in range(2):
            left, right = _alternate(visible, shown, (left, right), ridge)
        error = squared_residual(target, hidden, left, right)
        return (left, right, error), (error < 0.95 * old).double()

    unknown = torch.full((len(visible),), torch.inf, dtype=torch.float64, device=visible.device)
    (left, right, error), *_ = repeat(step, (*factors, unknown), tolerance=0.5, max_steps=20)
    return (left, right), error


def _anneal(values: torch.Tensor, mask: torch.Tensor, factors: Factors, ridge: torch.Tensor) -> Factors:
    """Bring the ridge down from far above, one iteration per level.

    A cold start at a tiny ridge fits noise with every factor beyond the true rank, and needs
    hundreds of iterations to undo that. Under a large ridge those factors never grow.
    """
    left, right = factors
    level = ANNEAL_FROM * torch.linalg.matrix_norm(left, 2) * torch.linalg.matrix_norm(right, 2)
    while bool((level > ridge).any()):
        factors = choose(level > ridge, _alternate(values, mask, factors, torch.maximum(level, ridge)), factors)
        level = level / ANNEAL_BY
    return factors


def _alternate(values: torch.Tensor, mask: torch.Tensor, factors: Factors, ridge: torch.Tensor) -> Factors:
    """One iteration: the rows given the columns, then the columns given the rows."""
    left = solve_rows(values, mask, factors[1], ridge)
    return left, solve_columns(values, mask, left, ridge)


def _sample(
    values: torch.Tensor, mask: torch.Tensor, rank: int, source: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random rows and columns of a large matrix: enough to judge its rank, in a fraction of the time.

    Keeps at least five observed entries per row and column for every factor.
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

    If there are fewer, directions of the residual join them. Zeros would stay zeros: neither half of an iteration can
    fit anything along them.
    """
    values, mask = problem.values, problem.mask
    u, s, v = balance(*given)
    left, right = split(u[..., :rank], s[..., :rank], v[..., :rank])
    lacking = rank - left.shape[-1]
    if lacking <= 0:
        return left, right
    more, _ = leading_factors(residual(values, mask, left, right), mask, lacking, source)
    return torch.cat([left, more[0]], -1), torch.cat([right, more[1]], -1)


def leading_factors(
    values: torch.Tensor, mask: torch.Tensor, count: int, source: torch.Generator, max_steps: int = 8
) -> tuple[Factors, torch.Tensor]:
    """Leading directions of the zero-filled values (B, m, n), and their largest singular value (B,).

    The factors have the lengths that they would have if all entries were observed.
    """
    u, s, v = top_directions(values, count, source, max_steps=max_steps, watch=1)
    return split(u, s / mask.to(s.dtype).mean((-2, -1)).unsqueeze(-1), v), s[:, 0]


def solve_rows(values: torch.Tensor, mask: torch.Tensor, right: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """The best left factor (B, m, r) for values, mask (B, m, n), right (B, n, r), ridge (B,)."""
    squares = _outer_products(right)
    parts = []
    for rows in _blocks(mask):
        grams = mask[:, rows].to(values.dtype) @ squares
        parts.append(_solve(grams, values[:, rows] @ right, ridge))
    return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


def solve_columns(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """The best right factor (B, n, r) for values, mask (B, m, n), left (B, m, r), ridge (B,)."""
    squares = _outer_products(left)
    grams = sum(mask[:, rows].to(values.dtype).mT @ squares[:, rows] for rows in _blocks(mask))
    assert isinstance(grams, torch.Tensor)
    return _solve(grams, values.mT @ left, ridge)


def residual(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """P(X - left right') as a dense (B, m, n), zero where unobserved."""
    return torch.baddbmm(values, left, right.mT, alpha=-1).mul_(mask)


def squared_residual(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|P(X - left right')|_F^2 (B,), block by block, with the sum over rows in float64."""
    total = torch.zeros(values.shape[0], dtype=torch.float64, device=values.device)
    for rows in _blocks(mask):
        part = residual(values[:, rows], mask[:, rows], left[:, rows], right)
        total += part.square().sum(-1).double().sum(-1)
    return total


def _blocks(mask: torch.Tensor) -> Iterator[slice]:
    batch, m, n = mask.shape
    step = max(1, min(m, BLOCK_ENTRIES // (batch * n)))
    return (slice(low, min(low + step, m)) for low in range(0, m, step))


@lru_cache(maxsize=64)
def _upper(rank: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row and column of each kept upper entry, and the map (r, r) back from them."""
    row, column = torch.triu_indices(rank, rank, device=device)
    back = torch.empty(rank, rank, dtype=torch.int64, device=device)
    back[row, column] = back[column, row] = torch.arange(len(row), device=device)
    return row, column, back


def _outer_products(factor: torch.Tensor) -> torch.Tensor:
    row, column, _ = _upper(factor.shape[-1], factor.device)
    return factor[..., row] * factor[..., column]


def _solve(grams: torch.Tensor, targets: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """Solve (gram + ridge I) a = target for packed grams (B, k, r (r + 1) / 2) and targets (B, k, r).

    A ridge below the rounding of the gram would leave it indefinite; it is raised to that.
    """
    rank = targets.shape[-1]
    back = _upper(rank, targets.device)[2]
    matrices = grams[..., back.reshape(-1)].reshape(*targets.shape, rank)
    diagonal = matrices.diagonal(dim1=-2, dim2=-1)
    rounding = 2.0 * torch.finfo(targets.dtype).eps * diagonal.sum(-1, keepdim=True)
    diagonal.add_(torch.maximum(ridge[:, None, None], rounding))
    root = torch.linalg.cholesky_ex(matrices)[0]
    return torch.cholesky_solve(targets.unsqueeze(-1), root).squeeze(-1)
