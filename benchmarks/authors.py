"""The authors' estimator: fancyimpute's SoftImpute, called the way the authors' program calls it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.rows import peer


@functools.cache
def _fancyimpute() -> Any:
    """fancyimpute's SoftImpute class, made to run with today's scikit-learn.

    fancyimpute 0.7.0, its last release, calls `check_array(force_all_finite=...)`, an argument that
    scikit-learn renamed to `ensure_all_finite` and dropped in 1.8. The wrapper translates it and
    touches nothing else.
    """
    validation = peer("sklearn.utils")
    check_array: Callable[..., Any] = validation.check_array

    @functools.wraps(check_array)
    def translated(*args: Any, force_all_finite: Any = None, **kwargs: Any) -> Any:
        if force_all_finite is not None:
            kwargs["ensure_all_finite"] = force_all_finite
        return check_array(*args, **kwargs)

    validation.check_array = translated
    try:
        return peer("fancyimpute").SoftImpute
    finally:
        validation.check_array = check_array


def fancy_soft_impute(
    matrix: np.ndarray, *, shrinkage: float | None = None, tolerance: float = 1e-3, max_steps: int = 100
) -> np.ndarray:
    """fancyimpute's SoftImpute on a matrix (m, n) with NaN for missing; its defaults are the authors' settings."""
    solver = _fancyimpute()(
        shrinkage_value=shrinkage, convergence_threshold=tolerance, max_iters=max_steps, verbose=False
    )
    result: np.ndarray = solver.fit_transform(matrix)
    return result


def complete_values(q: np.ndarray, rng: np.random.Generator, p: float = 0.9) -> np.ndarray:
    """The target values (B, A) of SV-RL as the authors' program makes them, on the host and in q's units.

    Scaled to [-1, 1] by the smallest and the largest entry, each entry observed with probability `p`, the others
    filled in, clipped, and scaled back.
    """
    low, high = q.min(), q.max()
    hidden = rng.random(q.shape) >= p
    if low == high or not hidden.any():
        return q  # scaling would divide by zero, or there is nothing to fill in
    filled = fancy_soft_impute(np.where(hidden, np.nan, 2 * (q - low) / (high - low) - 1))
    return ((np.clip(filled, -1, 1) + 1) / 2 * (high - low) + low).astype(q.dtype)


def complete_targets(network: nn.Module, seed: int = 0) -> None:
    """What a target network says goes to the host, through `complete_values`, and back from now on."""
    rng = np.random.default_rng(seed)

    def hook(_: nn.Module, __: Any, q: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(complete_values(q.detach().cpu().numpy(), rng)).to(q.device)

    network.register_forward_hook(hook)
