"""Which methods plan at which level of noise, and with which seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svrl.paper.cell import Cell
from svrl.paper.experiment import Budget
from svrl.paper.noisy_simulator.run import KIND

OURS = "averaged-svp"
BARS = (0.1, 0.3, 1.0)
FIRST_SEED = 200
"""Seeds that nothing was tuned on."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What one scale spends.

    Attributes:
        states: Grid points of each axis.
        levels: Of each of the three motors; there are levels^3 actions.
        iterations: Of every method.
        seeds: For the comparison of methods.
        challengers: Numbers of random actions that the incumbent is tried with.
        noise, shares, ranks: What else is varied, for the structured and the plain average.
        samples: How many of every pair in further runs of both averages, at every level of noise.
        minutes: Of one plan with structure; the others take a tenth.
    """

    states: int
    levels: int
    iterations: int
    seeds: int
    challengers: tuple[int, ...]
    noise: tuple[float, ...]
    shares: tuple[float, ...]
    ranks: tuple[int, ...]
    minutes: float
    samples: tuple[int, ...] = ()


SIZES = {
    "smoke": Size(
        states=9,
        levels=3,
        iterations=12,
        seeds=2,
        challengers=(3,),
        noise=(),
        shares=(0.5,),
        ranks=(2, 5),
        minutes=0.002,
    ),
    "laptop": Size(
        states=50,
        levels=6,
        iterations=90,
        seeds=3,
        challengers=(1, 3, 9),
        noise=(0.03,),
        shares=(0.2, 0.5),
        ranks=(2, 8, 20),
        minutes=0.1,
    ),
    "full": Size(
        states=50,
        levels=10,
        iterations=90,
        seeds=5,
        challengers=(1, 2, 3, 5, 9, 39),
        noise=(0.01, 0.03, 3.0),
        shares=(0.05, 0.2, 0.5),
        ranks=(2, 3, 5, 8, 12, 20, 40),
        minutes=0.7,
        samples=(4,),
    ),
}


def cells(size: Size) -> tuple[Cell, ...]:
    """Methods side by side at three levels of noise, then what varies one thing."""
    wanted: list[dict[str, Any]] = []
    for sigma in BARS:
        wanted += [{"method": "value-iteration", "sigma": sigma}, {"method": "averaged", "sigma": sigma}]
        wanted += [{"method": "incumbent", "sigma": sigma, "challengers": few} for few in size.challengers]
        wanted += [{"method": OURS, "sigma": sigma}]
        for share in size.shares:
            wanted += [{"method": name, "sigma": sigma, "observe": share} for name in ("averaged", OURS)]
        wanted += [{"method": OURS, "sigma": sigma, "rank": rank} for rank in size.ranks]
    for sigma in size.noise:
        wanted += [{"method": name, "sigma": sigma} for name in ("averaged", OURS)]
        wanted += [{"method": "incumbent", "sigma": sigma, "challengers": 3}]
    for sigma in (*size.noise, *BARS):
        wanted += [
            {"method": name, "sigma": sigma, "samples": count} for name in ("averaged", OURS) for count in size.samples
        ]
    common: dict[str, Any] = {
        "states": [size.states, size.states],
        "levels": size.levels,
        "iterations": size.iterations,
    }
    common |= {"samples": 1, "observe": 1.0, "challengers": None, "rank": None}
    return tuple(
        Cell(
            kind=KIND,
            settings={**common, **some, "seed": FIRST_SEED + k},
            weight=size.minutes * (1.0 if some["method"] == OURS else 0.1),
        )
        for some in wanted
        for k in range(size.seeds)
    )


BUDGETS = {
    scale: Budget(
        cells=cells(size),
        words=f"{size.states**2} states, {size.levels**3} actions, {size.iterations} iterations, {size.seeds} seeds",
    )
    for scale, size in SIZES.items()
}
