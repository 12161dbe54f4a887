"""An addition: DQN with and without structure on CartPole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.claim import Evidence
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.gains import caption, improvement_claim, rank_claim
from svrl.paper.experiments.training_figures import draw_addition
from svrl.paper.experiments.trainings import TrainingPlan, envs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

_ARMS = {"sv-dqn": "structured"}


def got(figure: str, evidence: Evidence) -> str:
    """Scores, gains and ranks."""
    return caption(evidence, ENVS, _ARMS)


CLAIMS = (
    improvement_claim("cartpole", "cartpole-structure-improves", "sv-dqn", "On CartPole structured DQN", ENVS),
    rank_claim("cartpole", "cartpole-rank-one", 1, "2", ENVS),
)


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """All environments that there are."""
    return draw_addition(evidence, envs_of(evidence, ENVS, ARMS), ARMS)


EXPERIMENT = Experiment(
    name="cartpole_learning",
    title="learning and rank on CartPole",
    says={
        "cartpole": "The smallest check of the whole way, in minutes and without extras. With two actions there is "
        "little structure to find, so a gain here would have another cause."
    },
    budgets=BUDGETS,
    picture=draw,
    got=got,
    claims=CLAIMS,
)
