"""Games of the diagnosis. The cells are those of the learning figures."""

from __future__ import annotations

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.experiment import Budget
from svrl.paper.training_cells.atari import (
    FULL,
    LAPTOP,
    SMOKE,
    WORDS,
    env_names,
    listed,
    pairs,
    short_budget,
)

GAMES = ("frostbite", "krull", "alien", "seaquest")
ENVS = env_names(GAMES)
PAPER_RANKS = {"frostbite": 2, "krull": 2, "alien": 5, "seaquest": 10}
PAPER_SIGNS = {"frostbite": 1, "krull": 1, "alien": 1, "seaquest": -1}

BUDGETS = {
    "smoke": Budget(
        cells=pairs(SMOKE, ("frostbite", "alien")),
        words=f"{listed(('frostbite', 'alien'))}, DQN, {WORDS['smoke']}",
    ),
    "laptop": Budget(cells=pairs(LAPTOP, ("frostbite",)), words=f"Frostbite, DQN, {WORDS['laptop']}"),
    "short": short_budget(ALL_GAMES),
    "full": Budget(cells=pairs(FULL, ALL_GAMES), words=f"57 games, DQN, {WORDS['full']}"),
}
