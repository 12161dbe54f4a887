"""Trainings as runs: which environment, which arm, which seed, for how long; and what is read from those kept.

The settings of a run are

    env, arm, seed, preset, steps     what `svrl train` would be asked for
    overrides                         changes to the preset
    batches, states                   of the rank study at the end: so many batches of 32 out of so many states

and nothing else changes what a run comes to. The run is the study of a training, which is a run of its own.

On Atari all experiments have the same budgets, so that a game is trained once. The paper's budget takes the preset
`authors`: the figures were drawn by the authors' program, whose settings are complete, while the text leaves replay,
update rate and length open and differs in loss, exploration and target copies. The preset `paper` is one word away:
`svrl train --preset paper`. The short budget is ours: 64 environments, acting with the network from before the last
burst, and one evaluation, at the end, as random as the games of training. It grows game by game, and has a third arm:
rows centred, and the chosen action valued by the target network.

The score of a training is the paper's, the mean of its last 100 games. Where no game has ended, in smoke tests,
it is the mean of the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from svrl.agents.config import ARMS, AgentConfig
from svrl.envs.atari_games import GAMES, human_normalised
from svrl.paper.claim import Evidence
from svrl.paper.experiment import Budget
from svrl.paper.experiments.study import study
from svrl.runs.spec import Kind, RunSpec
from svrl.runs.store import Kept
from svrl.runs.train_run import training

TECHNIQUES = ("dqn", "double", "dueling")
VERSION = 1
_RATES = {"atari": 90.0, "minatar": 160.0, "classic": 700.0}
"""By family, agent steps a second on one core with the updates of the preset, about: for estimates of time only."""
_KINDS = {family: Kind(name=f"training-{family}", version=VERSION, compute=study) for family in _RATES}


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How every agent of a budget is trained.

    Attributes:
        preset: Of `svrl.agents.config`.
        steps: Agent steps of each training.
        seeds: How many; they are 0, 1, ...
        overrides: Changes to the preset.
        batches, states: Of the rank study.
    """

    preset: str
    steps: int
    seeds: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    batches: int = 10_000
    states: int = 20_000

    def runs(self, envs: Iterable[str], arms: Iterable[str], **overrides: Any) -> tuple[RunSpec, ...]:
        """One for each environment, arm and seed, in this order.

        Args:
            envs: Names of environments.
            arms: Of `svrl.agents.config.ARMS`.
            **overrides: More changes to the preset.
        """
        arms = tuple(arms)
        common: dict[str, Any] = {"preset": self.preset, "steps": self.steps}
        common |= {"overrides": {**self.overrides, **overrides}, "batches": self.batches, "states": self.states}
        return tuple(
            training_study(env=env, arm=arm, seed=seed, **common)
            for env in envs
            for arm in arms
            for seed in range(self.seeds)
        )


def piece_of(run: RunSpec) -> str:
    """What is judged together: all arms and seeds of one technique, environment and batch size.

    As in "Frostbite", "Frostbite with double DQN" or "Seaquest with batches of 128".
    """
    settings = run.settings
    name = title_of(settings["env"])
    technique = settings["arm"].removeprefix("sv-").removesuffix("-network")
    if technique != "dqn":
        name += f" with {technique} DQN"
    size = settings["overrides"].get("batch_size")
    return name if size is None else f"{name} with batches of {size}"


def training_study(
    *, env: str, arm: str, seed: int, overrides: Mapping[str, Any], steps: int, **others: Any
) -> RunSpec:
    """The study of one training, see the top of this file for its settings.

    Raises:
        ValueError: If there is no such arm.
    """
    if arm not in ARMS:
        raise ValueError(f"There is no arm {arm!r}. Choose one of {', '.join(ARMS)}.")
    settings = {"env": env, "arm": arm, "seed": seed, "overrides": dict(sorted(overrides.items())), "steps": steps}
    settings |= others
    family = env.partition("/")[0]
    family = family if family in _KINDS else "classic"
    minutes = steps / _RATES[family] / 60 * overrides.get("updates_per_step", 1.0)
    minutes *= overrides.get("batch_size", 32) / 32
    trained = training(env, config_of(settings), seed=seed, minutes=minutes)
    return RunSpec(kind=_KINDS[family], settings=settings, minutes=0.05, after=(trained,))


def config_of(settings: Mapping[str, Any]) -> AgentConfig:
    """All settings of the agent of a run."""
    changes = {**settings["overrides"], "steps": settings["steps"]}
    return AgentConfig.for_env(settings["env"], settings["preset"], agent=settings["arm"], **changes)


# Budgets on Atari.

SMOKE = TrainingPlan(preset="smoke", steps=80, seeds=1, overrides={"hidden": [32]}, batches=50, states=48)
LAPTOP = TrainingPlan(
    preset="authors",
    steps=20_000,
    seeds=1,
    overrides={
        "buffer_size": 20_000,
        "learning_starts": 1_000,
        "epsilon_steps": 10_000,
        "target_update_interval": 500,
        "log_every": 1_000,
        "eval_episodes": 5,
    },
    batches=2_000,
    states=4_000,
)
"""A check of the pipeline: nothing is learned in 20,000 steps."""
SCREEN = TrainingPlan(
    preset="short",
    steps=200_000,
    seeds=1,
    overrides={
        "n_envs": 64,
        "act_lag": 1,
        "buffer_size": 200_000,
        "learning_starts": 5_000,
        "epsilon_steps": 50_000,
        "learning_rate": 5e-4,
        "target_update_interval": 500,
        "eval_every": 0,
        "eval_episodes": 10,
        "eval_epsilon": 0.01,
    },
)
"""Every game once. Of six pairs of step size and distance of target copies this one had the best mean human-normalised
score of plain DQN on Boxing and Road Runner, so the gains of these two say less than those of other games. The rows of
that comparison were not kept; `svrl sweep run results/screen-fit.toml` makes them again."""
SHORT = TrainingPlan(
    preset="short",
    steps=1_000_000,
    seeds=3,
    overrides={"n_envs": 64, "act_lag": 1, "eval_every": 0, "eval_epsilon": 0.01},
)
FULL = TrainingPlan(preset="authors", steps=15_000_000, seeds=3)

PLANS = {"smoke": SMOKE, "laptop": LAPTOP, "screen": SCREEN, "short": SHORT, "full": FULL}
WORDS = {
    "smoke": "80 agent steps, preset smoke, 1 seed",
    "laptop": "20,000 agent steps, preset authors with a small replay buffer, 1 seed",
    "screen": "200,000 agent steps, preset short with settings fitted to that length on Boxing and Road Runner, 1 seed",
    "short": "1,000,000 agent steps, preset short with 64 environments, 3 seeds",
    "full": "15,000,000 agent steps, preset authors, 3 seeds",
}
"""What a training costs at each scale."""
GROWING = ("screen", "short")
"""Budgets that grow game by game."""

PAIR = ("dqn", "sv-dqn")
ARMS_OF = {kind: (kind, f"sv-{kind}", f"sv-{kind}-network") for kind in TECHNIQUES}
"""All arms of a technique."""
ATARI = "atari/"
ATARI_SCALES = ("short", "full")
"""At which claims on Atari are looked at: below them nothing is learned. Only the last settles them."""


def env_names(games: Iterable[str]) -> tuple[str, ...]:
    """Names of environments, as in "atari/alien"."""
    return tuple(f"{ATARI}{game}" for game in games)


def on_atari(scale: str, games: Iterable[str], arms: Iterable[str] = PAIR, **overrides: Any) -> tuple[RunSpec, ...]:
    """Runs of a scale on these games; DQN and its structured twin by default."""
    return PLANS[scale].runs(env_names(games), arms, **overrides)


def atari_budget(
    scale: str, runs: tuple[RunSpec, ...], about: str = "", needs: Callable[[str, RunSpec], bool] = lambda *_: True
) -> Budget:
    """A budget on Atari; `about` says which games and techniques those are, where all of them are needed."""
    grows = scale in GROWING
    words = WORDS[scale] if grows else f"{about}, {WORDS[scale]}"
    return Budget(runs=runs, needs=needs, words=words, piece_of=piece_of if grows else None)


# Reading what is kept.

ENERGY, TIGHT_ENERGY = 0.99, 0.9999
Measure = Callable[[Kept], float | None]
"""Of one training; None where it does not know, because it is older or very short."""


def row_of(kept: Kept, what: str, **fields: Any) -> dict[str, Any]:
    """The row of a training that says `what` and has these fields.

    Raises:
        LookupError: If there is none or more than one.
    """
    wanted = {"what": what, **fields}
    found = [row for row in kept.rows if wanted.items() <= row.items()]
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows of {kept.settings['env']} have {wanted}, and one was expected.")
    return found[0]


def known_number(kept: Kept, what: str, name: str, **fields: Any) -> float | None:
    """A number of a row that older trainings do not have, nor very short ones; None then."""
    try:
        value = row_of(kept, what, **fields).get(name)
    except LookupError:
        return None
    return None if value is None else float(value)


def score_of(kept: Kept) -> float:
    """The paper's score at the end of training."""
    row = row_of(kept, "score")
    return float(row["evaluation"] if row["last_100"] is None else row["last_100"])


def score_over_time(kept: Kept) -> float:
    """Mean of the learning curve: what an agent scored from the first game to the last."""
    scores = row_of(kept, "curve")["score"]
    return float(np.mean(scores)) if scores else score_of(kept)


def mean_rank(kept: Kept, energy: float = ENERGY, centred: bool = False) -> float:
    """Mean approximate rank over the batches of the study."""
    return float(row_of(kept, "rank", energy=energy, centred=centred)["mean"])


def centred_rank_share(kept: Kept) -> float:
    """Mean rank with row means taken out, over the most that it can be: A - 1 for A actions, which differ by game."""
    row = row_of(kept, "rank", energy=ENERGY, centred=True)
    return float(row["mean"]) / (len(row["histogram"]) - 2)  # the histogram begins with rank 0


def rank_shares(runs: Sequence[Kept], centred: bool = False) -> np.ndarray:
    """(A + 1,): share of the batches of rank 0, 1, ... A, seeds together."""
    counts = np.sum([row_of(kept, "rank", energy=ENERGY, centred=centred)["histogram"] for kept in runs], axis=0)
    return counts / counts.sum()


def share_at_most(kept: Kept, rank: int, centred: bool = False) -> float:
    """Share of the batches whose rank is at most so much."""
    counts = row_of(kept, "rank", energy=ENERGY, centred=centred)["histogram"]
    return float(sum(counts[: rank + 1]) / sum(counts))


def curves(runs: Sequence[Kept]) -> tuple[np.ndarray, np.ndarray]:
    """Steps (points,) at which all of these trainings have a score, and the scores (seeds, points)."""
    found = [dict(zip(row["steps"], row["score"], strict=True)) for row in (row_of(kept, "curve") for kept in runs)]
    steps = sorted(set.intersection(*(set(points) for points in found))) if found else []
    return np.array(steps, float), np.array([[points[step] for step in steps] for points in found], float)


def envs_of(evidence: Evidence, wanted: Iterable[str], arms: Sequence[str], measure: Measure = score_of) -> list[str]:
    """Those of the wanted environments of which every arm has a training that knows a number, in their order."""
    return [env for env in wanted if all(len(values(evidence, arm, (env,), measure)[0]) for arm in arms)]


def values(evidence: Evidence, arm: str, envs: Iterable[str], measure: Measure = score_of) -> list[np.ndarray]:
    """For each environment the number of every seed that knows it, (seeds,)."""
    found = ([measure(kept) for kept in evidence.where(env=env, arm=arm)] for env in envs)
    return [np.array([number for number in numbers if number is not None]) for numbers in found]


def normalised(env: str, scores: np.ndarray) -> np.ndarray:
    """Scores where a random player has 0 and a human 1 on Atari games; elsewhere as they are."""
    if not env.startswith(ATARI):
        return scores
    return np.array([human_normalised(env, float(score)) for score in scores])


def random_score(env: str) -> float:
    """Of a random player; 0 where nobody knows."""
    return GAMES[env.removeprefix(ATARI)].random_score if env.startswith(ATARI) else 0.0


def title_of(env: str) -> str:
    """The name of an environment as a person writes it: "Ms Pacman"."""
    name = env.rpartition("/")[2]
    return name.replace("_", " ").replace("-", " ").title() if "/" in env else name
