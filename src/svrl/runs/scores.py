"""How good the runs of a sweep are: one number a run, and over seeds its mean and interquartile mean with intervals.

The number of a training is its score, the mean of its last 100 games, so far if it goes on. Where all subjects are
Atari games it is human-normalised, (score - random) / (human - random). The number of a plan is what its policy loses
against the optimum, over the range of the optimal values: less is better.

Numbers are taken together over the seeds of a variant on a subject: of the finished runs, or, where none is finished,
of those under way, which is said. Over several subjects only numbers of one scale are taken together, so raw scores of
several environments are not. Subjects weigh the same. Intervals are of 95%, by the rules of `svrl.stats`; the
interquartile mean of fewer than ten runs of one subject has none, since the bootstrap's is too narrow there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from svrl.runs.spec import RunSpec

ATARI = "atari/"
LAST_GAMES = 100


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a sweep's runs are compared by.

    Attributes:
        name: human_normalised, score_last_100 or policy_loss_relative; empty if the runs have no common one.
        text: What it is, in words.
        less_is_better: Whether the smallest is the best.
        reason: Why it may not be taken together over subjects; empty if it may.
    """

    name: str
    text: str
    less_is_better: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A run as far as its number is concerned."""

    id: str
    subject: str
    variant: str
    state: str
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ by their seeds only, or those of a variant on all subjects.

    Attributes:
        subject: The environment or task; None for all.
        variant: The arm, with the settings that vary.
        runs: How many there are.
        done: How many are finished.
        scored: How many the numbers are of.
        subjects: On how many subjects they are.
        subjects_scored: On how many of those there is a number.
        provisional: Whether those are still under way.
        mean, mean_low, mean_high: Mean with its interval; None if there is nothing, or one run only.
        iqm, iqm_low, iqm_high: The interquartile mean with its interval; None as above, or with too few runs.
        best: The best number.
        best_run: Id of the run that has it.
    """

    subject: str | None
    variant: str
    runs: int
    done: int
    scored: int
    subjects: int
    subjects_scored: int
    provisional: bool
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    iqm: float | None = None
    iqm_low: float | None = None
    iqm_high: float | None = None
    best: float | None = None
    best_run: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For the answer to --json."""
        return asdict(self)


def measure_of(specs: Iterable[RunSpec]) -> Measure:
    """What runs are compared by; it follows from what they are, not from how far they came."""
    every = list(specs)
    kinds, subjects = {spec.kind.name for spec in every}, {spec.subject for spec in every}
    if len(kinds) > 1:
        return Measure(name="", text="no common score", reason="trainings and plans have no common score")
    if kinds == {"plan"}:
        return Measure(name="policy_loss_relative", text="relative policy loss, less is better", less_is_better=True)
    if subjects and all(subject.startswith(ATARI) for subject in subjects):
        return Measure(name="human_normalised", text="human-normalised score, mean of the last 100 games")
    many = f"scores of {len(subjects)} environments are on {len(subjects)} scales" if len(subjects) > 1 else ""
    return Measure(name="score_last_100", text="score, mean of the last 100 games", reason=many)


def finished_score(measure: Measure, spec: RunSpec, result: Mapping[str, Any]) -> float | None:
    """The number of a finished run from its result.json."""
    name = "policy_loss_relative" if measure.name == "policy_loss_relative" else "score_last_100"
    return _scaled(measure, spec, result.get(name))


def score_so_far(measure: Measure, spec: RunSpec, episodes: Sequence[Mapping[str, Any]]) -> float | None:
    """The number of a training under way, from the last rows of its episodes."""
    scores = [row["score"] for row in episodes[-LAST_GAMES:] if _is_number(row.get("score"))]
    return _scaled(measure, spec, math.fsum(scores) / len(scores)) if scores else None


def groups_of(measure: Measure, runs: Iterable[Scored]) -> tuple[Group, ...]:
    """A group for every subject and variant: subject by subject, both in the order in which they come."""
    found: dict[str, dict[str, list[Scored]]] = {}
    for run in runs:
        found.setdefault(run.subject, {}).setdefault(run.variant, []).append(run)
    return tuple(
        _group(measure, subject, variant, [runs])
        for subject, by_variant in found.items()
        for variant, runs in by_variant.items()
    )


def variants_of(measure: Measure, runs: Iterable[Scored]) -> tuple[Group, ...]:
    """A group for every variant over all subjects; none if there is one subject, or no common scale."""
    found: dict[str, dict[str, list[Scored]]] = {}
    for run in runs:
        found.setdefault(run.variant, {}).setdefault(run.subject, []).append(run)
    if measure.reason or len({subject for by_subject in found.values() for subject in by_subject}) < 2:
        return ()
    return tuple(_group(measure, None, variant, list(by_subject.values())) for variant, by_subject in found.items())


def best_of(measure: Measure, runs: Iterable[Scored]) -> Scored | None:
    """The best run so far; None without any, or without a common scale."""
    scored = [run for run in runs if run.score is not None]
    if not scored or measure.reason:
        return None
    sign = -1.0 if measure.less_is_better else 1.0
    return max(scored, key=lambda run: sign * (run.score or 0.0))


def _group(measure: Measure, subject: str | None, variant: str, by_subject: Sequence[Sequence[Scored]]) -> Group:
    runs = [run for runs in by_subject for run in runs]
    done = sum(run.state == "done" for run in runs)
    states = ("done",) if done else ("running", "stopped")
    counted = [[run for run in runs if run.state in states and run.score is not None] for runs in by_subject]
    counted = [runs for runs in counted if runs]
    flat = [run for runs in counted for run in runs]
    best = best_of(Measure(name="", text="", less_is_better=measure.less_is_better), flat)
    numbers = _numbers(tuple(tuple(run.score or 0.0 for run in runs) for runs in counted)) if flat else {}
    return Group(
        subject=subject,
        variant=variant,
        runs=len(runs),
        done=done,
        scored=len(flat),
        subjects=len(by_subject),
        subjects_scored=len(counted),
        provisional=bool(flat) and not done,
        best=None if best is None else best.score,
        best_run=None if best is None else best.id,
        **numbers,
    )


@functools.lru_cache(maxsize=4096)
def _numbers(scores: tuple[tuple[float, ...], ...]) -> dict[str, float | None]:
    """Means and intervals of the scores of each subject. They are asked for again and again while nothing changes."""
    import numpy as np

    from svrl import stats

    games = [np.array(seeds, float) for seeds in scores]
    found: dict[str, float | None] = {
        "mean": float(stats.mean_score(games)),
        "iqm": float(stats.iqm(games)),
    }
    if max(map(len, scores)) > 1:
        ends = stats.mean_interval(scores[0]) if len(scores) == 1 else stats.mean_over_games_interval(games)
        if ends is not None:
            found["mean_low"], found["mean_high"] = ends
        if sum(map(len, scores)) >= stats.FEW or len(scores) > 1:
            found["iqm_low"], found["iqm_high"] = stats.stratified_interval(stats.iqm, games)
    return found


def _scaled(measure: Measure, spec: RunSpec, score: Any) -> float | None:
    if not _is_number(score) or not measure.name:
        return None
    if measure.name != "human_normalised":
        return float(score)
    from svrl.envs.atari_games import human_normalised

    try:
        return human_normalised(spec.subject, float(score))
    except ValueError:  # a game without a human score
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
