"""Which grids of the pendulum are planned at which scale; the middle one shares its cells with SVP's figures."""

from __future__ import annotations

from typing import Any

from svrl.paper.cell import Cell
from svrl.paper.control_cells import OPTIMUM, PLANNED, TASKS
from svrl.paper.control_discretisation.run import STARTS_KIND
from svrl.paper.control_svp.settings import ITERATIONS, LOW, MASKS, PAPER_SVP, STARTS
from svrl.paper.experiment import Budget

TASK = TASKS[0]
VARIANTS = ("paper", "authors")
COARSE, MIDDLE, FINE = (20, 100), (50, 1000), (100, 4000)
"""Points of each axis, and actions: 400x100, 2500x1000, 10000x4000."""
GRIDS = {"smoke": ((9, 60), (15, 80)), "laptop": (COARSE, MIDDLE), "full": (COARSE, MIDDLE, FINE)}
WEIGHTS = {COARSE: (0.03, 0.1, 0.03), MIDDLE: (0.1, 0.5, 0.3), FINE: (4.0, 12.0, 4.0)}
"""Minutes of the optimum, of a plan, and of the optimum under all sets of starts."""
BASELINES = ("svp", "row-mean-update")
"""Beside the paper's SVP, with its variant, on all grids but the finest: ours, and doing without estimation."""
START_SETS = {"smoke": 2, "laptop": 5, "full": 5}


def size_of(points: int, actions: int) -> str:
    """As the paper writes it: "2500x1000"."""
    return f"{points * points}x{actions}"


def cells(scale: str) -> tuple[Cell, ...]:
    """Every grid and variant: the optimum, also under several sets of starts, SVP at p = .2, and what stands beside."""
    found: list[Cell] = []
    for points, actions in GRIDS[scale]:
        optimum, planned, again = WEIGHTS.get((points, actions), (0.01, 0.01, 0.01))
        for variant in VARIANTS:
            where: dict[str, Any] = {"task": TASK, "variant": variant, "states": [points, points], "actions": actions}
            where |= {"starts": STARTS[scale]}
            seeds = {"start_seeds": list(range(START_SETS[scale]))}
            found.append(Cell(kind=STARTS_KIND, settings={**where, **seeds}, weight=again))
            where |= {"start_seed": 0}
            found.append(Cell(kind=OPTIMUM, settings=where, weight=optimum))
            beside = BASELINES if variant == "paper" and (points, actions) != FINE else ()
            for method in (PAPER_SVP, *beside):
                more: dict[str, Any] = {"method": method, "observe": LOW, "iterations": ITERATIONS[scale]}
                masks = 1 if scale == "smoke" and method != PAPER_SVP else MASKS[scale]
                found += [
                    Cell(kind=PLANNED, settings={**where, **more, "seed": seed}, weight=planned)
                    for seed in range(masks)
                ]
    return tuple(found)


def words(scale: str) -> str:
    """What is spent, for a caption."""
    sizes = ", ".join(size_of(*grid) for grid in GRIDS[scale])
    starts = f"{STARTS[scale]} starts ({START_SETS[scale]} sets of them for the optimum)"
    return f"{sizes} pairs, p = .2, {MASKS[scale]} masks, {starts}"


BUDGETS = {scale: Budget(cells=cells(scale), words=words(scale)) for scale in GRIDS}
