"""Policies from some entries of a converged Q: the paper's appendix C.

The matrix Q* is planned in full; then a share of its entries is kept, the others are recovered by
matrix estimation, and the recovered matrix is followed greedily. If its policy is as good as the
optimal one, the structure was in Q*.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.matrix import Bernoulli, Estimate, Estimator, Observed, SoftImpute


@dataclass(frozen=True, kw_only=True)
class LowRankPolicy:
    """A policy from a recovered Q.

    Attributes:
        policy: Actions (S,), int64.
        q: The recovered matrix (S, A).
        estimate: How it was recovered.
        observe: Share of the entries that was kept.
    """

    policy: Tensor
    q: Tensor
    estimate: Estimate
    observe: float


def low_rank_policy(
    q: Tensor, generator: torch.Generator, *, observe: float = 0.5, estimator: Estimator | None = None
) -> LowRankPolicy:
    """Keep each entry of q (S, A) with probability `observe`, recover the rest, and act greedily.

    The default estimator is the authors' rule for Soft-Impute, solved to its optimum.
    """
    q = torch.as_tensor(q)
    if estimator is None:
        estimator = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill")
    mask = Bernoulli(p=observe).mask(tuple(q.shape), generator, q.device)
    estimate = estimator(Observed(values=q.float(), mask=mask), generator=generator)
    recovered = torch.as_tensor(estimate.matrix)
    return LowRankPolicy(policy=recovered.argmax(1), q=recovered, estimate=estimate, observe=observe)
