"""The values of one fixed policy: v = r + discount * P v, by repeated backups or as a linear system.

A residual bounds the error: with d = r + discount * P v - v, |v - V_pi| <= max |d| / (1 - discount).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from svrl.mdp.model import Chain

Solver = Literal["direct", "krylov"]
ROUNDING = 64 * torch.finfo(torch.float64).eps
"""How far two computations of the same backup may be apart, relative to the largest value."""
PATIENCE = 2000
"""Sweeps that are quicker than setting up a linear solver."""


def sweeps(chain: Chain, v: Tensor, count: int) -> Tensor:
    """`count` backups under the policy, from the values v (S,); v is left as it is."""
    if v.device.type != "cpu":
        for _ in range(count):
            v = chain.backup(v)
        return v
    from svrl.planning.chain_kernel import sweep

    p = chain.transitions
    table = p.crow_indices().numpy(), p.col_indices().numpy(), p.values().numpy(), chain.reward.numpy()
    first = v.to(torch.float64).numpy().copy()
    return torch.from_numpy(sweep(*table, chain.discount, first, np.empty_like(first), count))


def residual_of(chain: Chain, v: Tensor) -> float:
    """The largest |backup - v|."""
    return float((sweeps(chain, v, 1) - v).abs().max())


def linear_solution(chain: Chain, solver: Solver, start: Tensor) -> tuple[Tensor, int]:
    """Solve (I - discount * P) v = r on the CPU; returns v (S,) and how often P was read.

    "direct" factorises (SciPy's SuperLU), which fills in on grids of three and more dimensions. "krylov" is
    BiCGSTAB from `start`; if it fails, what it found is returned all the same, or `start` if that is better.
    """
    transitions = chain.transitions.cpu()
    parts = transitions.values().numpy(), transitions.col_indices().numpy(), transitions.crow_indices().numpy()
    matrix = scipy.sparse.csr_array(parts, shape=tuple(transitions.shape))
    system = scipy.sparse.eye_array(len(matrix.indptr) - 1, format="csr") - chain.discount * matrix
    reward = chain.reward.cpu().numpy()
    v, reads = _SOLVERS[solver](system, reward, start.cpu().numpy())
    found = torch.from_numpy(v).to(start.device)
    better = bool(torch.isfinite(found).all()) and residual_of(chain, found) <= residual_of(chain, start)
    return (found if better else start), reads


def _direct(system: scipy.sparse.csr_array, reward: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, int]:
    from scipy.sparse.linalg import splu

    return splu(scipy.sparse.csc_matrix(system)).solve(reward), 1


def _krylov(system: scipy.sparse.csr_array, reward: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, int]:
    from scipy.sparse.linalg import bicgstab

    steps: list[None] = []
    v, _ = bicgstab(system, reward, x0=start, rtol=1e-14, maxiter=1000, callback=lambda _: steps.append(None))
    return v, 2 * len(steps)


_SOLVERS = {"direct": _direct, "krylov": _krylov}


def chain_values(
    chain: Chain, start: Tensor, residual: float, solver: Solver | None = None
) -> tuple[Tensor, float, int]:
    """Values of a policy down to a residual, or as near to it as rounding lets.

    Args:
        chain: Of the policy.
        start: Values to begin with, (S,), float64.
        residual: What to reach.
        solver: What to begin with; None sweeps, unless that takes long.

    Returns:
        Values (S,), their residual, and how often the transitions were read.
    """
    v, reads, last = start, 1, residual_of(chain, start)
    slow = last > residual and math.log(residual / last) / math.log(chain.discount) > PATIENCE
    if solver is not None or slow:
        v, reads = linear_solution(chain, solver or "krylov", start)
        last = residual_of(chain, v)
    # A residual shrinks by the discount in each sweep: what is not halved by so many of them is rounding.
    many = max(100, math.ceil(math.log(0.5) / math.log(chain.discount)))
    while last > residual:
        v = sweeps(chain, v, many)
        now = residual_of(chain, v)
        reads += many + 1
        if not now <= 0.75 * last:
            return v, now, reads
        last = now
    return v, last, reads
