"""SI-RF as a numba kernel: Soft-Impute on many small matrices.

SI-RF (Soft-Impute, rows free) is a majorise-minimise method for the paper's convex problem.
Let F be the matrix whose missing entries hold the current guess. Minimising over everything
else leaves a function of those missing entries alone,

    phi(F) = sum_k h(sigma_k(F)),    h(s) = s^2 / 2 up to the shrinkage, linear beyond it,

and h is concave in s^2. So for any orthonormal basis v_1..v_n, phi(F) <= sum_k h(|F v_k|), with
equality at the right singular vectors. An outer iteration alternates two steps that both lower
this bound:

1. One-sided Jacobi rotations turn the basis towards the singular vectors. A rotation makes two
   of the |F v_k|^2 as unequal as they can be, and the bound is concave in them.
2. With the hat matrix W = V diag((1 - shrinkage / s_k)_+) V' frozen, each row's missing entries
   move towards the minimiser of z (I - W) z' / 2, that is (I - W)_mm z_m = W_mo z_o, by
   Gauss-Seidel passes.

Plain Soft-Impute steps to z_m <- (z W)_m instead, which takes 3 to 25 times as many
decompositions at 90% observed. A basis left over from the last iteration needs about one sweep;
Nesterov momentum shortens the tail; it restarts when it points uphill, and a step that raised
the bound is taken back.

The cost follows the rank that survives. Once at most half of the directions do, only those and two
more are followed, by orthogonal iteration and rotations among them, and |F|^2 tells whether another
could survive: convergence is not declared before that is excluded. The first basis are the Lanczos
vectors that gave the largest singular value. Rotations that cannot matter are skipped: among
directions that jointly stay below the shrinkage, and where the change of W is small against I - W.

`small_twin` says the same in plain torch and is the version to read first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from svrl.matrix.compiling import njit
from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute.jacobi import (
    BLOCK,
    COMPILE,
    clean,
    complete_basis,
    dot,
    hat_matrix,
    keep_share,
    largest_square,
    power_step,
    sweep,
    turn,
)
from svrl.matrix.soft_impute.missing import extrapolate, go_back, guess, largest, load, relax_rows

CONVERGED, OUT_OF_STEPS, NOT_FINITE = (
    outcome.code for outcome in (Outcome.CONVERGED, Outcome.OUT_OF_STEPS, Outcome.NOT_FINITE)
)
SKIP = 0.3
"""A rotation is skipped if it would change W by less than this share of the tolerance."""
GUARDS = 2
"""Directions followed beside the surviving ones, so that one that rises to the shrinkage is seen coming."""
EARLY = 3
"""Steps that may take a higher shrinkage, the length of the shortest direction followed, and so stay cheap."""
CLEAN_EVERY = 16
"""Outer iterations between two re-orthonormalisations of the basis, which rounding wears out."""

# What is called from one place is inlined before types are known: LLVM works on it once, not once more for every
# function around it, and all of it compiles in five sixths of the time.


class Workspace(NamedTuple):
    """Scratch arrays for matrices of one shape, made once for a whole batch."""

    rows: Any
    columns: Any
    turned: Any
    basis: Any
    hat: Any
    y: Any
    squares: Any
    uncovered: Any
    keep: Any
    first: Any
    missing: Any
    before: Any
    pull: Any
    last: Any


@njit(inline="always", **COMPILE)
def _workspace(values):
    m, n = values.shape[1], values.shape[2]
    dtype = values.dtype
    wide = (n + BLOCK - 1) // BLOCK * BLOCK
    tall = (m + BLOCK - 1) // BLOCK * BLOCK
    return Workspace(
        np.zeros((m, wide), dtype),
        np.zeros((n, tall), dtype),
        np.zeros((n, tall), dtype),
        np.zeros((n, wide), dtype),
        np.zeros((n, wide), dtype),
        np.zeros((1, tall), dtype),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(m + 1, np.intp),
        np.zeros(m * n, np.intp),
        np.zeros(m * n, dtype),
        np.zeros(m * n, dtype),
        np.zeros(m * n, dtype),
    )


@njit(**COMPILE)
def _energy(columns, n):
    """The squared Frobenius norm."""
    total = 0.0
    for j in range(n):
        total += np.float64(dot(columns, j, columns, j, columns.shape[1]))
    return total


@njit(**COMPILE)
def _sort_to_front(basis, squares, keep, wanted, count):
    """Bring the `wanted` longest of the first `count` directions to the front."""
    for front in range(wanted):
        longest = front
        for k in range(front + 1, count):
            if squares[k] > squares[longest]:
                longest = k
        if longest != front:
            for j in range(basis.shape[1]):
                basis[front, j], basis[longest, j] = basis[longest, j], basis[front, j]
            squares[front], squares[longest] = squares[longest], squares[front]
            keep[front], keep[longest] = keep[longest], keep[front]


@njit(inline="always", **COMPILE)
def _freeze(w, shrinkage, skip, early, count, n):
    """Bring the basis and what survives up to date with the filled matrix.

    Returns the upper bound, the number of directions to follow from here, and whether it is sure
    that no other direction survives.
    """
    floor = shrinkage * shrinkage
    energy = _energy(w.columns, n)
    if count < n:
        turn(w.columns, w.basis, w.turned, count, n)
        power_step(w.columns, w.basis, w.turned, count, n)
        turn(w.columns, w.basis, w.turned, count, n)
        sweep(w.turned, w.basis, w.squares, w.keep, shrinkage, skip, count)
        shortest = np.min(w.squares[:count])
        if shortest >= floor and early:
            for k in range(count):
                w.keep[k] = keep_share(w.squares[k], math.sqrt(shortest))
            return np.inf, count, False
        if shortest >= floor:
            complete_basis(w.basis, count, n, w.uncovered, n)
            count = n
    if count == n:
        turn(w.columns, w.basis, w.turned, n, n)
        sweep(w.turned, w.basis, w.squares, w.keep, shrinkage, skip, n)
    tail = energy
    bound = 0.0
    alive = 0
    for k in range(count):
        if w.squares[k] >= floor:
            tail -= w.squares[k]
            bound += shrinkage * math.sqrt(w.squares[k]) - 0.5 * floor
            alive += 1
    sure = count == n or tail < floor
    follow = min(alive + GUARDS, count)
    if count == n and follow > n // 2:
        follow = n
    else:
        _sort_to_front(w.basis, w.squares, w.keep, follow, count)
    return bound + 0.5 * tail, follow, sure


@njit(inline="always", **COMPILE)
def _iterate(w, shrinkage, tolerance, max_steps, count, n):
    """Outer iterations until the missing entries settle.

    Starts from the first `count` rows of the basis; returns steps, rank, the last change and the
    number of rows followed at the end.
    """
    m = w.rows.shape[0]
    rounding = 1e-7 if w.rows.itemsize == 4 else 1e-14
    for i in range(m):
        for at in range(w.first[i], w.first[i + 1]):
            w.last[at] = w.rows[i, w.missing[at]]
    slack = rounding * _energy(w.columns, n)
    theta = 1.0
    lowest = np.inf
    change = np.inf
    rank = 0
    for step in range(1, max_steps + 1):
        if step % CLEAN_EVERY == 0:
            clean(w.basis, count)
        early = step <= EARLY and lowest == np.inf
        while True:  # once, or again after a step back; a loop, so that what is inlined has one place
            bound, count, sure = _freeze(w, shrinkage, SKIP * tolerance, early, count, n)
            if not (bound > lowest + slack and theta > 1.0):
                break
            theta = 1.0
            go_back(w.rows, w.columns, w.missing, w.first, w.last)
        lowest = min(bound, lowest)
        rank = hat_matrix(w.basis, w.keep, w.hat, count, n)
        moved, size, uphill = relax_rows(w.rows, w.columns, w.missing, w.first, w.hat, w.before, w.pull, w.last)
        change = 0.0
        if moved > 0.0 or not moved < np.inf:
            change = math.sqrt(moved / size) if size > 0.0 else 1.0
        if change < tolerance and not sure:
            complete_basis(w.basis, count, n, w.uncovered, n)
            count = n
            change = tolerance
        if change < tolerance or step == max_steps or not moved < np.inf:
            return step, rank, change, count
        if uphill > 0.0:
            theta = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
        extrapolate(w.rows, w.columns, w.missing, w.first, w.last, (theta - 1.0) / following)
        theta = following
    return max_steps, rank, change, count


@njit(**COMPILE)
def _shrink_exactly(w, shrinkage, tolerance, count, n):
    """Sweep until nothing turns any more, so that F W is the minimiser; returns its rank."""
    complete_basis(w.basis, count, n, w.uncovered, n)
    clean(w.basis, n)
    turn(w.columns, w.basis, w.turned, n, n)
    for _ in range(12):
        if sweep(w.turned, w.basis, w.squares, w.keep, shrinkage, 0.01 * SKIP * tolerance, n) == 0:
            break
    return hat_matrix(w.basis, w.keep, w.hat, n, n)


@njit(inline="always", **COMPILE)
def _solve_one(values, mask, start, warm, shrinkage, ratio, tolerance, max_steps, fill, w, out):
    """One matrix (m, n); returns shrinkage, steps, rank and the last change."""
    m, n = values.shape
    scale = largest(values, mask)
    if scale == 0.0:
        out[:, :] = 0
        return (1.0 if ratio > 0.0 else shrinkage), 0, 0, 0.0
    count = 0
    absent = load(values, mask, scale, w.rows, w.columns, w.missing, w.first)
    if ratio > 0.0:
        top, count = largest_square(w.columns, w.basis, w.squares, w.keep, w.uncovered, w.y, n)
        shrinkage = scale * ratio * math.sqrt(top)
    level = shrinkage / scale
    guess(start, warm, scale, w.rows, w.columns, w.missing, w.first, n)
    if ratio == 0.0:
        _, count = largest_square(w.columns, w.basis, w.squares, w.keep, w.uncovered, w.y, n)
    if count > n // 2:
        complete_basis(w.basis, count, n, w.uncovered, n)
        count = n
    if warm:
        # A good guess is lost again if the first step freezes the wrong W.
        _shrink_exactly(w, level, tolerance, count, n)
        count = n
    steps, rank, change = 1, 0, 0.0
    if absent > 0:
        if count < n:
            # Orthogonal iteration on rows that are no singular vectors would make them nearly parallel.
            turn(w.columns, w.basis, w.turned, count, n)
            sweep(w.turned, w.basis, w.squares, w.keep, level, SKIP * tolerance, count)
        steps, rank, change, count = _iterate(w, level, tolerance, max_steps, count, n)
    if not fill or absent == 0:
        rank = _shrink_exactly(w, level, tolerance, count, n)
    for i in range(m):
        for j in range(n):
            if fill:
                out[i, j] = values[i, j] if mask[i, j] else scale * w.rows[i, j]
            else:
                out[i, j] = scale * dot(w.rows, i, w.hat, j, w.rows.shape[1])
    return shrinkage, steps, rank, change


@njit(**COMPILE)
def solve_range(values, mask, start, warm, ratio, tolerance, max_steps, fill, low, high, out, real, whole):
    """Solve matrices low..high-1 of a batch (B, m, n) with m >= n, one after the other.

    `out` receives the filled matrices, or the minimisers if not `fill`. `real` (2, B) holds the
    shrinkage, absolute if `ratio` is 0 and to be set to ratio times the largest singular value of
    the zero-filled matrix otherwise, and receives the last change. `whole` (3, B) receives steps,
    rank and outcome code.
    """
    w = _workspace(values)
    for b in range(low, high):
        real[0, b], whole[0, b], whole[1, b], real[1, b] = _solve_one(
            values[b], mask[b], start[b], warm, real[0, b], ratio, tolerance, max_steps, fill, w, out[b]
        )
        whole[2, b] = CONVERGED if real[1, b] < tolerance else OUT_OF_STEPS
        if not real[1, b] < np.inf:
            whole[2, b] = NOT_FINITE
