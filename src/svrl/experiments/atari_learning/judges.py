"""How the claims on scores are judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from svrl.envs.atari_games import GAMES
from svrl.experiments.atari_learning.settings import FIG6, GAMES_OF, TECHNIQUES_OF
from svrl.experiments.paper.claim import Finding, Verdict
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.atari import PAIR, TECHNIQUES, env_names, game_of
from svrl.experiments.training_cells.gains import MARGIN, gain_of, labels_of, relative_gains, resampled, shown
from svrl.experiments.training_cells.reading import (
    curves,
    envs_of,
    mean_rank,
    score_over_time,
    title_of,
    trainings,
    values,
)
from svrl.experiments.training_cells.verdicts import counted, improved, settled
from svrl.reporting.aggregate import interval

MOST_POINTS = 0.9
AGREEMENT = 0.8
LOW_RANK = 3.0
_SIGNS = {"better": 1, "slightly better": 1, "similar": 0, "worse": -1}


def judge_technique(kind: str, evidence: Evidence) -> Finding:
    """Higher throughout training: averaged over time, and at most points of every game."""
    arms = kind, f"sv-{kind}"
    envs = envs_of(evidence, env_names(FIG6), arms)
    gain = gain_of(evidence, *arms, envs, measure=score_over_time)
    above = [share_above(evidence, *arms, env) for env in envs]
    ends = gain.improvement_interval
    low = [f"{title_of(env)} {share:.0%}" for env, share in zip(envs, above, strict=True) if share < MOST_POINTS]
    note = f"Above at too few points: {counted(low)}." if low else "Above at nearly all points of every game."
    if not low:
        return improved(evidence, gain, note)
    return settled(evidence, False, ours=str(gain), value=gain.improvement, ends=ends, note=note)


def share_above(evidence: Evidence, plain: str, structured: str, env: str) -> float:
    """Share of the points of time at which the structured mean over seeds is the higher one."""
    (at, theirs), (also_at, ours) = (curves(trainings(evidence, env=env, arm=arm)) for arm in (plain, structured))
    _, left, right = np.intersect1d(at, also_at, return_indices=True)
    if not len(left):
        return 0.0
    return float((ours.mean(0)[right] > theirs.mean(0)[left]).mean())


def judge_consistent(evidence: Evidence) -> Finding:
    """In how many of the 12 panels the structured agent ends higher."""
    envs = envs_of(evidence, env_names(FIG6), [arm for kind in TECHNIQUES for arm in (kind, f"sv-{kind}")])
    theirs = [scores for kind in TECHNIQUES for scores in values(evidence, kind, envs)]
    ours = [scores for kind in TECHNIQUES for scores in values(evidence, f"sv-{kind}", envs)]
    panels = list(envs) * len(TECHNIQUES)
    count = int((relative_gains(theirs, ours, panels) > 0).sum())
    seeds = min(len(scores) for scores in theirs + ours)
    ends = interval(lambda x, y: (relative_gains(x, y, panels) > 0).sum(-1), theirs, ours) if seeds > 1 else None
    holds = count == len(panels) and ends is not None and ends[0] >= 0.75 * len(panels)
    return settled(evidence, holds, ours=f"{count}{shown(ends, 0)} of {len(panels)} panels", value=count, ends=ends)


def judge_labels(figure: str, evidence: Evidence) -> Finding:
    """The share of a figure's labelled games whose gain has the label's direction."""
    (kind,) = TECHNIQUES_OF[figure]
    arms = kind, f"sv-{kind}"
    labelled = [env for env in env_names(GAMES_OF[figure]) if label_of(env, kind)]
    envs = envs_of(evidence, labelled, arms)
    signs = np.array([_SIGNS[label_of(env, kind)] for env in envs])
    agree = agreeing(gain_of(evidence, *arms, envs).relative, signs)
    share = float(agree.mean())
    ends = resampled(lambda gains: agreeing(gains, signs).mean(-1), evidence, *arms, envs)
    others = [title_of(env) for env, fits in zip(envs, agree, strict=True) if not fits]
    holds = share >= AGREEMENT and ends is not None and ends[0] > 0.5
    return settled(
        evidence,
        holds,
        ours=f"{int(agree.sum())} of {len(envs)} games, {share:.0%}{shown(ends)}",
        value=share,
        ends=ends,
        note=f"Against their labels: {counted(others)}.",
    )


def agreeing(gains: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(..., games): whether relative gains have the direction of labels; similar is within the margin."""
    return np.where(signs == 0, np.abs(gains) <= MARGIN, np.sign(gains) == signs)


def label_of(env: str, kind: str) -> str:
    """The paper's label of a game for a technique; empty if it has none."""
    game = game_of(env)
    return {"dqn": game.paper_dqn, "double": game.paper_double, "dueling": game.paper_dueling}[kind]


def judge_benefit(evidence: Evidence) -> Finding:
    """How many games gain more than the margin."""
    count, ends, games = _games_with(evidence, lambda gains: labels_of(gains) == 1)
    holds = ends is not None and ends[1] >= 43
    return settled(evidence, holds, ours=f"{count}{shown(ends, 0)} of {games}", value=count, ends=ends)


def judge_worse(evidence: Evidence) -> Finding:
    """How many games lose more than the margin."""
    count, ends, games = _games_with(evidence, lambda gains: labels_of(gains) == -1)
    holds = ends is not None and ends[0] <= 4 <= ends[1]
    return settled(evidence, holds, ours=f"{count}{shown(ends, 0)} of {games}", value=count, ends=ends)


def judge_low_rank(evidence: Evidence) -> Finding:
    """In how many games plain DQN's values have a mean rank of at most 3."""
    envs = envs_of(evidence, env_names(GAMES), ("dqn",))
    ranks = values(evidence, "dqn", envs, mean_rank)
    count = int(_low(ranks).sum())
    ends = interval(lambda x: _low(x).sum(-1), ranks) if min(map(len, ranks)) > 1 else None
    centred = values(evidence, "dqn", envs, lambda kept: mean_rank(kept, centred=True))
    return settled(
        evidence,
        ends is not None and ends[0] > 40,
        ours=f"{count}{shown(ends, 0)} of {len(envs)}",
        value=count,
        ends=ends,
        note=f"With row means taken out: {int(_low(centred).sum())}.",
    )


def judge_label_count(evidence: Evidence) -> Finding:
    """The labels of figures 23 to 26, counted; no run is needed."""
    found = Counter(game.paper_dqn for game in GAMES.values())
    better = found["better"] + found["slightly better"]
    ours = (
        f"{found['better']} better and {found['slightly better']} slightly better are {better}; "
        f"{found['similar']} similar, {found['worse']} worse, {found['']} without a label"
    )
    verdict = Verdict.REPRODUCED if better == 43 else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=ours, value=better, note="Counted from the labels alone.")


def judge_actions(evidence: Evidence) -> Finding:
    """Games with 18 actions, counted; no run is needed."""
    count = sum(game.actions == 18 for game in GAMES.values())
    verdict = Verdict.REPRODUCED if 2 * count > len(GAMES) else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"{count} of {len(GAMES)}", value=count)


def _games_with(
    evidence: Evidence, chosen: Callable[[np.ndarray], np.ndarray]
) -> tuple[int, tuple[float, float] | None, int]:
    """How many games of DQN are chosen by their relative gain, with its interval, and of how many."""
    envs = envs_of(evidence, env_names(GAMES), PAIR)
    count = int(chosen(gain_of(evidence, *PAIR, envs).relative).sum())
    return count, resampled(lambda gains: chosen(gains).sum(-1), evidence, *PAIR, envs), len(envs)


def _low(ranks: Sequence[np.ndarray]) -> np.ndarray:
    """(..., games): whether the mean over seeds is low, from ranks (..., seeds) of each game."""
    return np.stack([game.mean(-1) <= LOW_RANK for game in ranks], axis=-1)
