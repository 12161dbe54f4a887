"""Which shares of the converged Q are kept at which scale."""

from __future__ import annotations

from svrl.experiments.control_cells import OPTIMUM, TASKS
from svrl.experiments.control_low_rank_policy.run import KIND
from svrl.experiments.control_svp.settings import grid
from svrl.experiments.paper.cell import Cell
from svrl.experiments.paper.experiment import Budget

HALF = 0.5
SHARES = {
    "smoke": (0.2, HALF),
    "laptop": (0.1, 0.3, HALF, 0.7, 0.9),
    "full": (0.1, 0.2, 0.3, 0.4, HALF, 0.6, 0.7, 0.8, 0.9),
}
MASKS = {"smoke": 2, "laptop": 3, "full": 5}
WORDS = {
    "smoke": "225x80 pairs, p = .2 and .5, 2 masks, 20 starts",
    "laptop": "2500x1000 pairs (cart-pole 10000x1000), p = .1 to .9, 3 masks, 1000 starts",
    "full": "2500x1000 pairs (cart-pole 10000x1000), p = .1 to .9, 5 masks, 1000 starts",
}


def cells(scale: str) -> tuple[Cell, ...]:
    """Every task with its optimum, which SVP's figures use too."""
    found: list[Cell] = []
    small = scale == "smoke"
    for task in TASKS:
        where = grid(scale, task, "paper")
        found.append(Cell(kind=OPTIMUM, settings=where, weight=0.01 if small else 0.1))
        found += [
            Cell(kind=KIND, settings={**where, "observe": observe, "seed": seed}, weight=0.005 if small else 0.12)
            for observe in SHARES[scale]
            for seed in range(MASKS[scale])
        ]
    return tuple(found)


BUDGETS = {scale: Budget(cells=cells(scale), words=words) for scale, words in WORDS.items()}
