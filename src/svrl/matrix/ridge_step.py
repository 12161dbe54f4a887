"""One half of ridge alternating least squares: all rows, or all columns, in a few products.

For fixed right factors B (n, r), row i of the left factor solves

    (B' diag(mask_i) B + ridge I) a_i = B' (mask_i * x_i).

The matrices on the left are, for all rows at once, one product of the mask (m, n) with the n
vectors b_j b_j', kept as their r (r + 1) / 2 upper entries; the right-hand sides are values @ B.
The mask becomes numbers one block of rows at a time, so no second copy of a large matrix exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch

_BLOCK_ENTRIES = 1 << 23
"""Mask entries turned into numbers at a time: 32 MB in float32."""


def solve_rows(values: torch.Tensor, mask: torch.Tensor, right: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """The best left factor (B, m, r) for values, mask (B, m, n), right (B, n, r), ridge (B,)."""
    squares = _outer_products(right)
    parts = []
    for rows in _blocks(mask):
        grams = mask[:, rows].to(values.dtype) @ squares
        parts.append(_solve(grams, values[:, rows] @ right, ridge))
    return torch.cat(parts, 1) if len(parts) > 1 else parts[0]


def solve_columns(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """The best right factor (B, n, r) for values, mask (B, m, n), left (B, m, r), ridge (B,)."""
    squares = _outer_products(left)
    grams = sum(mask[:, rows].to(values.dtype).mT @ squares[:, rows] for rows in _blocks(mask))
    assert isinstance(grams, torch.Tensor)
    return _solve(grams, values.mT @ left, ridge)


def residual(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """P(X - left right') as a dense (B, m, n), zero where unobserved."""
    return torch.baddbmm(values, left, right.mT, alpha=-1).mul_(mask)


def squared_residual(values: torch.Tensor, mask: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|P(X - left right')|_F^2 (B,), block by block, in float64 where it is summed up."""
    total = torch.zeros(values.shape[0], dtype=torch.float64, device=values.device)
    for rows in _blocks(mask):
        part = residual(values[:, rows], mask[:, rows], left[:, rows], right)
        total += part.square().sum(-1).double().sum(-1)
    return total


def _blocks(mask: torch.Tensor) -> Iterator[slice]:
    batch, m, n = mask.shape
    step = max(1, min(m, _BLOCK_ENTRIES // (batch * n)))
    return (slice(low, min(low + step, m)) for low in range(0, m, step))


@lru_cache(maxsize=64)
def _upper(rank: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row and column of each kept upper entry, and the map (r, r) back from them."""
    row, column = torch.triu_indices(rank, rank, device=device)
    back = torch.empty(rank, rank, dtype=torch.int64, device=device)
    back[row, column] = back[column, row] = torch.arange(len(row), device=device)
    return row, column, back


def _outer_products(factor: torch.Tensor) -> torch.Tensor:
    row, column, _ = _upper(factor.shape[-1], factor.device)
    return factor[..., row] * factor[..., column]


def _solve(grams: torch.Tensor, targets: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
    """Solve (gram + ridge I) a = target for packed grams (B, k, r (r + 1) / 2) and targets (B, k, r).

    A ridge below the rounding of the gram would leave it indefinite; it is raised to that.
    """
    rank = targets.shape[-1]
    back = _upper(rank, targets.device)[2]
    matrices = grams[..., back.reshape(-1)].reshape(*targets.shape, rank)
    diagonal = matrices.diagonal(dim1=-2, dim2=-1)
    rounding = 2.0 * torch.finfo(targets.dtype).eps * diagonal.sum(-1, keepdim=True)
    diagonal.add_(torch.maximum(ridge[:, None, None], rounding))
    root = torch.linalg.cholesky_ex(matrices)[0]
    return torch.cholesky_solve(targets.unsqueeze(-1), root).squeeze(-1)
