"""Control tasks with many actions: arms and budgets.

The best Q of these tasks is known, so what an agent has learned is measured by the loss of acting greedily by its
network, exact on the task's grid and without the task's noise. What decides between actions is of low rank there,
which it is not on Atari: with row means taken out the best Q has a rank of 1 to 5 on batches of 32 states, at 99% of
the energy (`results/control_table.py`). Agents complete matrices of 64 states by 64 actions, 4 levels of 3 motors.

How the settings were chosen: with the preset's own, values rise far above any return for a while, in all arms (seed 0,
three-motor pendulum, 125 actions). Then plain DQN was tried with a step size of 3e-4 and target copies every 250, 1,000
and 4,000 updates (seed 0, three-motor pendulum, 27 and 125 actions), and 250 lost least. That is a small advantage for
plain DQN. Before the ten seeds were begun, one more, 100, was looked at: of all arms on the three-motor pendulum and of
plain DQN on the other tasks.
"""

from __future__ import annotations

from dataclasses import replace

from svrl.paper.experiment import Budget
from svrl.paper.training_cells.plan import TrainingPlan, piece_of
from svrl.training.q_star import CONTROL

TASKS = ("three-motor-pendulum", "inverted-pendulum", "double-integrator", "mountain-car")
ENVS = tuple(f"{CONTROL}{task}" for task in TASKS)
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
SHORT = TrainingPlan(
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
LAPTOP = replace(SHORT, seeds=3)
FULL = replace(SHORT, steps=200_000, seeds=20)


def _words(plan: TrainingPlan) -> str:
    return (
        f"{ACTIONS} actions, {plan.steps:,} steps, preset classic with a smaller step size and rarer target copies, "
        f"{plan.seeds} seeds"
    )


BUDGETS = {
    "smoke": Budget(
        cells=SMOKE.cells(ENVS[:1], ARMS), words="three-motor pendulum with 8 actions, 150 steps, preset smoke, 1 seed"
    ),
    "laptop": Budget(cells=LAPTOP.cells(ENVS[:1], ARMS), words=f"three-motor pendulum with {_words(LAPTOP)}"),
    "short": Budget(cells=SHORT.cells(ENVS, ARMS), words=_words(SHORT), piece_of=piece_of),
    "full": Budget(cells=FULL.cells(ENVS, ARMS), words=f"{len(TASKS)} tasks with {_words(FULL)}"),
}
