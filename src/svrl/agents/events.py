"""The events of a training.

`Training.events` generates them; rows on disk, TensorBoard, progress bars, evaluation and checkpoints consume them.
Every step ends with a `Stepped`: then a consumer has every event of the steps so far, and may save.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events.

    Attributes:
        steps: Agent steps so far, over all environments.
        updates: Gradient updates so far.
    """

    steps: int
    updates: int


@dataclass(frozen=True, kw_only=True)
class Stepped(Event):
    """All environments stepped once, and the learner made the updates that were due. Cheap and frequent.

    Attributes:
        epsilon: Probability of a random action.
    """

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class EpisodeEnded(Event):
    """A whole game is over.

    Attributes:
        env: Number of the environment.
        score: Sum of raw rewards.
        length: Agent steps.
        truncated: Whether a limit cut it off.
    """

    env: int
    score: float
    length: int
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class Learned(Event):
    """Diagnostics, every `log_every` agent steps after the first update, on separately drawn states.

    Attributes:
        epsilon: Probability of a random action.
        loss: Mean loss since the last such event.
        q_mean, q_max: Mean and mean row maximum of the online network's values.
        target_mean: Mean target.
        p: Probability that an entry is observed, or None for a plain agent.
        target_bias: Mean value of the next states by the structured rule, minus that by the plain rule; 0 for a plain
            agent.
        target_gap: Mean absolute difference between the two.
        targets_changed: Share of the targets that structure changed.
        row_max_bias: Mean of the largest entry of a completed row, minus the largest of the network's row; 0 for a
            plain agent.
        held_out_error: Relative error of the estimator on entries that were not observed, or None.
        estimate_rank: Mean rank of the estimates, or None.
        estimates_converged: Share of the estimations that converged, or None.
        rank_99, rank_9999: Mean approximate rank of the target network's matrices at energy .99 and .9999.
        row_centred_rank_99: The same rank with each row's mean removed, at energy .99.
        feature_rank: Effective rank of the online network's last features; None if your own network has none.
        dormant: Share of the last features' units that are dormant; None if your own network has none.
    """

    epsilon: float
    loss: float
    q_mean: float
    q_max: float
    target_mean: float
    p: float | None
    target_bias: float
    target_gap: float
    targets_changed: float
    row_max_bias: float
    held_out_error: float | None
    estimate_rank: float | None
    estimates_converged: float | None
    rank_99: float
    rank_9999: float
    row_centred_rank_99: float
    feature_rank: float | None
    dormant: float | None


@dataclass(frozen=True, kw_only=True)
class Evaluated(Event):
    """An evaluation on separate environments.

    Attributes:
        scores: Raw score of each game.
        lengths: Agent steps of each game.
        human_normalised: Mean score with 0 for a random and 1 for a human player, or None except for Atari games.
    """

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    human_normalised: float | None

    @property
    def mean(self) -> float:
        """Mean score."""
        return sum(self.scores) / len(self.scores)


def asks_to_stop(answer: object) -> bool:
    """Whether a callback's return value ends training: False does, NumPy's too; None and everything else do not."""
    return isinstance(answer, bool | np.bool_) and not answer


def warn(sentence: str) -> None:
    """Warn at the line outside svrl that led here: the default for every argument `say`."""
    level, frame = 2, inspect.currentframe()
    while (frame := frame and frame.f_back) and frame.f_globals["__name__"].partition(".")[0] == "svrl":
        level += 1
    warnings.warn(sentence.removeprefix("Warning: "), stacklevel=level)
