"""Certificates: how far any matrix is from the minimiser of the Soft-Impute problem.

With P the projection on the observed entries, R = P(X - Z) the residual and t the shrinkage,

    primal(Z) = 1/2 |P(Z - X)|_F^2 + t |Z|_*
    dual(Y)   = <Y, X> - 1/2 |Y|_F^2,   for Y supported on the observed entries with |Y|_2 <= t

Every dual value is below every primal value, so Y = R * min(1, t / |R|_2) bounds how much the
objective of Z can still fall: gap = primal(Z) - dual(Y) >= 0, and 0 only at the minimiser.
The optimality conditions, with Z = U S V' of rank r, are

    |R|_2 <= t,    U' R = t V',    R V = t U.

A certificate does not depend on how Z was found: use it on the result of any solver. The last two conditions
concern the singular vectors of Z. They use singular values above 1e-6 of the largest (1e-5 in float32): what
an iterative solver leaves below that is rounding, and its directions mean nothing. |R|_2 comes from the
smaller Gram matrix in float64, exact to about 1e-8.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from svrl.matrix.arrays import Array, as_floating, as_tensor, like
from svrl.matrix.observed import Observed

NEGLIGIBLE = 1e-6
"""Share of the largest singular value below which a direction is not counted as part of Z."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The distance of a matrix from the minimiser. Each attribute has the batch shape.

    Attributes:
        objective: The primal objective, in squared units of the values.
        dual: The objective of the dual-feasible point; a lower bound for any primal value.
        gap: objective - dual, never negative beyond rounding.
        relative_gap: gap / objective (0 for a zero objective).
        residual_excess: `|R|_2 / shrinkage - 1`; at most 0 at the minimiser.
        left_misfit: `|U' R - t V'|_F / t`, 0 at the minimiser.
        right_misfit: `|R V - t U|_F / t`, 0 at the minimiser.
    """

    objective: Array
    dual: Array
    gap: Array
    relative_gap: Array
    residual_excess: Array
    left_misfit: Array
    right_misfit: Array

    def to_numpy(self) -> Certificate:
        """The same certificate with NumPy arrays."""
        return Certificate(**{f.name: as_tensor(getattr(self, f.name)).numpy() for f in fields(self)})


def largest_singular_value(matrix: torch.Tensor) -> torch.Tensor:
    """|A|_2 of (..., m, n), in float64, from the smaller Gram matrix."""
    a = matrix.double()
    unit = a.abs().amax((-2, -1), keepdim=True)
    a = a / torch.where(unit > 0, unit, 1.0)  # squares stay in range
    gram = a.mT @ a if a.shape[-1] <= a.shape[-2] else a @ a.mT
    return torch.linalg.eigvalsh(gram)[..., -1].clamp(min=0).sqrt() * unit[..., 0, 0]


def shrink_singular_values(matrix: torch.Tensor, shrinkage: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The proximal step: lower every singular value of (..., m, n) by the shrinkage (...).

    Returns:
        The shrunk matrix and its rank (...), int64.
    """
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    kept = (s - shrinkage.to(s).unsqueeze(-1)).clamp_(min=0)
    return (u * kept.unsqueeze(-2)) @ vt, (kept > 0).sum(-1)


def objective(observed: Observed, matrix: Array, shrinkage: float | Array) -> Array:
    """`1/2 |P(Z - X)|_F^2 + shrinkage |Z|_*`, in float64, one number per matrix."""
    z, residual, t = _residual(observed, matrix, shrinkage)
    return like(0.5 * residual.square().sum((-2, -1)) + t * torch.linalg.svdvals(z).sum(-1), observed.numpy)


def dual_point(observed: Observed, matrix: Array, shrinkage: float | Array) -> Array:
    """The dual-feasible Y (..., m, n) built from the residual of `matrix`."""
    _, residual, t = _residual(observed, matrix, shrinkage)
    return like(_dual_point(residual, t, largest_singular_value(residual)), observed.numpy)


def duality_gap(observed: Observed, matrix: Array, shrinkage: float | Array) -> Array:
    """The most by which the objective of `matrix` (..., m, n) can exceed the minimum."""
    return certify(observed, matrix, shrinkage).gap


def certify(observed: Observed, matrix: Array, shrinkage: float | Array) -> Certificate:
    """Compare `matrix` (..., m, n) with the minimiser at this shrinkage, one number or one per matrix."""
    z, residual, t = _residual(observed, matrix, shrinkage)
    values = observed.tensors[0].double()
    top = largest_singular_value(residual)
    y = _dual_point(residual, t, top)
    u, s, vt = torch.linalg.svd(z, full_matrices=False)
    primal = 0.5 * residual.square().sum((-2, -1)) + t * s.sum(-1)
    dual = (y * values).sum((-2, -1)) - 0.5 * y.square().sum((-2, -1))
    gap = primal - dual
    rounding = torch.finfo(as_floating(matrix, "matrix").dtype).eps
    live = (s > max(NEGLIGIBLE, 100 * rounding) * s[..., :1].clamp(min=1e-300)).unsqueeze(-2)
    u, v, level = u * live, vt.mT * live, t[..., None, None]
    certificate = Certificate(
        objective=primal,
        dual=dual,
        gap=gap,
        relative_gap=torch.where(primal > 0, gap / primal, torch.zeros_like(gap)),
        residual_excess=top / t - 1,
        left_misfit=torch.linalg.matrix_norm(u.mT @ residual - level * v.mT) / t,
        right_misfit=torch.linalg.matrix_norm(residual @ v - level * u) / t,
    )
    return certificate.to_numpy() if observed.numpy else certificate


def _residual(
    observed: Observed, matrix: Array, shrinkage: float | Array
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Z, R = P(X - Z) and the shrinkage with the batch shape, all in float64."""
    values, mask = observed.tensors
    z = as_floating(matrix, "matrix").double()
    if z.shape != values.shape:
        raise ValueError(f"The matrix has shape {tuple(z.shape)} but the observed one has {tuple(values.shape)}.")
    t = torch.as_tensor(shrinkage, dtype=torch.float64, device=z.device).expand(z.shape[:-2])
    if bool((t <= 0).any()):
        raise ValueError(f"A certificate needs a shrinkage above 0, got {float(t.min())}.")
    return z, (values.double() - z).masked_fill(~mask, 0), t


def _dual_point(residual: torch.Tensor, t: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    return residual * (t / top.clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1)[..., None, None]
