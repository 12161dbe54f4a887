"""Where next states fall between the points of a grid, as a numba function: wrapped or clipped, then located.

The twin of `ControlTask.inside` followed by `cells.locate`, in one pass and with the same roundings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.jit import njit

COMPILE: dict[str, Any] = {"error_model": "numpy", "nogil": True, "cache": True}
BLOCK = 512


@njit(inline="always", **COMPILE)
def _placed(x, low, high, scale, last):
    """Cell and fraction of a coordinate that has been wrapped."""
    x = low if x < low else x
    x = high if x > high else x
    place = (x - low) * scale
    cell = np.floor(place)
    cell = 0.0 if cell < 0.0 else cell
    cell = last if cell > last else cell
    part = place - cell
    return cell, 1.0 if part > 1.0 else part


@njit(**COMPILE)
def locate_inside(states, low, high, far, points, periodic, begin, end, base, fraction):
    """Locate the states (N, d) begin..end-1 into base (N,) and fraction (d, N); False if one cannot be reached.

    low, high, points and periodic, (d,), describe the axes; no coordinate may be NaN, nor further than `far` widths
    from low.
    """
    sound = True
    x = np.empty(BLOCK)
    for i in range(begin, end, BLOCK):
        j = min(i + BLOCK, end)
        some, to = states[i:j], base[i:j]
        to[:] = 0
        for k in range(len(low)):
            width = high[k] - low[k]
            scale = (points[k] - 1) / width
            last = points[k] - 2.0
            reach = far * width
            beyond = 0
            for n in range(len(to)):
                x[n] = some[n, k]
                beyond |= not abs(x[n] - low[k]) <= reach
            sound &= beyond == 0
            if periodic[k]:
                outside = 0
                for n in range(len(to)):
                    x[n] -= low[k]
                    outside |= not 0.0 <= x[n] < width
                if outside:  # a remainder is slow, and changes nothing inside
                    for n in range(len(to)):
                        x[n] %= width
                for n in range(len(to)):
                    x[n] += low[k]
            part = fraction[k, i:j]
            for n in range(len(to)):
                cell, inside = _placed(x[n], low[k], high[k], scale, last)
                part[n] = inside
                to[n] = to[n] * np.int32(points[k]) + np.int32(cell)
    return sound
