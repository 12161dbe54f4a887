"""Backups of one fixed policy, repeated, as a numba function over its sparse transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.jit import njit

COMPILE: dict[str, Any] = {
    "fastmath": {"contract", "arcp", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}


@njit(**COMPILE)
def sweep(indptr, indices, data, reward, discount, v, other, count):
    """v = reward + discount * P v, `count` times; v and other, (S,), are both written to, and one is returned."""
    for _ in range(count):
        for s in range(len(reward)):
            total = 0.0
            # Unsigned: numba lets signed indices count from the end, and testing for that costs half of the time.
            for k in range(np.uintp(indptr[s]), np.uintp(indptr[s + 1])):
                total += data[k] * v[np.uintp(indices[k])]
            other[s] = reward[s] + discount * total
        v, other = other, v
    return v
