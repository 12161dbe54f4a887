"""Which toy MDPs are drawn at which scale."""

from __future__ import annotations

from svrl.paper.cell import Cell
from svrl.paper.experiment import Budget
from svrl.paper.toy_rank.run import KIND, ONLINE, VANILLA

ITERATIONS = 40
HALF = 0.5
SIZES = {"smoke": (120, 40), "laptop": (1000, 100), "full": (1000, 100)}
SEEDS = {"smoke": 2, "laptop": 5, "full": 10}
REWARDS = ("uniform", "normal")
"""The paper says random: U(0, 1) gives its figure, N(0, 1) is the other reading."""


def cells(scale: str) -> tuple[Cell, ...]:
    """Every reward, method and seed."""
    states, actions = SIZES[scale]
    weights = {VANILLA: 0.03, ONLINE: 0.1} if scale != "smoke" else {VANILLA: 0.005, ONLINE: 0.01}
    return tuple(
        Cell(
            kind=KIND,
            settings={
                "states": states,
                "actions": actions,
                "discount": 0.95,
                "reward": reward,
                "method": method,
                "observe": HALF if method == ONLINE else 1.0,
                "iterations": ITERATIONS,
                "seed": seed,
            },
            weight=weights[method],
        )
        for reward in REWARDS
        for method in (VANILLA, ONLINE)
        for seed in range(SEEDS[scale])
    )


BUDGETS = {
    scale: Budget(
        cells=cells(scale),
        words=f"{SIZES[scale][0]} states, {SIZES[scale][1]} actions, {ITERATIONS} iterations, {SEEDS[scale]} MDPs",
    )
    for scale in SIZES
}
