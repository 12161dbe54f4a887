"""A large matrix: how long until the objective where fancyimpute stops?

Rank 8 plus noise, 20% observed, shrinkage of 1/50 of the largest singular value. fancyimpute runs
with its defaults; our certificate measures the objective of its minimiser. Ours is then run from
scratch with 1, 2, 3, ... steps, and the time is that of the first run that reaches that objective.
Checking the input, a few milliseconds here, is not part of ours; reading NaN is part of the peer's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from svrl.benchmarks.peers import fancy_soft_impute
from svrl.benchmarks.rows import Row, seconds
from svrl.matrix import Estimator, FactorALS, Observed, SoftImpute
from svrl.matrix.certificate import largest_singular_value, objective, shrink_singular_values

RANK, SHARE, RATIO = 8, 0.2, 1 / 50
FACTORS = 12
MOST_STEPS = 200


def draw_problem(m: int, n: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (m, n), float32, of rank 8 plus noise, and a mask with 20% True."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n))
    values += noise * rng.standard_normal((m, n))
    return values.astype(np.float32), rng.random((m, n)) < SHARE


def measure_large(m: int, n: int, seed: int) -> Iterator[Row]:
    """Rows for SoftImpute and FactorALS at one size."""
    values, mask = draw_problem(m, n, 1e-3, seed)
    observed = Observed(values=values, mask=mask)
    shrinkage = RATIO * float(largest_singular_value(observed.tensors[0]))
    holes = np.where(mask, values, np.float32(np.nan))
    result: list[np.ndarray] = []
    peer = seconds(lambda: result.append(fancy_soft_impute(holes)))
    minimiser = shrink_singular_values(torch.from_numpy(result[0]).double(), torch.tensor(shrinkage))[0]
    target = float(objective(observed, minimiser.numpy(), shrinkage))
    solvers: dict[str, Callable[[int], Estimator]] = {
        "SoftImpute": lambda steps: SoftImpute(shrinkage=shrinkage, tolerance=1e-9, max_steps=steps, solver="path"),
        f"FactorALS, rank {FACTORS}": lambda steps: FactorALS(
            rank=FACTORS, ridge=shrinkage, tolerance=1e-9, max_steps=steps
        ),
    }
    FactorALS(rank=2)(Observed(values=values[:200, :200], mask=mask[:200, :200], allow_empty=True))  # warm up
    for name, solver in solvers.items():
        ours, reached, steps = _time_to(target, solver, observed, shrinkage)
        yield Row(
            name=f"{m}x{n} to fancyimpute's objective, {name}",
            unit="s",
            ours=ours,
            peer=peer,
            peer_name="fancyimpute",
            note={"objective": reached, "peer_objective": target, "steps": steps},
        )


def _time_to(
    target: float, solver: Callable[[int], Estimator], observed: Observed, shrinkage: float
) -> tuple[float, float, int]:
    for steps in range(1, MOST_STEPS + 1):
        estimator = solver(steps)
        began = time.perf_counter()
        estimate = estimator(observed)
        taken = time.perf_counter() - began
        reached = float(objective(observed, estimate.matrix, shrinkage))
        if reached <= target:
            return taken, reached, steps
    raise RuntimeError(f"The objective {target} was not reached in {MOST_STEPS} steps; the best was {reached}.")
