"""What the study of ranks spends. The paper does not name its games; ours are four of its figures, with 18 actions."""

from __future__ import annotations

from svrl.paper.experiment import Budget
from svrl.paper.training_cells.atari import (
    FULL,
    LAPTOP,
    SMOKE,
    WORDS,
    env_names,
    listed,
    short_budget,
)
from svrl.paper.training_cells.plan import TrainingPlan

GAMES = ("frostbite", "krull", "zaxxon", "alien")
ENVS = env_names(GAMES)
ARM = "dqn"


def _budget(plan: TrainingPlan, games: tuple[str, ...], words: str) -> Budget:
    batches = f"{plan.batches:,} batches of 32 states"
    return Budget(cells=plan.cells(env_names(games), (ARM,)), words=f"{listed(games)}, DQN, {words}, {batches}")


BUDGETS = {
    "smoke": _budget(SMOKE, ("frostbite", "alien"), WORDS["smoke"]),
    "laptop": _budget(LAPTOP, ("frostbite",), WORDS["laptop"]),
    "short": short_budget(GAMES, (ARM,)),
    "full": _budget(FULL, GAMES, WORDS["full"]),
}
