"""Singular vectors of a small matrix, as numba functions: the linear algebra under `small_kernel`.

A matrix F (m, n) is held by columns, `columns` (n, padded m), and its right singular vectors are
approached by the first `count` rows of `basis` (n, padded n); `turned` (n, padded m) holds the rows
F v_k. One sweep of one-sided Jacobi visits every pair of rows once and rotates the pair until
F v_p and F v_q are orthogonal, unless that cannot change what the shrinkage keeps. With fewer than
n rows a step of orthogonal iteration before it turns their span towards the leading directions.
"""

# Array helpers are inlined by numba: a call that passes arrays costs 80 ns, an inner loop here 5.
# Rows are padded to whole blocks of 32 zeros, because shorter loops fall out of the vector code.
# numba's cache looks at the file of the outermost function only: `make clean` after a change here.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from svrl.matrix.compiling import njit

# Sums may be reordered, but NaN and infinity keep their meaning: a test on them must not be optimised away.
COMPILE: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}

BLOCK = 32
NEGLIGIBLE = 1e-28
"""Squared cosine below which two directions count as orthogonal, in any precision."""
FEWEST = 5
"""Lanczos vectors made at least: they are the first directions followed, so a few more than one."""


@njit(inline="always", **COMPILE)
def dot(a, i, b, j, width):
    """The product of row i of a and row j of b."""
    total = a.dtype.type(0)
    for k in range(width):
        total += a[i, k] * b[j, k]
    return total


@njit(inline="always", **COMPILE)
def add_multiple(a, i, factor, b, j, width):
    """Add a multiple of row j of b to row i of a."""
    for k in range(width):
        a[i, k] += factor * b[j, k]


@njit(inline="always", **COMPILE)
def rotate(a, p, q, cosine, sine, width):
    """Rotate rows p and q of a."""
    for k in range(width):
        x = a[p, k]
        y = a[q, k]
        a[p, k] = cosine * x - sine * y
        a[q, k] = sine * x + cosine * y


@njit(inline="always", **COMPILE)
def keep_share(square, shrinkage):
    """The share of a direction with squared length `square` that survives the shrinkage."""
    return 1.0 - shrinkage / math.sqrt(square) if square > shrinkage * shrinkage else 0.0


@njit(**COMPILE)
def largest_square(columns, krylov, diagonal, beside, uncovered, y, n):
    """The square of the largest singular value, by the Lanczos method with full orthogonalisation.

    Unlike the power method it does not slow down where the leading singular values are close, and
    after n steps at the latest it is exact. `krylov` (n, padded n) receives the orthonormal Lanczos
    vectors, whose number is returned too; diagonal, beside and uncovered (n,) are scratch.
    """
    tall = columns.shape[1]
    wide = krylov.shape[1]
    krylov[:, :] = 0
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
        y[0, :] = 0
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
            # The space so far is invariant: the rest of the spectrum is looked for beside it.
            beside[step] = 0.0
            complete_basis(krylov, following, following + 1, uncovered, n)
            old = 0.0
        else:
            for j in range(n):
                krylov[following, j] /= norm
        count = following + 1
    return top, count


@njit(**COMPILE)
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
        basis[row, :] = 0
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


@njit(**COMPILE)
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


@njit(**COMPILE)
def clean(basis, count):
    """Gram-Schmidt on the first `count` rows of `basis`; a row that depends on those before it becomes zero.

    What is left of a row is scaled to length 1 before it is projected again, and accepted once a projection
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
            basis[p, :] = 0


@njit(**COMPILE)
def sweep(turned, basis, squares, keep, shrinkage, skip, n):
    """One cyclic sweep of one-sided Jacobi; returns how many rotations it took.

    The rows of `turned` are F v_k; squares and keep are left holding |F v_k|^2 and what survives.
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


@njit(**COMPILE)
def hat_matrix(basis, keep, hat, count, n):
    """Set `hat` to V diag(keep) V'; returns how many directions survive."""
    wide = basis.shape[1]
    hat[:, :] = 0
    rank = 0
    for k in range(count):
        if keep[k] > 0.0:
            rank += 1
            for i in range(n):
                add_multiple(hat, i, hat.dtype.type(keep[k] * basis[k, i]), basis, k, wide)
    return rank


@njit(**COMPILE)
def turn(columns, basis, turned, count, n):
    """Set the first `count` rows of `turned` to F v_k."""
    tall = columns.shape[1]
    for k in range(count):
        for i in range(tall):
            turned[k, i] = basis[k, 0] * columns[0, i]
        for j in range(1, n):
            add_multiple(turned, k, basis[k, j], columns, j, tall)


@njit(**COMPILE)
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
