"""CartPole: arms and budgets."""

from __future__ import annotations

from svrl.paper.experiment import Budget
from svrl.paper.training_cells.plan import TrainingPlan

ENV = "CartPole-v1"
ENVS = (ENV,)
ARMS = ("dqn", "sv-dqn")

SMOKE = TrainingPlan(preset="smoke", steps=400, seeds=1, batches=50, states=64)
LAPTOP = TrainingPlan(preset="classic", steps=50_000, seeds=5, batches=2_000, states=4_000)
FULL = TrainingPlan(preset="classic", steps=50_000, seeds=20)


def _words(plan: TrainingPlan) -> str:
    seeds = f"{plan.seeds} seeds" if plan.seeds > 1 else "1 seed"
    return f"{plan.steps:,} agent steps, preset {plan.preset}, {seeds}"


BUDGETS = {
    name: Budget(cells=plan.cells(ENVS, ARMS), words=_words(plan))
    for name, plan in (("smoke", SMOKE), ("laptop", LAPTOP), ("full", FULL))
}
