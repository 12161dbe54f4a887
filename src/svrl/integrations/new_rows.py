"""What a completed matrix says of rows that it has not seen.

Completion gives Z (m, n) = U diag(s) V' and with it a row space: the right singular directions V (n, r). A new row x
of which the entries o are observed gets z = V c. What c minimises follows from what the estimator minimised:

- Shrinkage t of the nuclear norm (Soft-Impute, FactorALS, least nuclear norm as t -> 0):

      1/2 |V_o c - x_o|^2 + t / 2 * sum over k of c_k^2 / s_k,

  a ridge regression on the factors V diag(s)^(1/2). The penalty is what the row adds to t |Z|_*: the norm of Z with
  z' below it is tr (Z'Z + z z')^(1/2), the root is concave, and so for z in the row space the norm grows by at most
  1/2 z' (Z'Z)^(-1/2) z, and by that to first order. For a row of Z itself this is its own optimality condition.
- A fixed rank without shrinkage (Hard-Impute): the same with t = 0, least squares; of several solutions the shortest.
- Thresholding (USVT) minimises nothing: its rows are V V' (zero-filled row) / p, and so are new ones.

At the minimiser the rows of the fitted matrix therefore come back as they are; before it they differ as far as the
iteration had still to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from svrl.matrix.arrays import as_tensor
from svrl.matrix.estimate import Estimate
from svrl.matrix.parameters import Centre
from svrl.matrix.subspace import balance

BLOCK_ENTRIES = 1 << 22
"""Numbers held at a time while new rows are solved: 32 MB."""
UNSEEN = 1e-6
"""Squared length of a direction on the observed entries below which least squares leave it at 0."""


def row_space(estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """Right singular directions (r, n) and singular values (r,), descending and above 0, of a centred estimate (m, n).

    Where observed entries were copied back, the minimiser behind them is recovered by one shrinkage.
    """
    if estimate.factors is not None:
        left, right = (as_tensor(factor).double() for factor in estimate.factors)
        if estimate.offset is not None:
            left, right = left[:, :-1], right[:, :-1]  # the last factor carries the offset
        _, values, directions = balance(left, right)
        s, v = values.numpy(), directions.numpy().T
    else:
        matrix = np.asarray(estimate.matrix, np.float64)
        if estimate.offset is not None:
            matrix = matrix - np.asarray(estimate.offset, np.float64)
        _, values, directions = torch.linalg.svd(torch.from_numpy(matrix), full_matrices=False)
        s, v = values.numpy(), directions.numpy()
        if estimate.kept and estimate.shrinkage is not None:
            s = s - float(estimate.shrinkage)
    rank = min(int(estimate.rank), int((s > 0).sum()))
    return v[:rank].copy(), s[:rank].copy()


def offsets_of_rows(values: np.ndarray, mask: np.ndarray, centre: Centre, offset: float) -> np.ndarray:
    """What centring takes out of new rows (k, n): (k, 1).

    Args:
        values: (k, n).
        mask: (k, n), True where observed.
        centre: With "row", each row's observed mean; else the number of the fitted matrix.
        offset: That number; with "row", for rows without an observed entry.
    """
    if centre != "row":
        return np.full((len(values), 1), offset)
    count = mask.sum(1, keepdims=True)
    mean = np.where(mask, values, 0).sum(1, keepdims=True) / np.maximum(count, 1)
    return np.where(count > 0, mean, offset)


def rows_by_ridge(
    values: np.ndarray, mask: np.ndarray, components: np.ndarray, singular_values: np.ndarray, shrinkage: float
) -> np.ndarray:
    """Rows (k, n) of a model with shrinkage, float64.

    Args:
        values: (k, n), centred, zero where unobserved.
        mask: (k, n).
        components: (r, n), orthonormal.
        singular_values: (r,), above 0, of the fitted estimate.
        shrinkage: t of the nuclear norm, in units of the values.
    """
    if not len(singular_values):
        return np.zeros(values.shape)
    # Over the largest singular value: no unit is left in the equations, and no square leaves the range.
    right = components.T * np.sqrt(singular_values / singular_values[0])
    ridge = shrinkage / singular_values[0] * np.eye(len(singular_values))
    return _solve(values, mask, right, lambda grams, targets: np.linalg.solve(grams + ridge, targets))


def rows_by_least_squares(values: np.ndarray, mask: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Rows (k, n) in the span of components (r, n) nearest to what is observed; of several the shortest. float64."""
    if not len(components):
        return np.zeros(values.shape)
    return _solve(values, mask, components.T, _shortest)


def rows_by_threshold(
    values: np.ndarray, mask: np.ndarray, components: np.ndarray, share: float, bound: float
) -> np.ndarray:
    """Rows (k, n) by the rule of USVT, float64.

    Args:
        values: (k, n), centred, zero where unobserved.
        mask: (k, n); the zeros are all that is used of it.
        components: (r, n), the directions above the threshold.
        share: Observed share of the fitted matrix.
        bound: Largest size of a centred entry of it.
    """
    filled = np.where(mask, values, 0)
    return np.clip(filled @ components.T @ components / share, -bound, bound)


Solve = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _solve(values: np.ndarray, mask: np.ndarray, right: np.ndarray, solve: Solve) -> np.ndarray:
    """right @ solve(right_o' right_o, right_o' x_o) for each row x, block by block; right (n, r)."""
    out = np.empty(values.shape)
    for rows in _blocks(len(values), right.size):
        shown = mask[rows, :, None] * right
        grams = shown.transpose(0, 2, 1) @ right
        targets = np.where(mask[rows], values[rows], 0) @ right
        out[rows] = solve(grams, targets[..., None])[..., 0] @ right.T
    return out


def _shortest(grams: np.ndarray, targets: np.ndarray) -> np.ndarray:
    squares, axes = np.linalg.eigh(grams)
    seen = squares > UNSEEN
    inverse = np.where(seen, 1 / np.where(seen, squares, 1), 0)
    return axes @ (inverse[..., None] * (axes.transpose(0, 2, 1) @ targets))


def _blocks(rows: int, entries_a_row: int) -> Iterator[slice]:
    step = max(1, BLOCK_ENTRIES // max(entries_a_row, 1))
    return (slice(low, min(low + step, rows)) for low in range(0, rows, step))
