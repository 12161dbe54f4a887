"""The checks; they take seconds, so every scale makes all of them."""

from __future__ import annotations

from svrl.experiments.diagrams.run import BACKUPS, DROP_IN
from svrl.experiments.paper.cell import Cell
from svrl.experiments.paper.experiment import Budget

SHARES = (0.2, 0.5, 0.9)
PARTLY = 0.9
AGENTS = ("dqn", "double", "dueling")
ENV = "CartPole-v1"
STEPS = 300


def cells() -> tuple[Cell, ...]:
    """Counts at several p, and every agent with all and with most entries observed."""
    sizes = {"states": 200, "actions": 60, "iterations": 5}
    counted = [
        Cell(kind=BACKUPS, settings={**sizes, "observe": share, "seed": seed}, weight=0.01)
        for share in SHARES
        for seed in range(2)
    ]
    common = {"env": ENV, "steps": STEPS, "output": "fill", "seed": 0}
    compared = [
        Cell(kind=DROP_IN, settings={**common, "agent": agent, "observe": share}, weight=0.02)
        for agent in AGENTS
        for share in (1.0, PARTLY)
    ]
    return (*counted, *compared)


WORDS = f"p = .2, .5 and .9 on a toy MDP; {STEPS} steps of {ENV} with three agents"
BUDGETS = {scale: Budget(cells=cells(), words=WORDS) for scale in ("smoke", "laptop", "full")}
