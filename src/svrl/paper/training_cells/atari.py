"""Budgets on Atari, one for all experiments, so that a game is trained once.

The paper's budget takes the preset `authors`: the figures were drawn by the authors' program, whose settings are
complete, while the text leaves replay, update rate and length open and differs in loss, exploration and target
copies. The preset `paper` is one word away: `svrl train --preset paper`.

The short budget is ours. It is made for a card that is lent for minutes: 64 environments, acting with the network from
before the last burst, and one evaluation, at the end, as random as the games of training. It grows game by game,
and has a third arm: rows centred, and the chosen action valued by the target network.
"""

from __future__ import annotations

from collections.abc import Iterable

from svrl.envs.atari_games import GAMES, Game
from svrl.paper.cell import Cell
from svrl.paper.experiment import Budget
from svrl.paper.training_cells.plan import TrainingPlan, piece_of

SMOKE = TrainingPlan(preset="smoke", steps=80, seeds=1, overrides={"hidden": [32]}, batches=50, states=48)
LAPTOP = TrainingPlan(
    preset="authors",
    steps=20_000,
    seeds=1,
    overrides={
        "replay": 20_000,
        "learn_from": 1_000,
        "epsilon_steps": 10_000,
        "target_every": 500,
        "log_every": 1_000,
        "eval_episodes": 5,
    },
    batches=2_000,
    states=4_000,
)
"""A check of the pipeline: nothing is learned in 20,000 steps."""
SHORT = TrainingPlan(
    preset="short",
    steps=1_000_000,
    seeds=3,
    overrides={"envs": 64, "act_lag": 1, "eval_every": 0, "eval_epsilon": 0.01},
)
FULL = TrainingPlan(preset="authors", steps=15_000_000, seeds=3)

PAIR = ("dqn", "sv-dqn")
TECHNIQUES = ("dqn", "double", "dueling")
ARMS_OF = {kind: (kind, f"sv-{kind}", f"sv-{kind}-network") for kind in TECHNIQUES}
"""All arms of a technique."""
EVIDENCE = ("frostbite", "krull", "seaquest", "breakout", "zaxxon", "alien")
"""Games of the short budget in the order in which they are trained: those that the paper says most about."""
ALL_ARMS = tuple(arm for kind in TECHNIQUES for arm in (kind, f"sv-{kind}"))

WORDS = {
    "smoke": "80 agent steps, preset smoke, 1 seed",
    "laptop": "20,000 agent steps, preset authors with a small replay memory, 1 seed",
    "short": "1,000,000 agent steps, preset short with 64 environments, 3 seeds",
    "full": "15,000,000 agent steps, preset authors, 3 seeds",
}
"""What a training costs at each scale."""


def env_names(games: Iterable[str]) -> tuple[str, ...]:
    """Names of environments, as in "atari/alien"."""
    return tuple(f"atari/{game}" for game in games)


def game_of(env: str) -> Game:
    """The game of an environment's name."""
    return GAMES[env.removeprefix("atari/")]


def pairs(plan: TrainingPlan, games: Iterable[str]) -> tuple[Cell, ...]:
    """DQN and its structured twin on these games."""
    return plan.cells(env_names(games), PAIR)


def in_order(games: Iterable[str]) -> tuple[str, ...]:
    """Games with those of the short budget's evidence first."""
    games = tuple(games)
    return (*(game for game in EVIDENCE if game in games), *(game for game in games if game not in EVIDENCE))


def short_budget(games: Iterable[str], arms: Iterable[str] = ARMS_OF["dqn"]) -> Budget:
    """The short budget of DQN on these games."""
    return Budget(cells=SHORT.cells(env_names(in_order(games)), arms), words=WORDS["short"], piece_of=piece_of)


def listed(games: Iterable[str]) -> str:
    """Games for a caption, as in "Frostbite and Krull"."""
    names = [game.replace("_", " ").title() for game in games]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
