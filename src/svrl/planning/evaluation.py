"""The values of one fixed policy, v = r + gamma * P v, and the loss of the policy.

A residual bounds the error: with d = r + gamma * P v - v, |v - V_pi| <= max |d| / (1 - gamma). Values come from
repeated backups, or from the linear system where backups would take long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from svrl.mdp.model import MarkovRewardProcess, Model, check_policy, check_problem
from svrl.mdp.tabular import COMPILE
from svrl.runtime.kernels import njit

Solver = Literal["direct", "krylov"]
ROUNDING = 64 * torch.finfo(torch.float64).eps
"""Two computations of the same backup may differ by this much, relative to the largest value."""
PATIENCE = 2000
"""Up to this many sweeps are quicker than a linear solver."""


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    """The loss of a policy, V* - V_policy.

    Attributes:
        mean: Mean loss over all states.
        relative: Mean loss divided by the range of V*, max V* - min V*.
        worst: Loss in the worst state.
    """

    mean: float
    relative: float
    worst: float


def evaluate_policy(model: Model, policy: Tensor, tolerance: float = 1e-9) -> Tensor:
    """Compute the values (S,), float64, of a policy (S,), each with an error of at most the tolerance.

    The bound on the error is max |T_policy V - V| / (1 - gamma).

    Raises:
        ValueError: If rounding keeps the residual from becoming that small.
    """
    check_problem("evaluate_policy", model, Model)
    policy = torch.as_tensor(policy).to(model.device)
    check_policy(model, policy)
    chain = model.policy_chain(policy.to(torch.int64))
    target = tolerance * (1.0 - model.gamma)
    v, left, _ = chain_values(chain, torch.zeros_like(chain.reward), target)
    factor = 1.0 / (1.0 - model.gamma)
    check_reached(tolerance, factor * left, v, factor)
    return v


def check_reached(tolerance: float, error: float, v: Tensor, factor: float) -> None:
    """Raise ValueError if the error may exceed the tolerance. It is at least `factor` times the rounding of v."""
    reached = max(error, factor * torch.finfo(torch.float64).eps * float(v.abs().max()))
    if not reached <= tolerance:
        raise ValueError(
            f"Because of rounding, the values are not certain to be within {tolerance:g}; the error bound is "
            f"{reached:.2g}. Set a tolerance above that."
        )


def policy_loss(v_star: Tensor, v_policy: Tensor) -> PolicyLoss:
    """Compare the values of a policy (S,) with the optimal values (S,)."""
    v_star, v_policy = torch.as_tensor(v_star), torch.as_tensor(v_policy)
    if v_star.shape != v_policy.shape or v_star.ndim != 1:
        raise ValueError(
            f"A loss compares two lists of values of the same states, got shapes {tuple(v_star.shape)} "
            f"and {tuple(v_policy.shape)}."
        )
    loss = v_star.to(torch.float64) - v_policy.to(v_star.device, torch.float64)
    mean = float(loss.mean())
    width = float(v_star.max() - v_star.min())
    relative = mean / width if width > 0.0 else float("inf") * mean if mean else 0.0
    return PolicyLoss(mean=mean, relative=relative, worst=float(loss.max()))


@njit(**COMPILE)
def _sweep(indptr, indices, data, reward, gamma, v, other, count):  # type: ignore[no-untyped-def]
    """v = reward + gamma * P v, `count` times; writes to both v and other, (S,), and returns one of them."""
    for _ in range(count):
        for s in range(len(reward)):
            total = 0.0
            # Unsigned: numba tests signed indices for counting from the end, which costs half of the time.
            for k in range(np.uintp(indptr[s]), np.uintp(indptr[s + 1])):
                total += data[k] * v[np.uintp(indices[k])]
            other[s] = reward[s] + gamma * total
        v, other = other, v
    return v


def sweeps(chain: MarkovRewardProcess, v: Tensor, count: int) -> Tensor:
    """Back up the values v (S,) `count` times under the policy; v itself does not change."""
    if v.device.type != "cpu":
        for _ in range(count):
            v = chain.backup(v)
        return v
    p = chain.transitions
    table = p.crow_indices().numpy(), p.col_indices().numpy(), p.values().numpy(), chain.reward.numpy()
    first = v.to(torch.float64).numpy().copy()
    return torch.from_numpy(_sweep(*table, chain.gamma, first, np.empty_like(first), count))


def residual_of(chain: MarkovRewardProcess, v: Tensor) -> float:
    """The largest |backup - v|."""
    return float((sweeps(chain, v, 1) - v).abs().max())


def linear_solution(chain: MarkovRewardProcess, solver: Solver, start: Tensor) -> tuple[Tensor, int]:
    """Solve (I - gamma * P) v = r on the CPU; return v (S,) and how often P was read.

    "direct" factorises (SciPy's SuperLU), which fills in on grids of three and more dimensions. "krylov" is BiCGSTAB
    from `start`. The function returns `start` if that is better than the solver's result.
    """
    from scipy.sparse.linalg import bicgstab, splu

    transitions = chain.transitions.cpu()
    parts = transitions.values().numpy(), transitions.col_indices().numpy(), transitions.crow_indices().numpy()
    matrix = scipy.sparse.csr_array(parts, shape=tuple(transitions.shape))
    system = scipy.sparse.eye_array(len(matrix.indptr) - 1, format="csr") - chain.gamma * matrix
    reward, first = chain.reward.cpu().numpy(), start.cpu().numpy()
    if solver == "direct":
        v, reads = splu(system.tocsc()).solve(reward), 1
    else:
        steps: list[None] = []
        v, _ = bicgstab(system, reward, x0=first, rtol=1e-14, maxiter=1000, callback=lambda _: steps.append(None))
        reads = 2 * len(steps)
    found = torch.from_numpy(v).to(start.device)
    better = bool(torch.isfinite(found).all()) and residual_of(chain, found) <= residual_of(chain, start)
    return (found if better else start), reads


def chain_values(
    chain: MarkovRewardProcess, start: Tensor, residual: float, solver: Solver | None = None
) -> tuple[Tensor, float, int]:
    """Compute the values of a policy to a residual, or as near to it as rounding allows, from `start` (S,).

    Without a solver it sweeps, unless that takes long. Returns values (S,), their residual, and how often the
    transitions were read.
    """
    v, reads, last = start, 1, residual_of(chain, start)
    slow = last > residual and math.log(residual / last) / math.log(chain.gamma) > PATIENCE
    if solver is not None or slow:
        v, reads = linear_solution(chain, solver or "krylov", start)
        last = residual_of(chain, v)
    # Each sweep shrinks a residual by the discount. If this many sweeps do not halve it, it is rounding.
    many = max(100, math.ceil(math.log(0.5) / math.log(chain.gamma)))
    while last > residual:
        v = sweeps(chain, v, many)
        now = residual_of(chain, v)
        reads += many + 1
        if not now <= 0.75 * last:
            return v, now, reads
        last = now
    return v, last, reads
