"""MinAtar: games, arms and budgets.

The paper's budgets have no MinAtar; the full one is a million frames of each game, with the published settings. The
laptop's is Breakout alone, with exploration and first update brought forward so that something is learned in it.
"""

from __future__ import annotations

from svrl.experiments.paper.experiment import Budget
from svrl.experiments.training_cells.plan import TrainingPlan

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
ENVS = tuple(f"minatar/{game}" for game in GAMES)
ARMS = ("dqn", "sv-dqn", "sv-dqn-network")
"""Plain; structured as the authors' program has it; structured with rows centred and the network's value."""

SMOKE = TrainingPlan(preset="smoke", steps=150, seeds=1, batches=50, states=64)
LAPTOP = TrainingPlan(
    preset="minatar",
    steps=20_000,
    seeds=10,
    overrides={"learn_from": 1_000, "epsilon_steps": 5_000, "eval_every": 0, "log_every": 500},
    batches=2_000,
    states=4_000,
)
FULL = TrainingPlan(preset="minatar", steps=1_000_000, seeds=10, overrides={"eval_every": 250_000})

BUDGETS = {
    "smoke": Budget(cells=SMOKE.cells(ENVS[1:2], ARMS), words="Breakout, 150 frames, preset smoke, 1 seed"),
    "laptop": Budget(
        cells=LAPTOP.cells(ENVS[1:2], ARMS),
        words=f"Breakout, {LAPTOP.steps:,} frames, preset minatar with less exploration, {LAPTOP.seeds} seeds",
    ),
    "full": Budget(
        cells=FULL.cells(ENVS, ARMS),
        words=f"5 games, {FULL.steps:,} frames each, preset minatar, {FULL.seeds} seeds",
    ),
}
