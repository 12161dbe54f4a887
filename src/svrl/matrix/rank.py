"""How low-rank is a matrix? Several answers, all batched over leading axes.

The paper's approximate rank is the number of singular values that carry 99% of the sum of their
squares. A Q matrix has a large mean, and the mean alone often carries more than 99%: always look
at a tighter energy and at the row-centred matrix (the advantages) too.
"""

from __future__ import annotations

import numpy as np
import torch

from svrl.matrix.arrays import Array, as_floating, like

PAPER_ENERGY = 0.99


def spectrum(matrix: Array, *, centre_rows: bool = False) -> Array:
    """Singular values (..., min(m, n)) of (..., m, n), descending.

    Args:
        matrix: (..., m, n), finite.
        centre_rows: Take each row's mean out first: the spectrum of the advantage, not of the value.
    """
    return _back(_spectrum(matrix, centre_rows), matrix)


def approximate_rank(matrix: Array, *, energy: float = PAPER_ENERGY, centre_rows: bool = False) -> Array:
    """The fewest singular values whose squares sum to at least `energy` of the total.

    Args:
        matrix: (..., m, n), finite.
        energy: Share in (0, 1]; the paper's is 0.99. An energy of 1 counts all nonzero values.
        centre_rows: Take each row's mean out first.

    Returns:
        (...), int64; 0 for a zero matrix.
    """
    if not 0 < energy <= 1:
        raise ValueError(f"The energy is a share in (0, 1], got {energy}.")
    squares = _shares(matrix, centre_rows).square()
    # Summed from the smallest up: the tail that may be dropped, free of cancellation against the head.
    tail = squares.flip(-1).cumsum(-1).flip(-1)
    allowed = (1 - energy) * tail[..., :1]
    return _back((tail > allowed).sum(-1), matrix)


def effective_rank(matrix: Array, *, centre_rows: bool = False) -> Array:
    """Exp of the entropy of the normalised singular values (Roy and Vetterli, 2007), (...)."""
    s = _shares(matrix, centre_rows)
    share = s / s.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    entropy = torch.special.entr(share).sum(-1)
    return _back(torch.where(s[..., 0] > 0, entropy.exp(), 0.0), matrix)


def stable_rank(matrix: Array, *, centre_rows: bool = False) -> Array:
    """`|A|_F^2 / |A|_2^2`, (...): never above the rank, and unmoved by small noise."""
    return _back(_shares(matrix, centre_rows).square().sum(-1), matrix)


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
