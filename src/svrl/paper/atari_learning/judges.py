"""How the claims on scores are judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from svrl.envs.atari_games import GAMES
from svrl.paper.atari_learning.settings import FIG6, GAMES_OF, TECHNIQUES_OF
from svrl.paper.claim import Finding, Verdict
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.atari import PAIR, TECHNIQUES, env_names, game_of
from svrl.paper.training_cells.gains import MARGIN, can_tell, gain_of, labels_of, relative_gains, resampled, shown
from svrl.paper.training_cells.reading import (
    curves,
    envs_of,
    mean_rank,
    score_over_time,
    title_of,
    trainings,
    values,
)
from svrl.paper.training_cells.relation import ranks_and_gains
from svrl.paper.training_cells.verdicts import counted, improved, mostly_low, nothing_yet, settled
from svrl.stats import probability_of_improvement, stratified_interval

MOST_POINTS = 0.9
AGREEMENT = 0.8
LOW_RANK = 3.0
_SIGNS = {"better": 1, "slightly better": 1, "similar": 0, "worse": -1}


def judge_technique(kind: str, evidence: Evidence) -> Finding:
    """Higher throughout training: averaged over time, and at most points of every game."""
    arms = kind, f"sv-{kind}"
    envs = envs_of(evidence, env_names(FIG6), arms)
    if not envs:
        return nothing_yet(evidence)
    gain = gain_of(evidence, *arms, envs, measure=score_over_time)
    above = [share_above(evidence, *arms, env) for env in envs]
    ends = gain.improvement_interval
    low = [f"{title_of(env)} {share:.0%}" for env, share in zip(envs, above, strict=True) if share < MOST_POINTS]
    note = f"Above at too few points: {counted(low)}." if low else "Above at nearly all points of every game."
    if len(envs) < len(FIG6):
        note += f" {len(envs)} of the {len(FIG6)} games are there."
    elif not low:
        return improved(evidence, gain, note)
    return settled(evidence, False, ours=str(gain), value=gain.improvement, ends=ends, note=note, limit=0.5)


def share_above(evidence: Evidence, plain: str, structured: str, env: str) -> float:
    """Share of the points of time at which the structured mean over seeds is the higher one."""
    (at, theirs), (also_at, ours) = (curves(trainings(evidence, env=env, arm=arm)) for arm in (plain, structured))
    _, left, right = np.intersect1d(at, also_at, return_indices=True)
    if not len(left):
        return 0.0
    return float((ours.mean(0)[right] > theirs.mean(0)[left]).mean())


def judge_consistent(evidence: Evidence) -> Finding:
    """In how many of the 12 panels, or of those that are there, the structured agent ends higher."""
    found = {kind: envs_of(evidence, env_names(FIG6), (kind, f"sv-{kind}")) for kind in TECHNIQUES}
    if not all(found.values()):
        return nothing_yet(evidence)
    theirs = [scores for kind, envs in found.items() for scores in values(evidence, kind, envs)]
    ours = [scores for kind, envs in found.items() for scores in values(evidence, f"sv-{kind}", envs)]
    panels = [env for envs in found.values() for env in envs]
    count = int((relative_gains(theirs, ours, panels) > 0).sum())
    tells = can_tell(theirs, ours)
    ends = stratified_interval(lambda x, y: (relative_gains(x, y, panels) > 0).sum(-1), theirs, ours) if tells else None
    holds = count == len(FIG6) * len(TECHNIQUES) and ends is not None and ends[0] >= 0.75 * len(panels)
    words = f"{count}{shown(ends, 0)} of {len(panels)} panels"
    return settled(evidence, holds, ours=words, value=count, ends=ends, limit=len(panels))


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
        limit=AGREEMENT,
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
    return _near_count(evidence, 1, paper=43, near=5, widest=10)


def judge_worse(evidence: Evidence) -> Finding:
    """How many games lose more than the margin."""
    return _near_count(evidence, -1, paper=4, near=2, widest=4)


def _near_count(evidence: Evidence, label: int, *, paper: int, near: int, widest: int) -> Finding:
    """Whether so many games have a label as in the paper, surely enough that noise cannot do it.

    Args:
        evidence: What to read.
        label: 1 for better, -1 for worse.
        paper: Games of the paper.
        near: Largest distance of the count.
        widest: Games that the interval over seeds may span.
    """
    envs = envs_of(evidence, env_names(GAMES), PAIR)
    count = int((labels_of(gain_of(evidence, *PAIR, envs).relative) == label).sum())
    ends = resampled(lambda gains: (labels_of(gains) == label).sum(-1), evidence, *PAIR, envs)
    holds = abs(count - paper) <= near and ends is not None and ends[1] - ends[0] <= widest
    ours = f"{count}{shown(ends, 0)} of {len(envs)}"
    return settled(evidence, holds, ours=ours, value=count, ends=ends, limit=paper)


def judge_worse_rank(evidence: Evidence) -> Finding:
    """Whether the games that lose have higher ranks than the others, and ranks that are not low."""
    envs = envs_of(evidence, env_names(GAMES), PAIR)
    if not envs:
        return nothing_yet(evidence)
    ranks, gains = ranks_and_gains(evidence, *PAIR, envs)
    worse = labels_of(gains) == -1
    if worse.sum() < 2 or worse.all():
        note = f"{int(worse.sum())} of {len(envs)} games lose more than {MARGIN:.0%}: two and some others are needed."
        return settled(evidence, False, ours="", value=None, ends=None, note=note)
    groups = [ranks[worse]], [ranks[~worse]]
    chance = float(probability_of_improvement(*groups))
    ends = stratified_interval(probability_of_improvement, *groups)
    middle, others = float(np.median(ranks[worse])), float(np.median(ranks[~worse]))
    told = [f"{title_of(env)} {rank:.1f}" for env, rank, chosen in zip(envs, ranks, worse, strict=True) if chosen]
    return settled(
        evidence,
        ends[0] > 0.5 and middle > LOW_RANK,
        ours=f"probability {chance:.2f}{shown(ends)} that a worse game has the higher rank, "
        f"median {middle:.1f} against {others:.1f}",
        value=chance,
        ends=ends,
        note=f"Ranks of the worse games: {counted(told)}. The interval is over games.",
        limit=0.5,
    )


def judge_low_games(evidence: Evidence) -> Finding:
    """The share of batches of rank 3 or less in the game of figure 6 where it is least, with plain DQN."""
    envs = envs_of(evidence, env_names(FIG6), PAIR[:1])
    return mostly_low(evidence, PAIR[0], envs, int(LOW_RANK), expected=len(FIG6))


def judge_low_rank(evidence: Evidence) -> Finding:
    """In how many games plain DQN's values have a mean rank of at most 3."""
    envs = envs_of(evidence, env_names(GAMES), ("dqn",))
    ranks = values(evidence, "dqn", envs, mean_rank)
    count = int(_low(ranks).sum())
    ends = stratified_interval(lambda x: _low(x).sum(-1), ranks) if min(map(len, ranks)) > 1 else None
    centred = values(evidence, "dqn", envs, lambda kept: mean_rank(kept, centred=True))
    return settled(
        evidence,
        ends is not None and ends[0] > 40,
        ours=f"{count}{shown(ends, 0)} of {len(envs)}",
        value=count,
        ends=ends,
        note=f"With row means taken out: {int(_low(centred).sum())}.",
        limit=40,
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
    note = "Counted in svrl's table of games, the minimal action sets of the emulator; the paper prints no list."
    return Finding(verdict=verdict, ours=f"{count} of {len(GAMES)}", value=count, note=note)


def _low(ranks: Sequence[np.ndarray]) -> np.ndarray:
    """(..., games): whether the mean over seeds is low, from ranks (..., seeds) of each game."""
    return np.stack([game.mean(-1) <= LOW_RANK for game in ranks], axis=-1)
