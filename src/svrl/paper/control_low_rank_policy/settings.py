"""Which shares of the converged Q are kept at which scale."""

from __future__ import annotations

from svrl.paper.cell import Cell
from svrl.paper.control_cells import OPTIMUM, TASKS
from svrl.paper.control_low_rank_policy.run import KIND
from svrl.paper.control_svp.settings import grid
from svrl.paper.experiment import Budget

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


POLICIES = dict(zip(TASKS, ("fig8", "fig11", "fig15", "fig19"), strict=True))
"""Figures of policies and metrics, by task."""
PATHS = dict(zip(TASKS, ("fig9", "fig12", "fig16", "fig20"), strict=True))
"""Figures of trajectories, by task."""


def needs(figure: str, cell: Cell) -> bool:
    """Whether a figure reads a cell: that of its task."""
    return figure in (POLICIES[cell.settings["task"]], PATHS[cell.settings["task"]])


BUDGETS = {scale: Budget(cells=cells(scale), needs=needs, words=words) for scale, words in WORDS.items()}
