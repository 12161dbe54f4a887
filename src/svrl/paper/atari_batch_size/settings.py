"""Games and batch sizes. Those of 32 are the cells of the learning figures."""

from __future__ import annotations

from collections.abc import Iterable

from svrl.paper.cell import Cell
from svrl.paper.experiment import Budget
from svrl.paper.training_cells.atari import (
    ARMS_OF,
    FULL,
    LAPTOP,
    PAIR,
    SHORT,
    SMOKE,
    WORDS,
    env_names,
    pairs,
    short_budget,
)
from svrl.paper.training_cells.plan import TrainingPlan, piece_of

GAMES = ("frostbite", "seaquest")
FROSTBITE, SEAQUEST = ENVS = env_names(GAMES)
SIZES = (32, 64, 128)


def _larger(plan: TrainingPlan, games: Iterable[str], sizes: Iterable[int]) -> tuple[Cell, ...]:
    return tuple(cell for size in sizes for cell in plan.cells(env_names(games), PAIR, batch_size=size))


BUDGETS = {
    "smoke": Budget(cells=pairs(SMOKE, ("frostbite",)), words=f"Frostbite with batches of 32, {WORDS['smoke']}"),
    "laptop": Budget(cells=pairs(LAPTOP, ("frostbite",)), words=f"Frostbite with batches of 32, {WORDS['laptop']}"),
    "short": Budget(
        cells=short_budget(GAMES).cells
        + tuple(
            cell
            for game, size in (("seaquest", 128), ("frostbite", 128), ("seaquest", 64), ("frostbite", 64))
            for cell in SHORT.cells(env_names((game,)), ARMS_OF["dqn"], batch_size=size)
        ),
        words=WORDS["short"],
        piece_of=piece_of,
    ),
    "full": Budget(
        cells=(*pairs(FULL, GAMES), *_larger(FULL, GAMES, SIZES[1:])),
        words=f"Frostbite and Seaquest, batches of 32, 64 and 128, {WORDS['full']}",
    ),
}
