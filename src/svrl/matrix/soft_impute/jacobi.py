"""One-sided Jacobi on a small matrix, as numba functions: the linear algebra under `small_kernel`.

A matrix F (m, n) is held by columns, `columns` (n, padded m), and its right singular vectors are
approached by the rows of `basis` (n, padded n); `turned` (n, padded m) holds the rows F v_k. One
sweep visits every pair of rows once and rotates the pair until F v_p and F v_q are orthogonal,
unless that cannot change what the shrinkage keeps.
"""

# Array helpers are inlined by numba: a call that passes arrays costs 80 ns, an inner loop here 5.
# Rows are padded to whole blocks of 32 zeros, because shorter loops fall out of the vector code.
# numba's cache looks at the file of the outermost function only: `make clean` after a change here.

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

COMPILE: dict[str, Any] = {"fastmath": True, "error_model": "numpy", "nogil": True, "cache": True}

BLOCK = 32
NEGLIGIBLE = 1e-28
"""Squared cosine below which two directions count as orthogonal, in any precision."""


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
def top_direction(columns, x, y, n, tolerance, most):
    """Power method on F'F from `x` (1, padded n); returns the largest eigenvalue.

    The Rayleigh quotient converges twice as fast as the vector, so a small gap costs little.
    """
    tall = columns.shape[1]
    old = 0.0
    for step in range(most):
        norm = math.sqrt(np.float64(dot(x, 0, x, 0, x.shape[1])))
        if norm == 0.0:
            return 0.0
        for j in range(n):
            x[0, j] /= norm
        y[0, :] = 0
        for j in range(n):
            add_multiple(y, 0, x[0, j], columns, j, tall)
        value = np.float64(dot(y, 0, y, 0, tall))
        if step > 1 and abs(value - old) <= tolerance * value:
            return value
        old = value
        for j in range(n):
            x[0, j] = dot(columns, j, y, 0, tall)
    return old


@njit(**COMPILE)
def basis_through(x, basis, n):
    """Basis <- the Householder reflection whose first row is the direction of `x`, up to sign."""
    wide = basis.shape[1]
    basis[:, :] = 0
    norm = math.sqrt(np.float64(dot(x, 0, x, 0, wide)))
    for j in range(n):
        basis[j, j] = 1
    if norm == 0.0:
        return
    for j in range(n):
        x[0, j] /= norm
    x[0, 0] += 1 if x[0, 0] >= 0 else -1
    factor = -2.0 / np.float64(dot(x, 0, x, 0, wide))
    for i in range(n):
        add_multiple(basis, i, basis.dtype.type(factor * x[0, i]), x, 0, wide)


@njit(**COMPILE)
def clean(basis, n):
    """Gram-Schmidt on the rows of `basis`."""
    wide = basis.shape[1]
    for p in range(n):
        for q in range(p):
            add_multiple(basis, p, -dot(basis, p, basis, q, wide), basis, q, wide)
        norm = math.sqrt(np.float64(dot(basis, p, basis, p, wide)))
        for j in range(n):
            basis[p, j] /= norm


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
            tau = gap / (2.0 * off)
            tangent = math.copysign(1.0, tau) / (abs(tau) + math.sqrt(1.0 + tau * tau))
            cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
            c = turned.dtype.type(cosine)
            s = turned.dtype.type(tangent * cosine)
            rotate(turned, p, q, c, s, tall)
            rotate(basis, p, q, c, s, wide)
            squares[p] = a - tangent * off
            squares[q] = b + tangent * off
            keep[p] = keep_share(squares[p], shrinkage)
            keep[q] = keep_share(squares[q], shrinkage)
    return done


@njit(**COMPILE)
def hat_matrix(basis, keep, hat, n):
    """Hat <- V diag(keep) V'; returns how many directions survive."""
    wide = basis.shape[1]
    hat[:, :] = 0
    rank = 0
    for k in range(n):
        if keep[k] > 0.0:
            rank += 1
            for i in range(n):
                add_multiple(hat, i, hat.dtype.type(keep[k] * basis[k, i]), basis, k, wide)
    return rank


@njit(**COMPILE)
def turn(columns, basis, turned, n):
    """Turned <- the rows F v_k."""
    turned[:, :] = 0
    for k in range(n):
        for j in range(n):
            add_multiple(turned, k, basis[k, j], columns, j, columns.shape[1])


@njit(inline="always", **COMPILE)
def upper_bound(squares, shrinkage, n):
    """The upper bound sum_k h(|F v_k|) on the objective; momentum must not raise it."""
    total = 0.0
    for k in range(n):
        if squares[k] > shrinkage * shrinkage:
            total += shrinkage * math.sqrt(squares[k]) - 0.5 * shrinkage * shrinkage
        else:
            total += 0.5 * squares[k]
    return total
