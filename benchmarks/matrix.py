"""Matrix estimation against fancyimpute; on a GPU large matrices against the same machine's CPU, too.

small    32 x 18, 90% observed, shrinkage of 1/50 of the largest singular value, float32: the shape of SV-RL's
         targets. Both have fancyimpute's stopping rule (relative change of the missing entries below 1e-3, at most
         100 steps). A call of ours takes one matrix or a batch, from values and mask to the completed matrices, checks
         included, on the CPU from NumPy to NumPy. Microseconds a matrix, medians over inputs.
large    2500 x 1000 (quick: 600 x 300), rank 8 plus noise, 20% observed. How long until the objective where
         fancyimpute stops? It runs with its defaults; our certificate measures the objective of its minimiser. Ours
         is run from scratch with 1, 2, 3, ... steps, and the time is that of the first run that reaches it.
GPU      small ones in batches; 2500 x 1000 and 10000 x 4000 against the CPU, best of 5 calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.authors import fancy_soft_impute
from benchmarks.rows import Parts, Row, device_name, in_turns, median_seconds, timed, wait
from svrl.matrix import Estimator, FactorALS, Observed, SoftImpute
from svrl.matrix.certificate import largest_singular_value, objective, shrink_singular_values

ROWS, COLUMNS, SHARE = 32, 18, 0.9
OURS = SoftImpute(tolerance=1e-3, max_steps=100, output="fill")
EXACT = SoftImpute(tolerance=1e-10, max_steps=20_000, output="fill")
FAMILIES = ("value + rank-3 advantage + noise", "value-dominated", "exact rank 4", "Gaussian")
MOST_STEPS = 200


def parts(quick: bool, device: torch.device) -> Parts:
    """Small matrices and a large one; on a GPU small and large ones."""
    count = 5 if quick else 50
    if device.type == "cuda":
        sizes = (32,) if quick else (32, 132, 1056)
        shapes = ((600, 300),) if quick else ((2500, 1000), (10_000, 4_000))
        return {
            "small matrices against fancyimpute": partial(measure_small, FAMILIES[:1], sizes, count, device),
            "large matrices against the CPU": partial(measure_against_cpu, shapes, device),
        }
    return {
        "small matrices against fancyimpute": partial(measure_small, FAMILIES, (1, 32), count, device),
        "a large matrix against fancyimpute": partial(measure_large, *((600, 300) if quick else (2500, 1000))),
    }


def draw_matrix(family: str, rng: np.random.Generator) -> np.ndarray:
    """One (32, 18) matrix of a family, float32."""
    normal = rng.standard_normal
    if family == FAMILIES[0]:
        matrix = 5 + normal((ROWS, 1)) + 0.3 * normal((ROWS, 3)) @ normal((3, COLUMNS)) + 0.05 * normal((ROWS, COLUMNS))
    elif family == FAMILIES[1]:
        advantage = 0.02 * normal((ROWS, 3)) @ normal((3, COLUMNS))
        matrix = 10 + 3 * normal((ROWS, 1)) + advantage + 0.01 * normal((ROWS, COLUMNS))
    elif family == FAMILIES[2]:
        matrix = normal((ROWS, 4)) @ normal((4, COLUMNS))
    else:
        matrix = normal((ROWS, COLUMNS))
    return matrix.astype(np.float32)


def draw_large(m: int, n: int, noise: float, rank: int = 8, share: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Values (m, n), float32, of low rank plus noise, and a mask."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) + noise * rng.standard_normal((m, n))
    return values.astype(np.float32), rng.random((m, n)) < share


def measure_small(families: Sequence[str], sizes: Sequence[int], count: int, device: torch.device) -> Iterator[Row]:
    """A row for every family and size of a batch; `count` matrices of each family, one after the other."""
    rng = np.random.default_rng(0)
    for family in families:
        matrices = np.stack([draw_matrix(family, rng) for _ in range(count)])
        seen = rng.random(matrices.shape) < SHARE
        holes = np.where(seen, matrices, np.float32(np.nan))
        for size in sizes:
            rounds = []
            for k in range(count):
                pick = k if size == 1 else (k + np.arange(size)) % count
                values, mask = on_device(matrices[pick], device), on_device(seen[pick], device)
                rounds.append((partial(complete, values, mask, device), partial(fancy_soft_impute, holes[k])))
            rounds[0][0]()  # compile
            ours, theirs = median_seconds(rounds, repeats=5)
            yield Row(
                name=f"32x18 {'one matrix' if size == 1 else f'in a batch of {size}'}, {family}, {device_name(device)}",
                unit="us",
                ours=1e6 * ours / size,
                peer=1e6 * theirs,
                peer_name="fancyimpute",
                note=_distances(matrices, seen, holes) if size == 1 else {},
            )


def on_device(array: np.ndarray, device: torch.device) -> np.ndarray | torch.Tensor:
    """NumPy's on the CPU, torch's on a GPU."""
    return array if device.type == "cpu" else torch.from_numpy(array).to(device)


def complete(
    values: np.ndarray | torch.Tensor, mask: np.ndarray | torch.Tensor, device: torch.device
) -> np.ndarray | torch.Tensor:
    """Ours, checks included."""
    matrix = OURS(Observed(values=values, mask=mask, allow_empty=True)).matrix
    wait(device)
    return matrix


def _distances(matrices: np.ndarray, seen: np.ndarray, holes: np.ndarray) -> dict[str, float]:
    """Median relative distance of each result from the exact minimiser, on the missing entries."""
    exact, ours = (
        np.asarray(solver(Observed(values=matrices.astype(kind), mask=seen, allow_empty=True)).matrix)
        for solver, kind in ((EXACT, np.float64), (OURS, np.float32))
    )
    theirs = np.stack([fancy_soft_impute(one) for one in holes])
    size = np.linalg.norm(exact * ~seen, axis=(1, 2))
    return {
        f"{who}_distance_to_optimum": float(np.median(np.linalg.norm((found - exact) * ~seen, axis=(1, 2)) / size))
        for who, found in (("ours", ours), ("peer", theirs))
    }


def measure_large(m: int, n: int) -> Iterator[Row]:
    """Rows for SoftImpute and FactorALS at one size."""
    values, mask = draw_large(m, n, 1e-3)
    observed = Observed(values=values, mask=mask)
    shrinkage = float(largest_singular_value(observed.tensors[0])) / 50
    theirs, filled = timed(partial(fancy_soft_impute, np.where(mask, values, np.float32(np.nan))))
    minimiser = shrink_singular_values(torch.from_numpy(filled).double(), torch.tensor(shrinkage))[0]
    target = float(objective(observed, minimiser.numpy(), shrinkage))
    solvers: dict[str, Callable[[int], Estimator]] = {
        "SoftImpute": lambda steps: SoftImpute(shrinkage=shrinkage, tolerance=1e-9, max_steps=steps, solver="path"),
        "FactorALS, rank 12": lambda steps: FactorALS(rank=12, ridge=shrinkage, tolerance=1e-9, max_steps=steps),
    }
    FactorALS(rank=2)(Observed(values=values[:200, :200], mask=mask[:200, :200], allow_empty=True))  # warm up
    for name, solver in solvers.items():
        for steps in range(1, MOST_STEPS + 1):
            ours, found = timed(partial(solver(steps), observed))
            reached = float(objective(observed, found.matrix, shrinkage))
            if reached <= target:
                break
        else:
            raise RuntimeError(f"{name} did not reach the objective {target} in {MOST_STEPS} steps, but {reached}.")
        yield Row(
            name=f"{m}x{n} to fancyimpute's objective, {name}",
            unit="s",
            ours=ours,
            peer=theirs,
            peer_name="fancyimpute",
            note={"objective": reached, "peer_objective": target, "steps": steps},
        )


def measure_against_cpu(shapes: Sequence[tuple[int, int]], device: torch.device) -> Iterator[Row]:
    """Rows for large matrices on a GPU against the CPU of this machine."""
    for m, n in shapes:
        values, mask = (torch.from_numpy(part) for part in draw_large(m, n, 1e-4))
        here, there = (Observed(values=values.to(on), mask=mask.to(on)) for on in ("cpu", device))
        for estimator in (FactorALS(rank=8), SoftImpute(tolerance=1e-4)):

            def call(observed: Observed, estimator: Estimator = estimator) -> torch.Tensor:
                matrix = torch.as_tensor(estimator(observed).matrix)
                wait(matrix.device)
                return matrix

            calls = partial(call, there), partial(call, here)
            found, wanted = (each().cpu() for each in calls)  # compiles, too
            ours, theirs = in_turns([calls], repeats=5)[0]
            yield Row(
                name=f"{m}x{n} {estimator!r} on {device_name(device)}",
                unit="s",
                ours=float(ours),
                peer=float(theirs),
                peer_name=f"CPU, {torch.get_num_threads()} threads",
                note={"relative_difference": float((found - wanted).norm() / wanted.norm())},
            )
