"""Measures of how low-rank a matrix is, all batched over leading axes.

The paper's approximate rank is the number of singular values that carry 99% of the sum of their
squares. A Q matrix has a large mean, and the mean alone often carries more than 99%: always look
at a tighter energy and at the row-centred matrix (the advantages) too.
"""

from __future__ import annotations

import numpy as np
import torch

from svrl.matrix.arrays import Array, as_floating, like

PAPER_ENERGY = 0.99
ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Share of a value that may be rounding: a layer may sum some actions in a different order from the others."""


def spectrum(matrix: Array, *, centre_rows: bool = False) -> Array:
    """Singular values (..., min(m, n)) of (..., m, n), descending.

    Args:
        matrix: (..., m, n), finite.
        centre_rows: Subtract each row's mean first: the spectrum of the advantage, not of the value.
    """
    return _back(_spectrum(matrix, centre_rows), matrix)


def approximate_rank(matrix: Array, *, energy: float = PAPER_ENERGY, centre_rows: bool = False) -> Array:
    """The fewest singular values whose squares sum to at least `energy` of the total.

    Args:
        matrix: (..., m, n), finite.
        energy: Share in (0, 1]; the paper's is 0.99. An energy of 1 counts all nonzero values.
        centre_rows: Subtract each row's mean first.

    Returns:
        (...), int64; 0 for a zero matrix.
    """
    check_energy(energy)
    return _back(ranks_at(_shares(matrix, centre_rows).square(), energy), matrix)


def effective_rank(matrix: Array, *, centre_rows: bool = False) -> Array:
    """Exp of the entropy of the normalised singular values (Roy and Vetterli, 2007), (...)."""
    s = _shares(matrix, centre_rows)
    share = s / s.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    entropy = torch.special.entr(share).sum(-1)
    return _back(torch.where(s[..., 0] > 0, entropy.exp(), 0.0), matrix)


def stable_rank(matrix: Array, *, centre_rows: bool = False) -> Array:
    """`|A|_F^2 / |A|_2^2`, (...): never above the rank, and unmoved by small noise."""
    return _back(_shares(matrix, centre_rows).square().sum(-1), matrix)


def energies(q: torch.Tensor, *, centre_rows: bool = False) -> torch.Tensor:
    """Squared singular values (..., min(B, A)) of (..., B, A), descending, float64.

    They are the eigenvalues of the Gram matrix of the shorter side, which takes less than half the
    time of singular values. Rounding counts as 0: singular values under about 1e-7 of the largest, which is also
    the precision of a network's float32. Centring removes the values and leaves their rounding, so with it
    singular values under `ROUNDING` of the norm before centring are 0 too: equal actions have rank 0.
    """
    q = q.detach().cpu().double()
    noise = torch.zeros((), dtype=torch.float64)
    if centre_rows:
        noise = (ROUNDING * torch.linalg.matrix_norm(q)[..., None]).square()
        q = q - q.mean(-1, keepdim=True)
    top = q.abs().amax((-2, -1), keepdim=True)
    q = q / torch.where(top > 0, top, 1.0)
    gram = q.mT @ q if q.shape[-1] <= q.shape[-2] else q @ q.mT
    squares = torch.linalg.eigvalsh(gram).flip(-1)
    rounding = max(q.shape[-2:]) * torch.finfo(torch.float64).eps * squares[..., :1]
    found = torch.where(squares > rounding, squares, 0.0) * top[..., 0].square()
    return torch.where(found > noise, found, 0.0)


def ranks_at(squares: torch.Tensor, energy: float) -> torch.Tensor:
    """Approximate ranks (...), int64, from squared singular values (..., n), descending; 0 for a zero matrix."""
    check_energy(energy)
    # Summed from the smallest up: the tail that may be dropped, free of cancellation against the head.
    tail = squares.flip(-1).cumsum(-1).flip(-1)
    return (tail > (1.0 - energy) * tail[..., :1]).sum(-1)


def check_energy(energy: float) -> None:
    """Raise ValueError unless `energy` is a share in (0, 1]."""
    if not 0.0 < energy <= 1.0:
        raise ValueError(f"The energy is a share in (0, 1], got {energy}.")


def _spectrum(matrix: Array, centre_rows: bool) -> torch.Tensor:
    a = as_floating(matrix, "matrix")
    if a.ndim < 2 or 0 in a.shape:
        raise ValueError(f"A rank needs matrices (..., m, n) with m, n >= 1, got shape {tuple(a.shape)}.")
    if not bool(torch.isfinite(a).all()):
        raise ValueError("A rank needs finite entries, got NaN or infinity. Complete the matrix first.")
    if centre_rows:
        a = a - a.mean(-1, keepdim=True)
    return torch.linalg.svdvals(a)


def _shares(matrix: Array, centre_rows: bool) -> torch.Tensor:
    """Singular values over the largest, in float64, so that squares stay in range; 0 for a zero matrix."""
    s = _spectrum(matrix, centre_rows).double()
    top = s[..., :1]
    return torch.where(top > 0, s / torch.where(top > 0, top, 1.0), 0.0)


def _back(tensor: torch.Tensor, given: Array) -> Array:
    return like(tensor, isinstance(given, np.ndarray))
