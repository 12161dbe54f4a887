"""An addition: DQN with and without structure on MinAtar.

The paper's budgets have no MinAtar; the full one is a million frames of each game, with the published settings. The
laptop's is Breakout alone, and the short one all games, a little longer. An update costs far more than a frame, so
these two have one every 4 frames, from 8 environments, and four times the published step size: with the published one
plain DQN had 1.4 on Breakout after as many updates, with this one 2.9, where a random player has .5.

So the learning rate was chosen on plain DQN with seed 0, which is one of the judged seeds. That is a small advantage
for plain DQN: no structured arm was looked at, and none has a learning rate of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from svrl.envs.make import MINATAR
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.gains import improvement_claim, rank_claim
from svrl.paper.experiments.training_figures import draw_addition
from svrl.paper.experiments.trainings import ARMS_OF, TrainingPlan, piece_of

ENVS = tuple(f"minatar/{game}" for game in MINATAR)
ARMS = ARMS_OF["dqn"]

SMOKE = TrainingPlan(preset="smoke", steps=150, seeds=1, batches=50, states=64)
LAPTOP = TrainingPlan(
    preset="minatar",
    steps=60_000,
    seeds=10,
    overrides={
        "n_envs": 8,
        "updates_per_step": 0.25,
        "learning_rate": 1e-3,
        "learning_starts": 2_000,
        "epsilon_steps": 20_000,
        "target_update_interval": 500,
        "eval_every": 0,
        "log_every": 2_000,
    },
    batches=2_000,
    states=4_000,
)
SHORT = replace(LAPTOP, steps=100_000)
FULL = TrainingPlan(preset="minatar", steps=1_000_000, seeds=10, overrides={"eval_every": 250_000})
_WORDS = "frames, preset minatar with fewer and larger updates, 10 seeds"

BUDGETS = {
    "smoke": Budget(runs=SMOKE.runs(ENVS[1:2], ARMS), words="Breakout, 150 frames, preset smoke, 1 seed"),
    "laptop": Budget(runs=LAPTOP.runs(ENVS[1:2], ARMS), words=f"Breakout, 60,000 {_WORDS}"),
    "short": Budget(runs=SHORT.runs(ENVS, ARMS), words=f"100,000 {_WORDS}", piece_of=piece_of),
    "full": Budget(runs=FULL.runs(ENVS, ARMS), words="5 games, 1,000,000 frames each, preset minatar, 10 seeds"),
}

CLAIMS = (
    improvement_claim(
        "minatar",
        "minatar-structure-improves",
        "sv-dqn",
        "On MinAtar structured DQN scores higher than plain DQN.",
        ENVS,
    ),
    improvement_claim(
        "minatar",
        "minatar-structured-choice-improves",
        "sv-dqn-network",
        "On MinAtar DQN that chooses by the completed matrix and values by the network scores higher than plain DQN.",
        ENVS,
    ),
    rank_claim("minatar", "minatar-low-rank", 3, 6, ENVS),
)

EXPERIMENT = Experiment(
    name="minatar_learning",
    title="learning and rank on MinAtar",
    says={
        "minatar": "Atari needs days of computing. MinAtar has five of its games on small grids, with 6 actions and "
        "random transitions, and ten seeds of it fit on a laptop: enough to tell whether structure helps there."
    },
    budgets=BUDGETS,
    picture=partial(draw_addition, envs=ENVS, arms=ARMS),
    claims=CLAIMS,
)
