"""Which plans are made at which scale.

Weights were measured on two shared cores, in minutes: matrix estimation takes nearly all of a cell.
"""

from __future__ import annotations

from typing import Any

from svrl.paper.cell import Cell
from svrl.paper.control_cells import OPTIMUM, PLANNED, TASKS, VANILLA
from svrl.paper.experiment import Budget

BASELINES = ("svp", "cross", "async", "sampled-max", "row-mean-update", "incumbent", "coarse")
WITHOUT_SHARE = ("cross", "coarse")
"""They choose their pairs in another way."""
WITHOUT_ESTIMATION = tuple(name for name in BASELINES if name not in ("svp", "cross"))
DRAWS_NOTHING = ("coarse",)
"""Another seed changes nothing: one plan is enough."""
PAPER_SVP = "paper-svp"
BESIDE_PATHS = ("svp", "row-mean-update")
"""Whose trajectories stand beside the paper's: our combination, and the simplest way to do without estimation."""
SIZES: dict[str, dict[str, tuple[list[int], int]]] = {
    "smoke": {name: ([15, 15], 80) for name in TASKS} | {"cart-pole": ([5, 5, 3, 3], 80)},
    "laptop": {name: ([50, 50], 1000) for name in TASKS} | {"cart-pole": ([10, 10, 10, 10], 1000)},
    "full": {name: ([50, 50], 1000) for name in TASKS} | {"cart-pole": ([10, 10, 10, 10], 1000)},
}
STARTS = {"smoke": 20, "laptop": 1000, "full": 1000}
SHARES = {"smoke": (0.2, 0.6), "laptop": (0.2, 0.6), "full": (0.1, 0.2, 0.4, 0.6, 0.8)}
ITERATIONS: dict[str, str | int] = {"smoke": 6, "laptop": VANILLA, "full": VANILLA}
MASKS = {"smoke": 2, "laptop": 3, "full": 5}
SAME = ("double-integrator", "cart-pole")
"""Tasks that are the same in both variants."""
LOW, HIGH = 0.2, 0.6
"""The shares whose policies the paper shows."""


def grid(scale: str, task: str, variant: str) -> dict[str, Any]:
    """The settings of a task's grid and of its judge."""
    states, actions = SIZES[scale][task]
    common: dict[str, Any] = {"task": task, "variant": variant, "states": states, "actions": actions}
    return common | {"starts": STARTS[scale], "start_seed": 0}


def planned(scale: str, where: dict[str, Any], method: str, observe: float | None, seed: int) -> Cell:
    """One plan."""
    more = {"method": method, "observe": observe, "seed": seed, "iterations": ITERATIONS[scale]}
    return Cell(kind=PLANNED, settings={**where, **more}, weight=weight(scale, where["task"], method))


WEIGHTS = {"inverted-pendulum": 0.5, "mountain-car": 0.7, "double-integrator": 0.3, "cart-pole": 1.8}
"""Minutes of paper-svp at the paper's sizes."""
OTHERS = {"svp": (0.5, 0.8), "async": (0.1, 0.4), "sampled-max": (0.1, 0.4), "row-mean-update": (0.1, 0.4)}
"""Minutes of baselines on the tasks of two coordinates, and on the cart-pole; those not here take seconds."""


def weight(scale: str, task: str, method: str) -> float:
    """Minutes that a plan takes."""
    if scale == "smoke":
        return 0.005
    return WEIGHTS[task] if method == PAPER_SVP else OTHERS.get(method, (0.05, 0.2))[task == "cart-pole"]


def cells(scale: str) -> tuple[Cell, ...]:
    """All cells of a scale: every task with the paper's variant, and the authors' where it is another problem."""
    found: list[Cell] = []
    for task in TASKS:
        for variant in ("paper", "authors"):
            where = grid(scale, task, variant)
            found.append(Cell(kind=OPTIMUM, settings=where, weight=0.01 if scale == "smoke" else 0.1))
            # The authors' pendulum is the one whose numbers the paper prints; the car is repeated only in full.
            ours = variant == "paper" or task == TASKS[0] or (scale == "full" and task not in SAME)
            shares = SHARES[scale] if variant == "paper" or scale == "full" else (LOW,)
            for observe in shares if ours else ():
                masks = range(MASKS[scale])
                found += [planned(scale, where, PAPER_SVP, observe, seed) for seed in masks]
            for method in BASELINES if variant == "paper" else ():
                share = None if method in WITHOUT_SHARE else LOW
                masks = range(1 if method in DRAWS_NOTHING or scale == "smoke" else MASKS[scale])
                found += [planned(scale, where, method, share, seed) for seed in masks]
    return tuple(found)


POLICIES = dict(zip(TASKS, ("fig3", "fig13", "fig17", "fig21"), strict=True))
"""Figures of policies and metrics, by task."""
PATHS = dict(zip(TASKS, ("fig10", "fig14", "fig18", "fig22"), strict=True))
"""Figures of trajectories, by task."""


def needs(figure: str, cell: Cell) -> bool:
    """Whether a figure reads a cell: policies and metrics all of their task, trajectories those that they show."""
    task, method = cell.settings["task"], cell.settings.get("method")
    return figure in ("baselines", POLICIES[task]) or (
        figure == PATHS[task] and method in (None, PAPER_SVP, *BESIDE_PATHS)
    )


BUDGETS = {
    "smoke": Budget(
        cells=cells("smoke"), needs=needs, words="225x80 pairs, 6 iterations, p = .2 and .6, 2 masks, 20 starts"
    ),
    "laptop": Budget(
        cells=cells("laptop"),
        needs=needs,
        words="2500x1000 pairs (cart-pole 10000x1000), p = .2 and .6, 3 masks, 1000 starts",
    ),
    "full": Budget(
        cells=cells("full"),
        needs=needs,
        words="2500x1000 pairs (cart-pole 10000x1000), p = .1 to .8, 5 masks, 1000 starts",
    ),
}
