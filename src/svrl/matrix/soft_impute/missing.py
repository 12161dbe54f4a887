"""The missing entries of one small matrix, as numba functions: loaded, guessed, moved.

The filled matrix is held twice, by rows and by columns, because Gauss-Seidel reads rows and the
rotations read columns. `missing` lists the missing columns of row 0, then of row 1, and so on;
those of row i are missing[first[i] : first[i + 1]].
"""

from __future__ import annotations

import numpy as np

from svrl.matrix.compiling import njit
from svrl.matrix.soft_impute.jacobi import COMPILE, dot

GAUSS_SEIDEL_PASSES = 2


@njit(**COMPILE)
def relax_rows(rows, columns, missing, first, hat, before, pull, last):
    """Gauss-Seidel on each row's missing entries, W frozen.

    Returns the squared step, the squared size of the old entries, and the product that tells
    whether the momentum points uphill. `before` receives the entries as they were; `pull` is scratch.
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
                    continue  # rounding has eaten the shrinkage: nothing holds this entry, so it stays
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


@njit(**COMPILE)
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


@njit(**COMPILE)
def go_back(rows, columns, missing, first, last):
    """Undo the last extrapolation."""
    for i in range(rows.shape[0]):
        for at in range(first[i], first[i + 1]):
            j = missing[at]
            rows[i, j] = last[at]
            columns[j, i] = last[at]


@njit(**COMPILE)
def load(values, mask, scale, rows, columns, missing, first):
    """Copy the observed entries, divided by `scale`, into both layouts; list the missing ones."""
    m, n = values.shape
    rows[:, :] = 0
    columns[:, :] = 0
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


@njit(**COMPILE)
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


@njit(**COMPILE)
def largest(values, mask):
    """The largest observed magnitude: dividing by it keeps squares inside float32."""
    top = 0.0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            if mask[i, j]:
                top = max(top, abs(np.float64(values[i, j])))
    return top
