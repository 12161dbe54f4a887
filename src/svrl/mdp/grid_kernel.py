"""Interpolated backups on a grid, as numba functions over a compact table.

For a pair (s, a) the table holds the low corner of the cell that the next state falls into,
`base`, its place in that cell, `fraction` (d,), each in [0, 1], and the reward. With quadrature
nodes a pair has several such entries, one after the other, and `weights` (nodes,) averages them; a single
node has weight 1.

`plane` kernels serve two dimensions and one node, the others everything; two and four dimensions are
the fast ones. Neighbouring actions mostly lead into the same cell, so entries are taken CHUNK at a
time: where all of a chunk share their cell, its corners are read once, otherwise one by one. Both are
the same formula, so that equal entries have equal values and the first of several maximisers is first.
"""

# A function that takes arrays and is not inlined costs 80 ns a call, so all of them are inlined. Corners are
# unsigned: numba lets signed ones count from the end, and that test keeps loops from being vectorised.

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.jit import njit

COMPILE: dict[str, Any] = {
    # No reassociation: it could round the two ways of taking a chunk differently.
    "fastmath": {"contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "cache": True,
}
CHUNK = 32
LANES = 16
BLOCK = 256
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
def _plane(base, across, along, gain, v, stride, gamma, out):
    """gain + gamma * value for all entries of a piece of a table in two dimensions."""
    real = v.dtype.type
    up = np.uintp(stride)
    full = len(base) - len(base) % CHUNK
    for begin in range(0, full, CHUNK):
        if _same_cell(base, begin, CHUNK):
            c = _square(v, _corner(base, begin), up)
            for k in range(begin, begin + CHUNK):
                out[k] = real(gain[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))
        else:
            for k in range(begin, begin + CHUNK):
                c = _square(v, _corner(base, k), up)
                out[k] = real(gain[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))
    for k in range(full, len(base)):
        c = _square(v, _corner(base, k), up)
        out[k] = real(gain[k]) + gamma * _in_square(c, real(across[k]), real(along[k]))


@njit(inline="always", **COMPILE)
def _four(base, f, g, h, i, gain, v, offsets, gamma, out):
    """gain + gamma * value for all entries of a piece of a table in four dimensions, with fractions f to i."""
    real = v.dtype.type
    chunk = CHUNK // 4
    first, second, third = np.uintp(offsets[8]), np.uintp(offsets[4]), np.uintp(offsets[2])
    full = len(base) - len(base) % chunk
    for begin in range(0, full, chunk):
        if _same_cell(base, begin, chunk):
            c = _tesseract(v, _corner(base, begin), first, second, third)
            for k in range(begin, begin + chunk):
                out[k] = real(gain[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))
        else:
            for k in range(begin, begin + chunk):
                c = _tesseract(v, _corner(base, k), first, second, third)
                out[k] = real(gain[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))
    for k in range(full, len(base)):
        c = _tesseract(v, _corner(base, k), first, second, third)
        out[k] = real(gain[k]) + gamma * _in_tesseract(c, real(f[k]), real(g[k]), real(h[k]), real(i[k]))


@njit(inline="always", **COMPILE)
def _merged(base, fraction, v, offsets, corners, at):
    """The value of one entry in any number of dimensions: the first axis is merged first."""
    corner = _corner(base, at)
    left = len(offsets)
    for c in range(left):
        corners[c] = v[corner + np.uintp(offsets[c])]
    for axis in range(len(fraction)):
        left //= 2
        x = v.dtype.type(fraction[axis, at])
        for c in range(left):
            corners[c] = _between(corners[c], corners[c + left], x)
    return corners[0]


@njit(inline="always", **COMPILE)
def _entries(base, fraction, gain, v, offsets, gamma, corners, i, j, out):
    """gain + gamma * value for the entries i..j-1 of a table; gain and out begin at i."""
    if len(offsets) == 4:
        _plane(base[i:j], fraction[0, i:j], fraction[1, i:j], gain, v, offsets[2], gamma, out)
    elif len(offsets) == 16:
        f, g, h, z = fraction[0, i:j], fraction[1, i:j], fraction[2, i:j], fraction[3, i:j]
        _four(base[i:j], f, g, h, z, gain, v, offsets, gamma, out)
    else:
        for at in range(i, j):
            out[at - i] = v.dtype.type(gain[at - i]) + gamma * _merged(base, fraction, v, offsets, corners, at)


@njit(inline="always", **COMPILE)
def _backups(base, fraction, reward, weights, v, offsets, discount, corners, none, values, low, high, out):
    """Backups of the pairs low..high-1 into out[: high - low].

    `none`, zeros of the reward's type, and `values`, of v's like `out`, have room for all entries of the pairs.
    """
    real = v.dtype.type
    nodes = len(weights)
    # One call for both cases: each is a copy of all that is inlined into it, and that is what compiling takes.
    gain, gamma, into = reward[low:high], real(discount), out
    if nodes > 1:
        gain, gamma, into = none, real(1), values
    _entries(base, fraction, gain, v, offsets, gamma, corners, low * nodes, high * nodes, into)
    if nodes > 1:
        for k in range(high - low):
            total = real(0)
            for node in range(nodes):
                total += real(weights[node]) * values[k * nodes + node]
            out[k] = real(reward[low + k]) + real(discount) * total


@njit(inline="always", **COMPILE)
def _padded(count, dtype):
    """Room for `count` values and some of -inf up to a multiple of LANES."""
    return np.full((count + LANES - 1) // LANES * LANES, -np.inf, dtype)


@njit(inline="always", **COMPILE)
def _highest(row, lanes):
    """The maximum of a padded row and its first place; LANES maxima side by side are what vectorises."""
    for j in range(LANES):
        lanes[j] = row[j]
    for begin in range(LANES, len(row), LANES):
        for j in range(LANES):
            lanes[j] = row[begin + j] if row[begin + j] > lanes[j] else lanes[j]
    top = lanes[0]
    for j in range(1, LANES):
        top = lanes[j] if lanes[j] > top else top
    begin = 0
    while begin < len(row) - LANES:
        found = False
        for j in range(LANES):
            found |= row[begin + j] == top
        if found:
            break
        begin += LANES
    first = begin
    while first < begin + LANES and row[first] != top:
        first += 1
    return top, first if first < begin + LANES else 0


@njit(**COMPILE)
def improve_plane(base, across, along, reward, v, stride, discount, n_actions, low, high, best, action):
    """Maximum and first maximiser over the actions of states low..high-1 of the table."""
    gamma = v.dtype.type(discount)
    row = _padded(n_actions, v.dtype)
    lanes = np.empty(LANES, v.dtype)
    for s in range(low, high):
        i, j = s * n_actions, (s + 1) * n_actions
        _plane(base[i:j], across[i:j], along[i:j], reward[i:j], v, stride, gamma, row)
        best[s], action[s] = _highest(row, lanes)


@njit(**COMPILE)
def backup_plane(base, across, along, reward, v, stride, discount, low, high, out):
    """Backups of the entries low..high-1 of the table."""
    i, j = low, high
    _plane(base[i:j], across[i:j], along[i:j], reward[i:j], v, stride, v.dtype.type(discount), out[i:j])


@njit(**COMPILE)
def backup_plane_at(base, across, along, reward, v, stride, discount, index, low, high, out):
    """Backups of the listed entries of the table."""
    real = v.dtype.type
    gamma = real(discount)
    up = np.uintp(stride)
    for k in range(low, high):
        at = np.uintp(index[k])
        value = _in_square(_square(v, _corner(base, at), up), real(across[at]), real(along[at]))
        out[k] = real(reward[at]) + gamma * value


@njit(**COMPILE)
def improve_any(base, fraction, reward, weights, v, offsets, discount, n_actions, low, high, best, action):
    """Maximum and first maximiser over the actions of states low..high-1 of the table."""
    corners = np.empty(len(offsets), v.dtype)
    none, values = np.zeros(n_actions * len(weights), reward.dtype), np.empty(n_actions * len(weights), v.dtype)
    row = _padded(n_actions, v.dtype)
    lanes = np.empty(LANES, v.dtype)
    for s in range(low, high):
        i, j = s * n_actions, (s + 1) * n_actions
        _backups(base, fraction, reward, weights, v, offsets, discount, corners, none, values, i, j, row)
        best[s], action[s] = _highest(row, lanes)


@njit(**COMPILE)
def backup_any(base, fraction, reward, weights, v, offsets, discount, low, high, out):
    """Backups of the pairs low..high-1 of the table."""
    corners = np.empty(len(offsets), v.dtype)
    none, values = np.zeros(BLOCK * len(weights), reward.dtype), np.empty(BLOCK * len(weights), v.dtype)
    for i in range(low, high, BLOCK):
        j = min(i + BLOCK, high)
        _backups(base, fraction, reward, weights, v, offsets, discount, corners, none, values, i, j, out[i:j])


@njit(inline="always", **COMPILE)
def _value_at(base, fraction, v, offsets, corners, at):
    """The value of one entry."""
    real = v.dtype.type
    if len(offsets) == 4:
        c = _square(v, _corner(base, at), np.uintp(offsets[2]))
        return _in_square(c, real(fraction[0, at]), real(fraction[1, at]))
    if len(offsets) == 16:
        c = _tesseract(v, _corner(base, at), np.uintp(offsets[8]), np.uintp(offsets[4]), np.uintp(offsets[2]))
        y, z = real(fraction[2, at]), real(fraction[3, at])
        return _in_tesseract(c, real(fraction[0, at]), real(fraction[1, at]), y, z)
    return _merged(base, fraction, v, offsets, corners, at)


@njit(**COMPILE)
def backup_any_at(base, fraction, reward, weights, v, offsets, discount, index, low, high, out):
    """Backups of the listed pairs of the table."""
    real = v.dtype.type
    corners = np.empty(len(offsets), v.dtype)
    nodes = len(weights)
    for k in range(low, high):
        pair = np.uintp(index[k])
        value = real(0)
        for node in range(nodes):
            at = pair * np.uintp(nodes) + np.uintp(node)
            value += real(weights[node]) * _value_at(base, fraction, v, offsets, corners, at)
        out[k] = real(reward[pair]) + real(discount) * value
