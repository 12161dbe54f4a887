"""Control tasks with many actions: arms and budgets.

Here the best Q is known, so what an agent has learned is measured without chance: by the exact loss of acting greedily
by its network. And here the paper's premise holds, which it need not on Atari: see `results/control_table.py` for the
ranks of the best Q on batches of 32 states.

64 actions are the most that a cube of levels has while estimation costs no more than the update itself. Step size and
target copies were chosen on plain DQN, by one seed of the three-motor pendulum with 27 and with 125 actions; no
structured arm was looked at, and none has settings of its own.
"""

from __future__ import annotations

from dataclasses import replace

from svrl.experiments.paper.experiment import Budget
from svrl.experiments.training_cells.plan import TrainingPlan, piece_of

TASKS = ("three-motor-pendulum", "inverted-pendulum", "double-integrator", "mountain-car")
ENVS = tuple(f"control/{task}" for task in TASKS)
ARMS = ("dqn", "sv-dqn", "sv-dqn-network")
"""Plain; structured as the authors' program has it; structured with rows centred and the network's value."""
ACTIONS = 64
DISCOUNT = 0.95

SMOKE = TrainingPlan(
    preset="smoke",
    steps=150,
    seeds=1,
    overrides={"actions": 8, "discount": DISCOUNT},
    batches=50,
    states=64,
)
LAPTOP = TrainingPlan(
    preset="classic",
    steps=30_000,
    seeds=10,
    overrides={
        "actions": ACTIONS,
        "discount": DISCOUNT,
        "learning_rate": 3e-4,
        "target_every": 250,
        "eval_every": 0,
    },
    batches=2_000,
    states=4_000,
)
FULL = replace(LAPTOP, steps=200_000, seeds=20)

BUDGETS = {
    "smoke": Budget(
        cells=SMOKE.cells(ENVS[:1], ARMS), words="three-motor pendulum with 8 actions, 150 steps, preset smoke, 1 seed"
    ),
    "laptop": Budget(
        cells=LAPTOP.cells(ENVS, ARMS),
        words=f"{ACTIONS} actions, {LAPTOP.steps:,} steps, preset classic with smaller updates, {LAPTOP.seeds} seeds",
        piece_of=piece_of,
    ),
    "full": Budget(
        cells=FULL.cells(ENVS, ARMS),
        words=f"4 tasks with {ACTIONS} actions, {FULL.steps:,} steps, preset classic with smaller updates, "
        f"{FULL.seeds} seeds",
    ),
}
