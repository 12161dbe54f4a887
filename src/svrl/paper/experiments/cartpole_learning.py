"""An addition: DQN with and without structure on CartPole."""

from __future__ import annotations

from functools import partial

from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.gains import improvement_claim, rank_claim
from svrl.paper.experiments.training_figures import draw_addition
from svrl.paper.experiments.trainings import PAIR, TrainingPlan

ENVS = ("CartPole-v1",)
PLANS = {
    "smoke": TrainingPlan(preset="smoke", steps=400, seeds=1, batches=50, states=64),
    "laptop": TrainingPlan(preset="control", steps=50_000, seeds=5, batches=2_000, states=4_000),
    "full": TrainingPlan(preset="control", steps=50_000, seeds=20),
}
BUDGETS = {
    name: Budget(
        runs=plan.runs(ENVS, PAIR),
        words=f"{plan.steps:,} agent steps, preset {plan.preset}, {plan.seeds} seed{'s' if plan.seeds > 1 else ''}",
    )
    for name, plan in PLANS.items()
}

CLAIMS = (
    improvement_claim(
        "cartpole",
        "cartpole-structure-improves",
        "sv-dqn",
        "On CartPole structured DQN scores higher than plain DQN.",
        ENVS,
    ),
    rank_claim("cartpole", "cartpole-rank-one", 1, 2, ENVS),
)

EXPERIMENT = Experiment(
    name="cartpole_learning",
    title="learning and rank on CartPole",
    says={
        "cartpole": "The smallest check of the whole way, in minutes and without extras. With two actions there is "
        "little structure to find, so a gain here would have another cause."
    },
    budgets=BUDGETS,
    picture=partial(draw_addition, envs=ENVS, arms=PAIR),
    claims=CLAIMS,
)
