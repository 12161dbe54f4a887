"""Matrix estimation against fancyimpute and scikit-learn; on a GPU against the same machine's CPU.

small    32 x 18, 90% observed, shrinkage of 1/50 of the largest singular value, float32: the shape of SV-RL's
         targets. Both have fancyimpute's stopping rule (relative change of the missing entries below 1e-3, at most
         100 steps). Ours is timed from NumPy values and mask to the completed NumPy matrix, checks included.
large    2500 x 1000 (quick: 600 x 300), rank 8 plus noise, 20% observed. How long until the objective where
         fancyimpute stops? It runs with its defaults; our certificate measures the objective of its minimiser. Ours
         is run from scratch with 1, 2, 3, ... steps, and the time is that of the first run that reaches it.
table    600 x 300 (quick: 200 x 60), the same, against scikit-learn's imputers, which fill a table by neighbouring
         rows or by regressions and know nothing of low rank; errors on the hidden entries are beside the times.
GPU      small ones in batches against fancyimpute; 2500 x 1000 and 10000 x 4000 against the CPU, best of 5 calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.authors import fancy_soft_impute
from benchmarks.rows import Parts, Row, device_name, median_seconds, peer, seconds, wait
from svrl.matrix import Estimate, Estimator, FactorALS, Observed, SoftImpute
from svrl.matrix.certificate import largest_singular_value, objective, shrink_singular_values

ROWS, COLUMNS, SHARE, BATCH = 32, 18, 0.9, 32
OURS = SoftImpute(tolerance=1e-3, max_steps=100, output="fill")
EXACT = SoftImpute(tolerance=1e-10, max_steps=20_000, output="fill")
FAMILIES = ("value + rank-3 advantage + noise", "value-dominated", "exact rank 4", "Gaussian")
MOST_STEPS = 200


def parts(quick: bool, device: torch.device) -> Parts:
    """Small matrices, a large one and a table; on a GPU small and large ones."""
    if device.type == "cuda":
        counts = (32,) if quick else (32, 132, 1056)
        shapes = ((600, 300),) if quick else ((2500, 1000), (10_000, 4_000))
        return {
            "batches of small matrices against fancyimpute": partial(measure_batches, counts, device),
            "large matrices against the CPU": partial(measure_against_cpu, shapes, device),
        }
    return {
        "small matrices against fancyimpute": partial(measure_small, 5 if quick else 50),
        "a large matrix against fancyimpute": partial(measure_large, *((600, 300) if quick else (2500, 1000))),
        "a table against scikit-learn": partial(measure_table, *((200, 60) if quick else (600, 300))),
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


def measure_small(count: int) -> Iterator[Row]:
    """Rows for every family: single calls and a batch."""
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        values = np.stack([draw_matrix(family, rng) for _ in range(max(count, BATCH))])
        mask = rng.random(values.shape) < SHARE
        holes = np.where(mask, values, np.float32(np.nan))
        complete(values[:BATCH], mask[:BATCH])  # compile both paths
        complete(values[0], mask[0])
        pairs = [(partial(complete, values[k], mask[k]), partial(fancy_soft_impute, holes[k])) for k in range(count)]
        ours, theirs = (1e6 * time for time in median_seconds(pairs, repeats=5))
        yield Row(
            name=f"32x18 one matrix, {family}",
            unit="us",
            ours=ours,
            peer=theirs,
            peer_name="fancyimpute",
            note=_distances(values[:count], mask[:count], holes[:count]),
        )
        together = (
            partial(complete, values[:BATCH], mask[:BATCH]),
            lambda holes=holes: [fancy_soft_impute(one) for one in holes[:BATCH]],
        )
        ours, theirs = (1e6 * time / BATCH for time in median_seconds([together] * (5 if count >= BATCH else 1)))
        yield Row(name=f"32x18 in a batch of 32, {family}", unit="us", ours=ours, peer=theirs, peer_name="fancyimpute")


def complete(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Ours, checks included."""
    return np.asarray(OURS(Observed(values=values, mask=mask, allow_empty=True)).matrix)


def _distances(values: np.ndarray, mask: np.ndarray, holes: np.ndarray) -> dict[str, float]:
    """Median relative distance of each result from the exact minimiser, on the missing entries."""
    ours, theirs = [], []
    for x, seen, nan in zip(values, mask, holes, strict=True):
        exact = np.asarray(EXACT(Observed(values=x.astype(np.float64), mask=seen, allow_empty=True)).matrix)[~seen]
        size = np.linalg.norm(exact)
        ours.append(np.linalg.norm(complete(x, seen)[~seen] - exact) / size)
        theirs.append(np.linalg.norm(fancy_soft_impute(nan)[~seen] - exact) / size)
    return {"ours_distance_to_optimum": float(np.median(ours)), "peer_distance_to_optimum": float(np.median(theirs))}


def measure_large(m: int, n: int) -> Iterator[Row]:
    """Rows for SoftImpute and FactorALS at one size."""
    values, mask = draw_large(m, n, 1e-3)
    observed = Observed(values=values, mask=mask)
    shrinkage = float(largest_singular_value(observed.tensors[0])) / 50
    holes = np.where(mask, values, np.float32(np.nan))
    result: list[np.ndarray] = []
    theirs = seconds(lambda: result.append(fancy_soft_impute(holes)))
    minimiser = shrink_singular_values(torch.from_numpy(result[0]).double(), torch.tensor(shrinkage))[0]
    target = float(objective(observed, minimiser.numpy(), shrinkage))
    solvers: dict[str, Callable[[int], Estimator]] = {
        "SoftImpute": lambda steps: SoftImpute(shrinkage=shrinkage, tolerance=1e-9, max_steps=steps, solver="path"),
        "FactorALS, rank 12": lambda steps: FactorALS(rank=12, ridge=shrinkage, tolerance=1e-9, max_steps=steps),
    }
    FactorALS(rank=2)(Observed(values=values[:200, :200], mask=mask[:200, :200], allow_empty=True))  # warm up
    for name, solver in solvers.items():
        ours, reached, steps = _time_to(target, solver, observed, shrinkage)
        yield Row(
            name=f"{m}x{n} to fancyimpute's objective, {name}",
            unit="s",
            ours=ours,
            peer=theirs,
            peer_name="fancyimpute",
            note={"objective": reached, "peer_objective": target, "steps": steps},
        )


def _time_to(
    target: float, solver: Callable[[int], Estimator], observed: Observed, shrinkage: float
) -> tuple[float, float, int]:
    for steps in range(1, MOST_STEPS + 1):
        found: list[Estimate] = []
        taken = seconds(lambda steps=steps, found=found: found.append(solver(steps)(observed)))  # type: ignore[misc]
        reached = float(objective(observed, found[0].matrix, shrinkage))
        if reached <= target:
            return taken, reached, steps
    raise RuntimeError(f"The objective {target} was not reached in {MOST_STEPS} steps; the last one reached {reached}.")


def measure_table(m: int, n: int) -> Iterator[Row]:
    """Rows for scikit-learn's imputers."""
    peer("sklearn.experimental.enable_iterative_imputer")
    impute = peer("sklearn.impute")
    values, mask = draw_large(m, n, 1e-3)
    holes = np.where(mask, values, np.nan)

    def ours() -> np.ndarray:
        return np.asarray(FactorALS(rank=8)(Observed(values=values, mask=mask)).matrix)

    def error(found: np.ndarray) -> float:
        return float(np.linalg.norm((found - values)[~mask]) / np.linalg.norm(values[~mask]))

    ours()
    taken = min(seconds(ours) for _ in range(3))
    for imputer in (impute.KNNImputer(), impute.IterativeImputer(n_nearest_features=20, random_state=0)):
        result: list[np.ndarray] = []
        theirs = seconds(lambda use=imputer, result=result: result.append(use.fit_transform(holes)))  # type: ignore[misc]
        yield Row(
            name=f"{m}x{n} table, 20% observed, FactorALS(rank=8)",
            unit="s",
            ours=taken,
            peer=theirs,
            peer_name=f"scikit-learn {type(imputer).__name__}",
            note={"ours_error": error(ours()), "peer_error": error(result[0])},
        )


def measure_batches(counts: Sequence[int], device: torch.device) -> Iterator[Row]:
    """Rows for batches of small matrices on a GPU against fancyimpute."""
    rng = np.random.default_rng(0)
    small = np.stack([draw_matrix(FAMILIES[0], rng) for _ in range(BATCH)])
    seen = rng.random(small.shape) < SHARE
    holes = np.where(seen, small, np.float32(np.nan))
    (theirs,) = median_seconds([(partial(fancy_soft_impute, one),) for one in holes])
    for count in counts:
        pick = np.arange(count) % BATCH
        observed = Observed(
            values=torch.from_numpy(small[pick]).to(device), mask=torch.from_numpy(seen[pick]).to(device)
        )

        def launch(observed: Observed = observed) -> None:
            OURS(observed)
            wait(device)

        launch()
        (ours,) = median_seconds([(launch,)] * 5)
        yield Row(
            name=f"32x18 in a batch of {count} on {device_name(device)}",
            unit="us",
            ours=1e6 * ours / count,
            peer=1e6 * theirs,
            peer_name="fancyimpute",
        )


def measure_against_cpu(shapes: Sequence[tuple[int, int]], device: torch.device) -> Iterator[Row]:
    """Rows for large matrices on a GPU against the CPU of this machine."""
    for m, n in shapes:
        values, mask = (torch.from_numpy(part) for part in draw_large(m, n, 1e-4))
        for estimator in (FactorALS(rank=8), SoftImpute(tolerance=1e-4)):
            (ours, here), (theirs, there) = (
                _best_on(on, estimator, values, mask) for on in (device, torch.device("cpu"))
            )
            yield Row(
                name=f"{m}x{n} {estimator!r} on {device_name(device)}",
                unit="s",
                ours=ours,
                peer=theirs,
                peer_name=f"CPU, {torch.get_num_threads()} threads",
                note={"relative_difference": float((here - there).norm() / there.norm())},
            )


def _best_on(
    device: torch.device, estimator: Estimator, values: torch.Tensor, mask: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """Seconds of the best of 5 calls, and the result."""
    observed = Observed(values=values.to(device), mask=mask.to(device))
    found: list[torch.Tensor] = []

    def call() -> None:
        found.append(torch.as_tensor(estimator(observed).matrix))
        wait(device)

    call()
    return min(seconds(call) for _ in range(5)), found[0].cpu()
