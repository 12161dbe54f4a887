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

The cost follows the rank that survives. Once at most half of the directions survive, only those and two
more are followed, by orthogonal iteration and rotations among them, and |F|^2 bounds the others: the
iteration converges only once none of them can survive. The first basis consists of the Lanczos vectors
that gave the largest singular value. Rotations that cannot matter are skipped: among directions that
jointly stay below the shrinkage, and where the change of W is small against I - W.

A matrix F (m, n) is held by columns, `columns` (n, padded m), and by rows, `rows` (m, padded n), because the
rotations read columns and Gauss-Seidel reads rows. The first `count` rows of `basis` (n, padded n) approach its right
singular vectors; `turned` (n, padded m) holds the rows F v_k. `missing` lists the missing columns of row 0, then of
row 1, and so on; those of row i are missing[first[i] : first[i + 1]].

`soft_impute_reference.py` has the same method in plain torch: read it first.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
import torch

from svrl.matrix.estimate import Outcome
from svrl.matrix.soft_impute_reference import FINEST_IN_SINGLE, GAUSS_SEIDEL_PASSES, Solution
from svrl.runtime.kernels import njit, share_out

# Sums may be reordered, but NaN and infinity keep their meaning: a test on them must not be optimised away.
COMPILE: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
INNER: dict[str, Any] = {**COMPILE, "cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For functions that only compiled code calls. Without entry points compilation takes two thirds of the time."""

CONVERGED, OUT_OF_STEPS, NOT_FINITE = (
    outcome.code for outcome in (Outcome.CONVERGED, Outcome.OUT_OF_STEPS, Outcome.NOT_FINITE)
)
BLOCK = 32
NEGLIGIBLE = 1e-28
"""Squared cosine below which two directions count as orthogonal, in either precision."""
FEWEST = 5
"""Fewest Lanczos vectors. They are the first directions followed, so one is not enough."""
SKIP = 0.3
"""A rotation is skipped if it would change W by less than this share of the tolerance."""
GUARDS = 2
"""Directions followed besides the surviving ones, so that the iteration notices one that rises to the shrinkage."""
EARLY = 3
"""Steps that may use a higher shrinkage, the length of the shortest direction followed, to stay cheap."""
CLEAN_EVERY = 16
"""Outer iterations between two re-orthonormalisations of the basis, which rounding degrades."""
WORTH_A_THREAD = 1 << 16
"""Batches with fewer than this many m * n * n operations finish before a second thread starts."""


def solve_on_cpu(
    values: np.ndarray,
    mask: np.ndarray,
    shrinkage: float | np.ndarray | None,
    ratio: float,
    start: np.ndarray | None,
    tolerance: float,
    max_steps: int,
    *,
    fill: bool,
) -> Solution[np.ndarray]:
    """Complete contiguous values (B, m, n), m >= n. Avoids torch, whose calls would cost most for one small matrix."""
    if values.dtype == np.float32 and _too_fine(values, shrinkage, ratio):
        start = None if start is None else start.astype(np.float64)
        rest = shrinkage, ratio, start, tolerance, max_steps
        wide = solve_on_cpu(values.astype(np.float64), mask, *rest, fill=fill)
        return wide._replace(matrix=wide.matrix.astype(np.float32))
    batch, m, n = values.shape
    result, real, whole = np.empty(values.shape, values.dtype), np.empty((2, batch)), np.empty((3, batch), np.int64)
    if shrinkage is not None:
        real[0], ratio = shrinkage, 0.0
    guess, warm = (values, False) if start is None else (start, True)

    def solve(low: int, high: int) -> None:
        solve_range(values, mask, guess, warm, ratio, tolerance, max_steps, fill, low, high, result, real, whole)

    threads = 1 if batch * m * n * n < WORTH_A_THREAD else torch.get_num_threads()
    share_out(solve, batch, threads, pieces_each=4)  # matrices need different numbers of iterations
    return Solution(result, real[0], real[1], whole[0], whole[1], whole[2])


def _too_fine(values: np.ndarray, shrinkage: float | np.ndarray | None, ratio: float) -> bool:
    """Whether float32 would lose the shrinkage in I - W, whose smallest entries are about its share."""
    if shrinkage is None:
        return ratio < FINEST_IN_SINGLE
    return bool(np.min(shrinkage) < FINEST_IN_SINGLE * np.abs(values).max())


# Compiled code. LLVM inlines array helpers (forceinline): a call that passes arrays costs 80 ns, an inner loop here 5.
# Long functions with one caller are inlined before types are known (inline="always"): LLVM then compiles them once, not
# again for every function around them. Rows are padded with zeros to whole blocks of 32,
# because shorter loops are not vectorised.


Workspace = namedtuple(
    "Workspace",
    "rows columns turned basis hat y squares uncovered keep first missing before pull last",
)
"""Scratch arrays for matrices of one shape, created once for a whole batch."""


# The singular vectors.


@njit(forceinline=True, **INNER)
def dot(a, i, b, j, width):
    """The dot product of row i of a and row j of b."""
    total = a.dtype.type(0)
    for k in range(width):
        total += a[i, k] * b[j, k]
    return total


@njit(forceinline=True, **INNER)
def clear_row(a, i):
    """Set row i of a to zero."""
    for k in range(a.shape[1]):
        a[i, k] = 0


@njit(forceinline=True, **INNER)
def clear(a):
    """Set a to zero."""
    for i in range(a.shape[0]):
        clear_row(a, i)


@njit(forceinline=True, **INNER)
def add_multiple(a, i, factor, b, j, width):
    """Add a multiple of row j of b to row i of a."""
    for k in range(width):
        a[i, k] += factor * b[j, k]


@njit(forceinline=True, **INNER)
def rotate(a, p, q, cosine, sine, width):
    """Rotate rows p and q of a."""
    for k in range(width):
        x = a[p, k]
        y = a[q, k]
        a[p, k] = cosine * x - sine * y
        a[q, k] = sine * x + cosine * y


@njit(forceinline=True, **INNER)
def keep_share(square, shrinkage):
    """The share of a direction with squared length `square` that survives the shrinkage."""
    return 1.0 - shrinkage / math.sqrt(square) if square > shrinkage * shrinkage else 0.0


@njit(**INNER)
def largest_square(columns, krylov, diagonal, beside, uncovered, y, n):
    """The square of the largest singular value, by the Lanczos method with full orthogonalisation.

    Unlike the power method it does not slow down where the leading singular values are close, and
    after n steps at the latest it is exact. `krylov` (n, padded n) receives the orthonormal Lanczos
    vectors, whose number is returned too; diagonal, beside and uncovered (n,) are scratch.
    """
    tall = columns.shape[1]
    wide = krylov.shape[1]
    clear(krylov)
    for j in range(n):
        # Irregular, so that a matrix with some symmetry has no top direction orthogonal to it.
        krylov[0, j] = 0.5 + (0.6180339887 * (j + 1) * (j + 2)) % 1.0
    norm = math.sqrt(np.float64(dot(krylov, 0, krylov, 0, wide)))
    for j in range(n):
        krylov[0, j] /= norm
    fine = 1e-9 if columns.itemsize == 8 else 1e-7
    old = 0.0
    top = 0.0
    count = 1
    for step in range(n):
        clear_row(y, 0)
        for j in range(n):
            add_multiple(y, 0, krylov[step, j], columns, j, tall)
        diagonal[step] = dot(y, 0, y, 0, tall)
        top = _largest_root(diagonal, beside, step + 1)
        if step + 1 == n or (step + 1 >= FEWEST and abs(top - old) <= fine * top):
            break
        old = top
        following = step + 1
        for j in range(n):
            krylov[following, j] = dot(columns, j, y, 0, tall)
        for _ in range(2):  # twice is enough
            for k in range(following):
                overlap = dot(krylov, following, krylov, k, wide)
                add_multiple(krylov, following, -overlap, krylov, k, wide)
        norm = math.sqrt(np.float64(dot(krylov, following, krylov, following, wide)))
        beside[step] = norm
        if norm <= 1e-7 * top:
            # The space so far is invariant: look for the rest of the spectrum outside it.
            beside[step] = 0.0
            complete_basis(krylov, following, following + 1, uncovered, n)
            old = 0.0
        else:
            for j in range(n):
                krylov[following, j] /= norm
        count = following + 1
    return top, count


@njit(**INNER)
def complete_basis(basis, count, upto, uncovered, n):
    """Add orthonormal rows to the first `count` of `basis`, up to `upto` rows; uncovered (n,) is scratch."""
    wide = basis.shape[1]
    for j in range(n):
        uncovered[j] = 1.0
        for k in range(count):
            uncovered[j] -= np.float64(basis[k, j]) ** 2
    for row in range(count, upto):
        best = 0
        for j in range(1, n):
            if uncovered[j] > uncovered[best]:
                best = j
        clear_row(basis, row)
        basis[row, best] = 1
        for _ in range(2):
            for k in range(row):
                add_multiple(basis, row, -dot(basis, row, basis, k, wide), basis, k, wide)
            norm = math.sqrt(np.float64(dot(basis, row, basis, row, wide)))
            scale = basis.dtype.type(1.0 / norm)
            for j in range(wide):
                basis[row, j] *= scale
            if norm > 0.7:
                break
        for j in range(n):
            uncovered[j] -= np.float64(basis[row, j]) ** 2


@njit(**INNER)
def _largest_root(diagonal, beside, size):
    """The largest eigenvalue of a symmetric tridiagonal matrix, by Newton's method from above.

    Right of its largest root the characteristic polynomial is convex and rising, so the iterates
    fall monotonically to it.
    """
    x = 0.0
    for i in range(size):
        reach = diagonal[i] + (beside[i - 1] if i > 0 else 0.0) + (beside[i] if i + 1 < size else 0.0)
        x = max(x, reach)
    for _ in range(60):
        # Ratios of successive leading minors and of their derivatives: no overflow.
        ratio = x - diagonal[0]
        slope = 1.0
        total = slope / ratio if ratio > 0.0 else np.inf
        for i in range(1, size):
            square = beside[i - 1] * beside[i - 1]
            slope = 1.0 + square * slope / (ratio * ratio)
            ratio = x - diagonal[i] - square / ratio
            total += slope / ratio
        if not 0.0 < total < np.inf:
            return x
        x -= 1.0 / total
        if 1.0 / total <= 1e-15 * x:
            return x
    return x


@njit(**INNER)
def clean(basis, count):
    """Gram-Schmidt on the first `count` rows of `basis`; a row that depends on those before it becomes zero.

    The rest of a row is scaled to length 1 before the next projection, and accepted once a projection
    leaves most of it. Otherwise rounding would pass for a direction, and rotations would carry it into the others.
    """
    wide = basis.shape[1]
    for p in range(count):
        kept = False
        for _ in range(4):
            before = np.float64(dot(basis, p, basis, p, wide))
            if not before > 0.0:
                break
            scale = basis.dtype.type(1.0 / math.sqrt(before))
            for j in range(wide):
                basis[p, j] *= scale
            for q in range(p):
                add_multiple(basis, p, -dot(basis, p, basis, q, wide), basis, q, wide)
            square = np.float64(dot(basis, p, basis, p, wide))
            if square > 0.5:
                scale = basis.dtype.type(1.0 / math.sqrt(square))
                for j in range(wide):
                    basis[p, j] *= scale
                kept = True
                break
        if not kept:
            clear_row(basis, p)


@njit(**INNER)
def sweep(turned, basis, squares, keep, shrinkage, skip, n):
    """Run one cyclic sweep of one-sided Jacobi; return how many rotations it took.

    The rows of `turned` are F v_k; at the end squares holds |F v_k|^2 and keep the shares that survive.
    """
    tall = turned.shape[1]
    wide = basis.shape[1]
    floor = shrinkage * shrinkage
    done = 0
    below = 0
    tail = 0.0
    for k in range(n):
        squares[k] = dot(turned, k, turned, k, tall)
        keep[k] = keep_share(squares[k], shrinkage)
        if squares[k] < floor:
            below += 1
            tail += squares[k]
    # The directions below the shrinkage hide none above it if their squares sum to less, or if
    # each off-diagonal entry is so small that floor * I minus their Gram is diagonally dominant.
    crowd = 0.0 if tail < floor else float(below * below)
    for p in range(n - 1):
        for q in range(p + 1, n):
            a = squares[p]
            b = squares[q]
            both_below = a < floor and b < floor
            if both_below and crowd == 0.0:
                continue
            off = np.float64(dot(turned, p, turned, q, tall))
            if off == 0.0 or off * off <= NEGLIGIBLE * a * b:
                continue
            gap = b - a
            if both_below:
                if crowd * off * off <= (floor - a) * (floor - b):
                    continue
            elif abs(gap) > abs(off):
                change = off * (keep[p] - keep[q]) / gap
                if change * change <= skip * skip * (1.0 - keep[p]) * (1.0 - keep[q]):
                    continue
            elif abs(off) <= 2.0 * skip * max(a, b):
                continue
            done += 1
            # The angle that makes the pair orthogonal, from its double: tan = 2 off / gap.
            double = math.sqrt(gap * gap + 4.0 * off * off)
            cosine = math.sqrt(0.5 + 0.5 * abs(gap) / double)
            sine = math.copysign(off, gap * off) / (double * cosine)
            rotate(turned, p, q, turned.dtype.type(cosine), turned.dtype.type(sine), tall)
            rotate(basis, p, q, turned.dtype.type(cosine), turned.dtype.type(sine), wide)
            shift = math.copysign(2.0 * off * off / (double + abs(gap)), gap)
            squares[p] = a - shift
            squares[q] = b + shift
            keep[p] = keep_share(squares[p], shrinkage)
            keep[q] = keep_share(squares[q], shrinkage)
    return done


@njit(**INNER)
def hat_matrix(basis, keep, hat, count, n):
    """Set `hat` to V diag(keep) V'; return how many directions survive."""
    wide = basis.shape[1]
    clear(hat)
    rank = 0
    for k in range(count):
        if keep[k] > 0.0:
            rank += 1
            for i in range(n):
                add_multiple(hat, i, hat.dtype.type(keep[k] * basis[k, i]), basis, k, wide)
    return rank


@njit(**INNER)
def turn(columns, basis, turned, count, n):
    """Set the first `count` rows of `turned` to F v_k."""
    tall = columns.shape[1]
    for k in range(count):
        for i in range(tall):
            turned[k, i] = basis[k, 0] * columns[0, i]
        for j in range(1, n):
            add_multiple(turned, k, basis[k, j], columns, j, tall)


@njit(**INNER)
def power_step(columns, basis, turned, count, n):
    """One step of orthogonal iteration: the first `count` rows v_k become F'F v_k, orthonormalised.

    The rows of `turned` must hold F v_k. A direction outside the span loses against one inside by
    the square of the ratio of their singular values.
    """
    tall = columns.shape[1]
    for k in range(count):
        for j in range(n):
            basis[k, j] = dot(columns, j, turned, k, tall)
    clean(basis, count)


# The missing entries.


@njit(**INNER)
def relax_rows(rows, columns, missing, first, hat, before, pull, last):
    """Gauss-Seidel on each row's missing entries, W frozen.

    Returns the squared step, the squared size of the old entries, and the product that tells
    whether the momentum points uphill. `before` receives the old entries; `pull` is scratch.
    """
    one = rows.dtype.type(1)
    wide = rows.shape[1]
    moved = 0.0
    size = 0.0
    uphill = 0.0
    for i in range(rows.shape[0]):
        begin = first[i]
        end = first[i + 1]
        for at in range(begin, end):
            before[at] = rows[i, missing[at]]
            pull[at] = dot(hat, missing[at], rows, i, wide)
        for _ in range(GAUSS_SEIDEL_PASSES if end - begin > 1 else 1):
            for at in range(begin, end):
                j = missing[at]
                free = one - hat[j, j]
                if free <= 0:
                    continue  # the shrinkage is below rounding: nothing determines this entry, so it stays
                new = (pull[at] - hat[j, j] * rows[i, j]) / free
                step = new - rows[i, j]
                rows[i, j] = new
                # z W follows the one entry that moved, which is cheaper than forming it again.
                for other in range(begin, end):
                    pull[other] += hat[j, missing[other]] * step
        for at in range(begin, end):
            j = missing[at]
            new = rows[i, j]
            columns[j, i] = new
            step = np.float64(new - before[at])
            moved += step * step
            size += np.float64(before[at]) ** 2
            uphill -= step * np.float64(new - last[at])
    return moved, size, uphill


@njit(**INNER)
def extrapolate(rows, columns, missing, first, last, momentum):
    """Move the missing entries on along their last step, and remember where they were."""
    factor = rows.dtype.type(momentum)
    for i in range(rows.shape[0]):
        for at in range(first[i], first[i + 1]):
            j = missing[at]
            new = rows[i, j]
            ahead = new + factor * (new - last[at])
            last[at] = new
            rows[i, j] = ahead
            columns[j, i] = ahead


@njit(**INNER)
def go_back(rows, columns, missing, first, last):
    """Undo the last extrapolation."""
    for i in range(rows.shape[0]):
        for at in range(first[i], first[i + 1]):
            j = missing[at]
            rows[i, j] = last[at]
            columns[j, i] = last[at]


@njit(**INNER)
def load(values, mask, scale, rows, columns, missing, first):
    """Copy the observed entries, divided by `scale`, into both layouts; list the missing ones."""
    m, n = values.shape
    clear(rows)
    clear(columns)
    count = 0
    for i in range(m):
        first[i] = count
        for j in range(n):
            if mask[i, j]:
                rows[i, j] = values[i, j] / scale
                columns[j, i] = rows[i, j]
            else:
                missing[count] = j
                count += 1
    first[m] = count
    return count


@njit(**INNER)
def guess(start, warm, scale, rows, columns, missing, first, n):
    """Fill the missing entries from `start`, or from each row's observed mean."""
    for i in range(rows.shape[0]):
        begin = first[i]
        end = first[i + 1]
        if begin == end:
            continue
        mean = 0.0
        if end - begin < n:
            for j in range(n):
                mean += rows[i, j]
            mean /= n - (end - begin)
        for at in range(begin, end):
            j = missing[at]
            rows[i, j] = start[i, j] / scale if warm else mean
            columns[j, i] = rows[i, j]


@njit(**INNER)
def largest(values, mask):
    """The largest observed magnitude: dividing by it keeps squares inside float32."""
    top = 0.0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            if mask[i, j]:
                top = max(top, abs(np.float64(values[i, j])))
    return top


# The iteration.


@njit(inline="always", **INNER)
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


@njit(**INNER)
def _energy(columns, n):
    """The squared Frobenius norm."""
    total = 0.0
    for j in range(n):
        total += np.float64(dot(columns, j, columns, j, columns.shape[1]))
    return total


@njit(**INNER)
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


@njit(inline="always", **INNER)
def _freeze(w, shrinkage, skip, early, count, n):
    """Update the basis and the surviving shares for the filled matrix.

    Returns the upper bound, the number of directions to follow from here, and whether it is certain
    that no other direction survives.
    """
    floor = shrinkage * shrinkage
    energy = _energy(w.columns, n)
    if count < n:
        turn(w.columns, w.basis, w.turned, count, n)
        power_step(w.columns, w.basis, w.turned, count, n)
        turn(w.columns, w.basis, w.turned, count, n)
        sweep(w.turned, w.basis, w.squares, w.keep, shrinkage, skip, count)
        shortest = w.squares[0]
        for k in range(1, count):
            shortest = min(shortest, w.squares[k])
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


@njit(inline="always", **INNER)
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
        while True:  # once, or again after a step back; a loop, so that _freeze is inlined in one place
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


@njit(**INNER)
def _shrink_exactly(w, shrinkage, tolerance, count, n):
    """Sweep until nothing rotates any more, so that F W is the minimiser; return its rank."""
    complete_basis(w.basis, count, n, w.uncovered, n)
    clean(w.basis, n)
    turn(w.columns, w.basis, w.turned, n, n)
    for _ in range(12):
        if sweep(w.turned, w.basis, w.squares, w.keep, shrinkage, 0.01 * SKIP * tolerance, n) == 0:
            break
    return hat_matrix(w.basis, w.keep, w.hat, n, n)


@njit(inline="always", **INNER)
def _solve_one(values, mask, start, warm, shrinkage, ratio, tolerance, max_steps, fill, w, out):
    """Solve one matrix (m, n); return shrinkage, steps, rank and the last change."""
    m, n = values.shape
    scale = largest(values, mask)
    if scale == 0.0:
        clear(out)
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
            # Orthogonal iteration on rows that are not singular vectors would make them nearly parallel.
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
    absolute shrinkage if `ratio` is 0; otherwise it receives ratio times the largest singular value
    of the zero-filled matrix. It also receives the last change. `whole` (3, B) receives steps, rank
    and outcome code.
    """
    w = _workspace(values)
    for b in range(low, high):
        real[0, b], whole[0, b], whole[1, b], real[1, b] = _solve_one(
            values[b], mask[b], start[b], warm, real[0, b], ratio, tolerance, max_steps, fill, w, out[b]
        )
        whole[2, b] = CONVERGED if real[1, b] < tolerance else OUT_OF_STEPS
        if not real[1, b] < np.inf:
            whole[2, b] = NOT_FINITE
