"""The estimator of SV-RL on a device: what a launch costs, and how near to the optimum it stops.

Cost: K matrices of a network's values, scaled to [-1, 1], 90% observed, completed by one launch out of a CUDA graph,
against the authors' estimator in NumPy on the host, one matrix at a time. Time a matrix.

Accuracy: the largest distance of any entry from the optimum, which the torch twin finds in float64 at a tolerance of
1e-9. All matrices are scaled to a largest entry of 1. There are 64 of each family and shape. A batch of 1 is the first
of them; a batch of 1,056 has each several times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from svrl.agents.captured import Captured
from svrl.agents.config import AgentConfig, default_precision
from svrl.agents.structured_targets import StructuredTargets
from svrl.benchmarks.authors_way import soft_impute
from svrl.benchmarks.device_clock import device_name, elapsed, own_stream
from svrl.benchmarks.matrix_small import FAMILIES, SHARE
from svrl.benchmarks.rows import Row, seconds
from svrl.matrix import Observed, SoftImpute
from svrl.matrix.soft_impute.small_cuda import serves
from svrl.matrix.soft_impute.small_twin import solve_small_twin

LIMITS = {1e-5: 2e-4, 1e-3: 5e-3}
"""The farthest that an entry may be from the optimum, by the tolerance of the estimator."""
MOST_STEPS = {1e-5: 1000, 1e-3: 100}
RATIO = 1 / 50
EXACT, EXACT_STEPS = 1e-9, 5000
UNIQUE = 1e-5
"""Where two starts end farther apart than this there is more than one minimiser, or none that is reached: left out."""
MAIN = (32, 18)
LAUNCHES = 5
"""Launches between two looks at the clock."""


@dataclass(frozen=True, kw_only=True)
class EstimatorSizes:
    """How much is measured.

    Attributes:
        counts: Matrices in a launch.
        rounds: Of which the median is taken.
        drawn: Matrices of each family and shape.
        batches: Batch sizes of 32x18 matrices whose accuracy is measured.
        shapes: Other shapes.
    """

    counts: tuple[int, ...] = (32, 132, 1056)
    rounds: int = 15
    drawn: int = 64
    batches: tuple[int, ...] = (1, 32, 1056)
    shapes: tuple[tuple[int, int], ...] = ((1, 2), (2, 2), (5, 3), (17, 9), (32, 4), (64, 18), (128, 18))


def measure_launches(q: Tensor, config: AgentConfig, sizes: EstimatorSizes) -> list[Row]:
    """Rows for one launch of each count.

    Args:
        q: (K, B, A), a network's values, on the device.
        config: Of a structured agent.
        sizes: How much is measured.
    """
    structure, device = StructuredTargets.from_config(config), q.device
    assert structure is not None
    scaled = _scaled(q)
    mask = structure.draw(scaled.shape, torch.Generator(device).manual_seed(0))
    theirs = _authors_seconds(scaled.cpu().numpy(), mask.cpu().numpy(), config)
    rows = []
    with own_stream(device, default_precision(device)):
        for count in sizes.counts:
            pick = torch.arange(count, device=device) % len(scaled)
            observed = Observed.trusted(torch.where(mask, scaled, 0.0)[pick], mask[pick])
            launch = Captured(partial(structure.estimator, observed), device, repeatable=True)
            launch()
            times = [elapsed(partial(_several, launch), device) / LAUNCHES for _ in range(sizes.rounds)]
            whole = 1e6 * statistics.median(times)
            shape = "x".join(map(str, q.shape[1:]))
            rows.append(
                Row(
                    name=f"{count} matrices {shape} in one launch, {device_name(device)}",
                    unit="us/matrix",
                    ours=whole / count,
                    peer=1e6 * theirs,
                    peer_name="the authors' estimator, NumPy on the host",
                    note={"launch_us": whole, "tolerance": config.tolerance, "solver": _solver(q.shape[1:], device)},
                )
            )
    return rows


def _several(launch: Callable[[], object]) -> None:
    for _ in range(LAUNCHES):
        launch()


def _scaled(q: Tensor) -> Tensor:
    """To [-1, 1] by the smallest and the largest entry of each matrix."""
    low, high = q.amin((-2, -1), keepdim=True), q.amax((-2, -1), keepdim=True)
    return 2 * (q - low) / (high - low) - 1


def _authors_seconds(values: np.ndarray, mask: np.ndarray, config: AgentConfig) -> float:
    """Median over matrices of the best of 3 calls."""
    calls = [
        partial(soft_impute, x, ~seen, ratio=config.ratio, tolerance=config.tolerance)
        for x, seen in zip(values, mask, strict=True)
    ]
    calls[0]()
    return statistics.median(min(seconds(call) for _ in range(3)) for call in calls)


def measure_accuracy(device: torch.device, sizes: EstimatorSizes) -> Iterator[Row]:
    """Two rows for each tolerance: batches of 32x18 matrices, and other shapes; low-rank families, Gaussian noted."""
    drawn = {shape: _problems(shape, sizes.drawn) for shape in dict.fromkeys((MAIN, *sizes.shapes))}
    for tolerance in LIMITS:
        batches = {f"batch of {count}": (drawn[MAIN], count) for count in sizes.batches}
        yield _accuracy_row("32x18 in batches", tolerance, batches, device)
        shapes = {f"{m}x{n}": (drawn[m, n], sizes.drawn) for m, n in sizes.shapes}
        yield _accuracy_row("other shapes", tolerance, shapes, device)


class Problems(NamedTuple):
    """Matrices of one family whose completion is unique.

    Attributes:
        family: Its name.
        values: (N, m, n), zero outside of the mask.
        mask: (N, m, n).
        optimum: (N, m, n), completed, in float64.
        left_out: Matrices that were drawn beside them and have no unique completion.
    """

    family: str
    values: Tensor
    mask: Tensor
    optimum: Tensor
    left_out: int


def draw_values(family: str, count: int, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Matrices (count, m, n) of a family of `matrix_small`, float32, each with a largest entry of size 1."""
    m, n = shape
    normal = rng.standard_normal
    rows, noise = normal((count, m, 1)), normal((count, m, n))
    if family == FAMILIES[0]:
        matrices = 5 + rows + 0.3 * normal((count, m, 3)) @ normal((count, 3, n)) + 0.05 * noise
    elif family == FAMILIES[1]:
        matrices = 10 + 3 * rows + 0.02 * normal((count, m, 3)) @ normal((count, 3, n)) + 0.01 * noise
    elif family == FAMILIES[2]:
        matrices = normal((count, m, 4)) @ normal((count, 4, n))
    else:
        matrices = noise
    return np.asarray(matrices / np.abs(matrices).max((1, 2), keepdims=True), dtype=np.float32)


def _problems(shape: tuple[int, int], count: int) -> list[Problems]:
    rng = np.random.default_rng(shape)
    found = []
    for family in FAMILIES:
        values = torch.from_numpy(draw_values(family, count, shape, rng))
        mask = torch.from_numpy(rng.random(values.shape) < SHARE)
        values = torch.where(mask, values, 0.0)
        optimum = _optimum(values.double(), mask, None)
        other = _optimum(values.double(), mask, torch.zeros_like(optimum))
        unique = (optimum - other).abs().amax((-2, -1)) < UNIQUE
        kept = values[unique], mask[unique], optimum[unique]
        found.append(Problems(family, *kept, left_out=int((~unique).sum())))
    return found


def _optimum(values: Tensor, mask: Tensor, start: Tensor | None) -> Tensor:
    """Values (N, m, n) completed as exactly as float64 allows; the twin wants them tall."""
    if values.shape[-2] < values.shape[-1]:
        return _optimum(values.mT, mask.mT, None if start is None else start.mT).mT
    exact = solve_small_twin(values, mask, None, RATIO, start, EXACT, EXACT_STEPS, fill=True).filled
    assert exact is not None
    return exact


def _worst(problems: Sequence[Problems], count: int, tolerance: float, device: torch.device) -> dict[str, float]:
    """By family, the largest distance of an entry in a batch of `count` matrices."""
    estimator = SoftImpute(ratio=RATIO, tolerance=tolerance, max_steps=MOST_STEPS[tolerance], output="fill")
    worst = {}
    for one in problems:
        pick = torch.arange(count) % len(one.values)
        found = estimator(Observed.trusted(one.values[pick].to(device), one.mask[pick].to(device))).matrix
        worst[one.family] = float((torch.as_tensor(found).cpu().double() - one.optimum[pick]).abs().max())
    return worst


def _accuracy_row(
    what: str, tolerance: float, cases: dict[str, tuple[list[Problems], int]], device: torch.device
) -> Row:
    """One row over all cases, each some problems and the size of a batch."""
    found = {name: _worst(*case, tolerance, device) for name, case in cases.items()}
    low_rank = {name: max(one[family] for family in FAMILIES[:3]) for name, one in found.items()}
    gaussian = max(one[FAMILIES[3]] for one in found.values())
    return Row(
        name=f"distance of an entry from the optimum, {what}, tolerance {tolerance:g}, {device_name(device)}",
        unit="of the largest entry",
        ours=max(low_rank.values()),
        peer=LIMITS[tolerance],
        peer_name="limit",
        note={
            "worst_of": low_rank,
            "gaussian": gaussian,
            "left_out": {name: sum(one.left_out for one in case[0]) for name, case in cases.items()},
            "solver": _solver(MAIN, device),
        },
    )


def _solver(shape: Sequence[int], device: torch.device) -> str:
    if device.type == "cpu":
        return "CPU kernel"
    return "CUDA kernel" if serves(max(shape), min(shape), torch.float32, device) else "plain torch"
