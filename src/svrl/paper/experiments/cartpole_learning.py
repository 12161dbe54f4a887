"""An addition: DQN with and without structure on CartPole."""

from __future__ import annotations

from functools import partial

from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.gains import improvement_claim, rank_claim
from svrl.paper.experiments.training_figures import draw_addition
from svrl.paper.experiments.trainings import TrainingPlan

ENVS = ("CartPole-v1",)
ARMS = ("dqn", "sv-dqn")

SMOKE = TrainingPlan(preset="smoke", steps=400, seeds=1, batches=50, states=64)
LAPTOP = TrainingPlan(preset="classic", steps=50_000, seeds=5, batches=2_000, states=4_000)
FULL = TrainingPlan(preset="classic", steps=50_000, seeds=20)


def _words(plan: TrainingPlan) -> str:
    seeds = f"{plan.seeds} seeds" if plan.seeds > 1 else "1 seed"
    return f"{plan.steps:,} agent steps, preset {plan.preset}, {seeds}"


BUDGETS = {
    name: Budget(runs=plan.runs(ENVS, ARMS), words=_words(plan))
    for name, plan in (("smoke", SMOKE), ("laptop", LAPTOP), ("full", FULL))
}


CLAIMS = (
    improvement_claim("cartpole", "cartpole-structure-improves", "sv-dqn", "On CartPole structured DQN", ENVS),
    rank_claim("cartpole", "cartpole-rank-one", 1, "2", ENVS),
)


EXPERIMENT = Experiment(
    name="cartpole_learning",
    title="learning and rank on CartPole",
    says={
        "cartpole": "The smallest check of the whole way, in minutes and without extras. With two actions there is "
        "little structure to find, so a gain here would have another cause."
    },
    budgets=BUDGETS,
    picture=partial(draw_addition, envs=ENVS, arms=ARMS),
    claims=CLAIMS,
)
