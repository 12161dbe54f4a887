"""Interpolated backups on a grid, as numba functions over a compact table, and the cells that next states lie in.

For a pair (s, a) the table holds the reward, the low corner of the cell that the next state falls into, `base`, and
the place in that cell, `fraction` (d,), each in [0, 1].

Two and four dimensions have functions of their own. Neighbouring actions mostly lead into the same cell, so these
functions take CHUNK entries at a time: where a whole chunk shares its cell, they read the corners once, otherwise for
each entry. All of them use the same formula, the last axis first, so that equal entries have equal values and the first
of several maximisers wins. With one loop over axes and corners for every number of dimensions, value iteration took
7 times as long in two dimensions and 3.5 times in four.
"""

# A function that takes arrays and is not inlined costs 80 ns a call, so all of them are inlined. Corners are unsigned:
# numba lets signed ones count from the end, and that test keeps loops from being vectorised. numba's cache sees only
# the file of the function that Python calls, so all functions stay in this file.

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.kernels import njit

COMPILE: dict[str, Any] = {
    # Reassociation could round the two ways of taking a chunk differently.
    "fastmath": {"contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
EXACT: dict[str, Any] = {**COMPILE, "fastmath": False}
"""For functions that round exactly like their reference in torch."""
CHUNK = 32
ABREAST = 16
LOCATED = 512
"""States located together."""
ONE = np.uintp(1)


@njit(inline="always", **COMPILE)
def _between(a, b, x):
    return a + x * (b - a)


@njit(inline="always", **COMPILE)
def _square(v, corner, up):
    """The four corners of a cell whose low corner is given; `up` is the step along the first axis."""
    return v[corner], v[corner + ONE], v[corner + up], v[corner + up + ONE]


@njit(inline="always", **COMPILE)
def _in_square(c, x, y):
    return _between(_between(c[0], c[1], y), _between(c[2], c[3], y), x)


@njit(inline="always", **COMPILE)
def _tesseract(v, corner, first, second, third):
    """The sixteen corners of a cell, as four squares."""
    return (
        _square(v, corner, third),
        _square(v, corner + second, third),
        _square(v, corner + first, third),
        _square(v, corner + first + second, third),
    )


@njit(inline="always", **COMPILE)
def _in_tesseract(c, w, x, y, z):
    low = _between(_in_square(c[0], y, z), _in_square(c[1], y, z), x)
    high = _between(_in_square(c[2], y, z), _in_square(c[3], y, z), x)
    return _between(low, high, w)


@njit(inline="always", **COMPILE)
def _corner(base, at):
    return np.uintp(np.uint32(base[at]))


@njit(inline="always", **COMPILE)
def _same_cell(base, begin, count):
    """Whether `count` entries from `begin` on share their cell."""
    differ = base[begin] ^ base[begin]
    for j in range(count):
        differ |= base[begin + j] ^ base[begin]
    return differ == 0


@njit(inline="always", **COMPILE)
def _plane(base, across, along, reward, v, stride, gamma, out):
    """Backups of all entries of a piece of a table in two dimensions."""
    real = v.dtype.type
    up = np.uintp(stride)
    full = len(base) - len(base) % CHUNK  # a loop of constant length is 4% faster: what is left has its own
    for begin in range(0, full, CHUNK):
        if _same_cell(base, begin, CHUNK):
            c = _square(v, _corner(base, begin), up)
            for k in range(begin, begin + CHUNK):
                out[k] = real(reward[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))
        else:
            for k in range(begin, begin + CHUNK):
                c = _square(v, _corner(base, k), up)
                out[k] = real(reward[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))
    for k in range(full, len(base)):
        c = _square(v, _corner(base, k), up)
        out[k] = real(reward[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))


@njit(inline="always", **COMPILE)
def _four(base, f, g, h, i, reward, v, offsets, gamma, out):
    """Backups of all entries of a piece of a table in four dimensions, with the fractions f to i."""
    real = v.dtype.type
    chunk = CHUNK // 4
    first, second, third = np.uintp(offsets[8]), np.uintp(offsets[4]), np.uintp(offsets[2])
    full = len(base) - len(base) % chunk
    for begin in range(0, full, chunk):
        if _same_cell(base, begin, chunk):
            c = _tesseract(v, _corner(base, begin), first, second, third)
            for k in range(begin, begin + chunk):
                out[k] = real(reward[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))
        else:
            for k in range(begin, begin + chunk):
                c = _tesseract(v, _corner(base, k), first, second, third)
                out[k] = real(reward[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))
    for k in range(full, len(base)):
        c = _tesseract(v, _corner(base, k), first, second, third)
        out[k] = real(reward[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))


@njit(inline="always", **COMPILE)
def _value_at(base, fraction, v, offsets, corners, at):
    """The interpolated value of one entry."""
    real = v.dtype.type
    corner = _corner(base, at)
    if len(offsets) == 4:
        value = _in_square(_square(v, corner, np.uintp(offsets[2])), real(fraction[0, at]), real(fraction[1, at]))
    elif len(offsets) == 16:
        c = _tesseract(v, corner, np.uintp(offsets[8]), np.uintp(offsets[4]), np.uintp(offsets[2]))
        y, z = real(fraction[2, at]), real(fraction[3, at])
        value = _in_tesseract(c, real(fraction[0, at]), real(fraction[1, at]), y, z)
    else:
        left = len(offsets)
        for c in range(left):
            corners[c] = v[corner + np.uintp(offsets[c])]
        for axis in range(len(fraction) - 1, -1, -1):
            left //= 2
            x = real(fraction[axis, at])
            for c in range(left):
                corners[c] = _between(corners[2 * c], corners[2 * c + 1], x)
        value = corners[0]
    return value


@njit(inline="always", **COMPILE)
def _backup_of(base, fraction, reward, v, offsets, gamma, corners, pair):
    real = v.dtype.type
    return real(reward[pair]) + real(gamma) * _value_at(base, fraction, v, offsets, corners, pair)


@njit(inline="always", **COMPILE)
def _backups(base, fraction, reward, v, offsets, gamma, corners, i, j, out):
    """Write backups of the pairs i..j-1 to out[: j - i], in any number of dimensions but two."""
    if len(offsets) == 16:
        f, g, h, z = fraction[0, i:j], fraction[1, i:j], fraction[2, i:j], fraction[3, i:j]
        _four(base[i:j], f, g, h, z, reward[i:j], v, offsets, v.dtype.type(gamma), out)
    else:
        for pair in range(i, j):
            out[pair - i] = _backup_of(base, fraction, reward, v, offsets, gamma, corners, np.uintp(pair))


@njit(inline="always", **COMPILE)
def _padded(count, dtype):
    """Room for `count` values, and -inf up to a multiple of ABREAST."""
    return np.full((count + ABREAST - 1) // ABREAST * ABREAST, -np.inf, dtype)


@njit(inline="always", **COMPILE)
def _highest(row, maxima):
    """The maximum of a padded row and its first place. The loop keeps ABREAST maxima side by side and so vectorises."""
    for j in range(ABREAST):
        maxima[j] = row[j]
    for begin in range(ABREAST, len(row), ABREAST):
        for j in range(ABREAST):
            maxima[j] = row[begin + j] if row[begin + j] > maxima[j] else maxima[j]
    top = maxima[0]
    for j in range(1, ABREAST):
        top = maxima[j] if maxima[j] > top else top
    begin = 0
    while begin < len(row) - ABREAST:
        found = False
        for j in range(ABREAST):
            found |= row[begin + j] == top
        if found:
            break
        begin += ABREAST
    first = begin
    while first < begin + ABREAST and row[first] != top:
        first += 1
    return top, first if first < begin + ABREAST else 0


@njit(**COMPILE)
def improve(base, fraction, reward, v, offsets, gamma, n_actions, low, high, best, action):
    """Maximum and first maximiser over the actions of states low..high-1 of the table."""
    row = _padded(n_actions, v.dtype)
    maxima = np.empty(ABREAST, v.dtype)
    if len(offsets) == 4:  # inside the loop this test costs a sixth of value iteration
        across, along = fraction[0], fraction[1]
        stride, factor = offsets[2], v.dtype.type(gamma)
        for s in range(low, high):
            i, j = s * n_actions, (s + 1) * n_actions
            _plane(base[i:j], across[i:j], along[i:j], reward[i:j], v, stride, factor, row)
            best[s], action[s] = _highest(row, maxima)
        return
    corners = np.empty(len(offsets), v.dtype)
    for s in range(low, high):
        i, j = s * n_actions, (s + 1) * n_actions
        _backups(base, fraction, reward, v, offsets, gamma, corners, i, j, row)
        best[s], action[s] = _highest(row, maxima)


@njit(**COMPILE)
def backup(base, fraction, reward, v, offsets, gamma, i, j, out):
    """Backups of the pairs i..j-1 of the table."""
    if len(offsets) == 4:
        across, along = fraction[0, i:j], fraction[1, i:j]
        _plane(base[i:j], across, along, reward[i:j], v, offsets[2], v.dtype.type(gamma), out[i:j])
    else:
        corners = np.empty(len(offsets), v.dtype)
        _backups(base, fraction, reward, v, offsets, gamma, corners, i, j, out[i:j])


@njit(**COMPILE)
def backup_at(base, fraction, reward, v, offsets, gamma, index, low, high, out):
    """Backups of the listed pairs of the table."""
    corners = np.empty(len(offsets), v.dtype)
    for k in range(low, high):
        pair = np.uintp(index[k])
        out[k] = _backup_of(base, fraction, reward, v, offsets, gamma, corners, pair)


@njit(inline="always", **EXACT)
def _placed(x, low, high, scale, last):
    """Cell and fraction of a coordinate, after wrapping."""
    x = low if x < low else x
    x = high if x > high else x
    place = (x - low) * scale
    cell = np.floor(place)
    cell = 0.0 if cell < 0.0 else cell
    cell = last if cell > last else cell
    part = place - cell
    return cell, 1.0 if part > 1.0 else part


@njit(**EXACT)
def locate_inside(states, low, high, far, points, periodic, begin, end, base, fraction):
    """Locate the states (N, d) begin..end-1 into base (N,) and fraction (d, N).

    low, high, points and periodic, (d,), describe the axes. Returns False if a coordinate is NaN or further than `far`
    widths from low.
    """
    sound = True
    x = np.empty(LOCATED)
    for i in range(begin, end, LOCATED):
        j = min(i + LOCATED, end)
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
                if outside:  # a remainder is slow, and changes nothing inside the box
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
