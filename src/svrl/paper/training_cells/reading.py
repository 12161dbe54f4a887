"""What figures and claims read from kept trainings: scores, curves, ranks.

The score of a training is the paper's, the mean of its last 100 games. Where no game has ended, in smoke tests,
it is the mean of the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from svrl.envs.atari_games import GAMES, human_normalised
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept

ENERGY, TIGHT_ENERGY = 0.99, 0.9999
DEFINITIONS: tuple[tuple[str, float, bool], ...] = (
    ("at 99% of the energy", ENERGY, False),
    ("at 99.99%", TIGHT_ENERGY, False),
    ("at 99% with row means taken out", ENERGY, True),
    ("at 99.99% with row means taken out", TIGHT_ENERGY, True),
)
"""What rank can mean; the first is the paper's."""
Measure = Callable[[Kept], float]
ATARI = "atari/"
_BATCH_SIZE = 32


def trainings(
    evidence: Evidence, *, env: str | None = None, arm: str | None = None, batch_size: int | None = None
) -> list[Kept]:
    """Those of an environment, arm and batch size; None takes any."""
    return [
        kept
        for kept in evidence.cells
        if env in (None, kept.settings["env"])
        and arm in (None, kept.settings["arm"])
        and batch_size in (None, batch_size_of(kept))
    ]


def batch_size_of(kept: Kept) -> int:
    """Transitions in an update, 32 where nothing else was asked for."""
    return int(kept.settings["overrides"].get("batch_size", _BATCH_SIZE))


def envs_of(evidence: Evidence, wanted: Iterable[str], arms: Sequence[str], batch_size: int | None = None) -> list[str]:
    """Those of the wanted environments that every arm was trained on, in their order."""
    return [env for env in wanted if all(trainings(evidence, env=env, arm=arm, batch_size=batch_size) for arm in arms)]


def row_of(kept: Kept, what: str, **fields: Any) -> dict[str, Any]:
    """The row of a training that says `what` and has these fields.

    Raises:
        LookupError: If there is none or more than one.
    """
    wanted = {"what": what, **fields}
    found = [row for row in kept.rows if all(row.get(name) == value for name, value in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows of {kept.settings['env']} have {wanted}, and one was expected.")
    return found[0]


def known_number(kept: Kept, what: str, name: str, **fields: Any) -> float | None:
    """A number of a row that older trainings do not have, nor very short ones; None then."""
    wanted = {"what": what, **fields}
    for row in kept.rows:
        if all(row.get(key) == value for key, value in wanted.items()) and row.get(name) is not None:
            return float(row[name])
    return None


def score_of(kept: Kept) -> float:
    """The paper's score at the end of training."""
    row = row_of(kept, "score")
    return float(row["evaluation"] if row["last_100"] is None else row["last_100"])


def score_over_time(kept: Kept) -> float:
    """Mean of the learning curve: what an agent scored from the first game to the last."""
    scores = row_of(kept, "curve")["score"]
    return float(np.mean(scores)) if scores else score_of(kept)


def target_push(kept: Kept) -> float:
    """What completion added to a target, on average over training; 0 where nothing is completed."""
    known = [value for value in row_of(kept, "learning").get("target_bias", ()) if value is not None]
    return float(np.mean(known)) if known else 0.0


SCORES: tuple[Measure, ...] = (score_of, score_over_time)
"""Measures in points of the game."""


def mean_rank(kept: Kept, energy: float = ENERGY, centred: bool = False) -> float:
    """Mean approximate rank over the batches of the study."""
    return float(row_of(kept, "rank", energy=energy, centred=centred)["mean"])


def centred_rank_share(kept: Kept) -> float:
    """Mean rank with row means taken out, over the most that it can be: A - 1 for A actions, which differ by game."""
    row = row_of(kept, "rank", energy=ENERGY, centred=True)
    return float(row["mean"]) / (len(row["histogram"]) - 2)  # the histogram begins with rank 0


def share_at_most(kept: Kept, rank: int, energy: float = ENERGY, centred: bool = False) -> float:
    """Share of the batches whose rank is at most so much."""
    counts = row_of(kept, "rank", energy=energy, centred=centred)["histogram"]
    return float(sum(counts[: rank + 1]) / sum(counts))


def rank_shares(cells: Sequence[Kept], energy: float = ENERGY, centred: bool = False) -> np.ndarray:
    """(A + 1,): share of the batches of rank 0, 1, ... A, seeds together."""
    counts = np.sum([row_of(kept, "rank", energy=energy, centred=centred)["histogram"] for kept in cells], axis=0)
    return counts / counts.sum()


def curves(cells: Sequence[Kept]) -> tuple[np.ndarray, np.ndarray]:
    """Steps (points,) at which all of these trainings have a score, and the scores (seeds, points)."""
    found = [dict(zip(row["steps"], row["score"], strict=True)) for row in (row_of(kept, "curve") for kept in cells)]
    steps = sorted(set.intersection(*(set(points) for points in found))) if found else []
    return np.array(steps, float), np.array([[points[step] for step in steps] for points in found], float)


def evaluations(cells: Sequence[Kept]) -> tuple[float, float]:
    """Agent steps at the end of training, and the mean of the evaluations there over seeds; NaN if there is none."""
    means = [row_of(kept, "score")["evaluation"] for kept in cells]
    known = [float(mean) for mean in means if mean is not None]
    return float(cells[0].settings["steps"]), float(np.mean(known)) if known else float("nan")


def values(
    evidence: Evidence, arm: str, envs: Iterable[str], measure: Measure = score_of, batch_size: int | None = None
) -> list[np.ndarray]:
    """For each environment the number of every seed, (seeds,)."""
    return [
        np.array([measure(kept) for kept in trainings(evidence, env=env, arm=arm, batch_size=batch_size)])
        for env in envs
    ]


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
