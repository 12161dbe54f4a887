"""The greedy action at continuous states, as a numba kernel; `greedy_twin` says the same in plain torch.

For each state the rows of Q at the 2^d corners of its cell are blended into one row of scores, which
stays in the first-level cache, and searched. With factors the corners' short rows are blended, and
then the rows of `right` (r, A) by the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.jit import njit

# Sums may be reordered, but NaN keeps its meaning: a place that is not a number must not become an index.
COMPILE: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}


@njit(inline="always", **COMPILE)
def _corners(base, fraction, offsets, n, index, weight):
    """Fill index and weight (2^d,) with the corners of the cell of state n."""
    weight[0] = 1.0
    count = 1
    for part in fraction[:, n]:
        for c in range(count - 1, -1, -1):
            weight[2 * c + 1] = weight[c] * part
            weight[2 * c] = weight[c] * (1.0 - part)
        count *= 2
    for c in range(count):
        index[c] = base[n] + offsets[c]


@njit(inline="always", **COMPILE)
def _blend(rows, index, weight, out):
    """Sum of weight[c] * rows[index[c]] over c; four at a time, because reading and writing `out` costs most."""
    count = len(index)
    wide = len(out)
    out[:] = 0
    whole = count - count % 4
    for c in range(0, whole, 4):
        i, j, k, m = index[c], index[c + 1], index[c + 2], index[c + 3]
        p, q, r, s = weight[c], weight[c + 1], weight[c + 2], weight[c + 3]
        for a in range(wide):
            out[a] += p * rows[i, a] + q * rows[j, a] + r * rows[k, a] + s * rows[m, a]
    for c in range(whole, count):
        i = index[c]
        p = weight[c]
        for a in range(wide):
            out[a] += p * rows[i, a]


@njit(**COMPILE)
def greedy_range(base, fraction, offsets, table, right, factored, first, last, actions, values):
    """Write the first best action and its value for states first..last, at the places base (N,) and fraction (d, N).

    `table` is Q (S, A), or left (S, r) if `factored`, and then `right` is (r, A).
    """
    corners = len(offsets)
    index = np.empty(corners, np.int64)
    exact = np.empty(corners, np.float64)
    weight = np.empty(corners, table.dtype)
    rank = right.shape[0]
    every = np.arange(rank)
    mixed = np.empty(rank, table.dtype)
    scores = np.empty(right.shape[1] if factored else table.shape[1], table.dtype)
    for n in range(first, last):
        _corners(base, fraction, offsets, n, index, exact)
        weight[:] = exact
        if factored:
            _blend(table, index, weight, mixed)
            _blend(right, every, mixed, scores)
        else:
            _blend(table, index, weight, scores)
        best = 0
        top = scores[0]
        for a in range(1, len(scores)):
            if scores[a] > top:
                top = scores[a]
                best = a
        actions[n] = best
        values[n] = top
