"""Leading singular directions by block power iteration, and small algebra on factors.

Everything is batched over (B, m, n) and uses matrix products and thin QR, so it runs at the
speed of a product on any device and never forms an m x m or n x n matrix.
"""

from __future__ import annotations

import torch

DECOMPOSE_UP_TO = 128
"""Shorter side up to which a full decomposition is as cheap. It needs no random start."""


def top_directions(
    matrix: torch.Tensor,
    count: int,
    generator: torch.Generator,
    *,
    guess: torch.Tensor | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 30,
    watch: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Leading singular triplets of (B, m, n), from below.

    Args:
        matrix: (B, m, n).
        count: How many directions; capped at min(m, n).
        generator: Draws the first guess.
        guess: (B, n, k) to start from instead; random directions fill it up to `count`.
        tolerance: Stop when no watched singular value moves by more than this share of the largest.
        max_steps: Most power steps.
        watch: How many leading singular values must settle; by default all.

    Returns:
        Left vectors (B, m, count), singular values (B, count) descending, right vectors (B, n, count).
    """
    batch, m, n = matrix.shape
    count = min(count, m, n)
    if min(m, n) <= DECOMPOSE_UP_TO:
        u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
        return u[..., :count], s[..., :count], vt.mT[..., :count]
    given = 0 if guess is None else min(count, guess.shape[-1])
    block = torch.randn(batch, n, count - given, generator=generator, device=matrix.device, dtype=matrix.dtype)
    if guess is not None and given:
        block = torch.cat([guess[..., :given], block], -1)
    return power_iteration(matrix, torch.linalg.qr(block)[0], max_steps, tolerance, watch)


def power_iteration(
    matrix: torch.Tensor, right: torch.Tensor, max_steps: int, tolerance: float = 0.0, watch: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Like `top_directions` for (..., m, n), from directions `right` (..., n, k); tolerance 0 runs all steps."""
    old = matrix.new_zeros(*matrix.shape[:-2], 1)
    for _ in range(max_steps):
        left = torch.linalg.qr(matrix @ right)[0]
        right, triangle = torch.linalg.qr(matrix.mT @ left)
        if tolerance:
            found = torch.linalg.svdvals(triangle)[..., :watch]
            if bool(((found - old).abs() <= tolerance * found[..., :1]).all()):
                break
            old = found
    u, s, vt = torch.linalg.svd(matrix @ right, full_matrices=False)
    return u, s, right @ vt.mT


def split(u: torch.Tensor, s: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors (..., m, r) and (..., n, r) of u diag(s) v', of equal lengths."""
    root = s.sqrt().unsqueeze(-2)
    return u * root, v * root


def leading_directions(matrix: torch.Tensor, right: torch.Tensor, passes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Left (..., m, k), which carries the lengths, and orthonormal right (..., n, k) after `passes` power steps."""
    u, s, v = power_iteration(matrix, right, passes)
    return u * s.unsqueeze(-2), v


def largest_singular_value_of(matrix: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """|A|_2 of (B, m, n) to about 6 digits without a decomposition, (B,)."""
    return top_directions(matrix, 8, generator, tolerance=1e-7, max_steps=100, watch=1)[1][:, 0]


def balance(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Singular value decomposition U diag(s) V' of left @ right.mT, at the cost of two thin QRs."""
    q, r = torch.linalg.qr(left)
    p, t = torch.linalg.qr(right)
    u, s, vt = torch.linalg.svd(r @ t.mT)
    return q @ u, s, p @ vt.mT


def product_norm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|left @ right.mT|_F (B,), accurate to rounding even when large factors nearly cancel."""
    triangles = (torch.linalg.qr(factor, mode="r")[1] for factor in (left, right))
    return torch.linalg.matrix_norm(next(triangles) @ next(triangles).mT)


def relative_change(new: tuple[torch.Tensor, torch.Tensor], old: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """|Z_new - Z_old|_F / |Z_old|_F (B,) from the factors alone; infinite if the old one is zero."""
    moved = product_norm(torch.cat([new[0], -old[0]], -1), torch.cat([new[1], old[1]], -1))
    size = product_norm(*old)
    return torch.where(moved == 0, 0.0, moved / size)
