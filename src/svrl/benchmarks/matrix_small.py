"""Small matrices, one at a time and in batches of 32: the shape of SV-RL's targets.

32 x 18, 90% observed, shrinkage of 1/50 of the largest singular value, float32, fancyimpute's own
stopping rule for both (relative change of the missing entries below 1e-3, at most 100 steps).
Ours is timed from NumPy values and mask to the completed NumPy matrix, checks included.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np

from svrl.benchmarks.peers import fancy_soft_impute
from svrl.benchmarks.rows import Row, median_seconds
from svrl.matrix import Observed, SoftImpute

ROWS, COLUMNS, SHARE, BATCH = 32, 18, 0.9, 32
OURS = SoftImpute(tolerance=1e-3, max_steps=100, output="fill")
EXACT = SoftImpute(tolerance=1e-10, max_steps=20_000, output="fill")

FAMILIES = ("value + rank-3 advantage + noise", "value-dominated", "exact rank 4", "Gaussian")


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


def measure_small(count: int, seed: int) -> Iterator[Row]:
    """Rows for every family: single calls, their median ratio, and a batch."""
    rng = np.random.default_rng(seed)
    ratios = []
    for family in FAMILIES:
        values = np.stack([draw_matrix(family, rng) for _ in range(max(count, BATCH))])
        mask = rng.random(values.shape) < SHARE
        holes = np.where(mask, values, np.float32(np.nan))
        _complete(values[:BATCH], mask[:BATCH])  # compile both paths
        _complete(values[0], mask[0])
        pairs = [(partial(_complete, values[k], mask[k]), partial(fancy_soft_impute, holes[k])) for k in range(count)]
        ours, peer = median_seconds(pairs, repeats=5)
        note = _distances(values[:count], mask[:count], holes[:count])
        single = Row(
            name=f"32x18 one matrix, {family}",
            unit="us",
            ours=1e6 * ours,
            peer=1e6 * peer,
            peer_name="fancyimpute",
            note=note,
        )
        ratios.append(single.ratio)
        yield single
        together = (partial(_complete, values[:BATCH], mask[:BATCH]), partial(_one_by_one, holes[:BATCH]))
        ours, peer = median_seconds([together] * 5)
        yield Row(
            name=f"32x18 in a batch of 32, {family}",
            unit="us",
            ours=1e6 * ours / BATCH,
            peer=1e6 * peer / BATCH,
            peer_name="fancyimpute",
        )
    yield Row(
        name="32x18 one matrix, median ratio of the four families",
        unit="times less",
        ours=1.0,
        peer=statistics.median(ratios),
        peer_name="fancyimpute",
    )


def _complete(values: np.ndarray, mask: np.ndarray) -> object:
    return OURS(Observed(values=values, mask=mask, allow_empty=True)).matrix


def _one_by_one(holes: np.ndarray) -> None:
    for matrix in holes:
        fancy_soft_impute(matrix)


def _distances(values: np.ndarray, mask: np.ndarray, holes: np.ndarray) -> dict[str, float]:
    """Median relative distance of each result from the exact minimiser, on the missing entries."""
    ours, peer = [], []
    for x, seen, nan in zip(values, mask, holes, strict=True):
        exact = np.asarray(EXACT(Observed(values=x.astype(np.float64), mask=seen, allow_empty=True)).matrix)[~seen]
        size = np.linalg.norm(exact)
        ours.append(np.linalg.norm(np.asarray(_complete(x, seen))[~seen] - exact) / size)
        peer.append(np.linalg.norm(fancy_soft_impute(nan)[~seen] - exact) / size)
    return {"ours_distance_to_optimum": float(np.median(ours)), "peer_distance_to_optimum": float(np.median(peer))}
