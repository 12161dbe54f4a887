"""Our claims on values: are they too high, what does estimation make of them, and does their centred rank tell a gain?

The paper asks none of it. All are about the networks at the end of training (`svrl.agents.optimism` and
`svrl.agents.estimation_study`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from svrl.envs.atari_games import GAMES
from svrl.paper.claim import Claim, Finding
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.atari import ARMS_OF, env_names
from svrl.paper.training_cells.gains import shown
from svrl.paper.training_cells.reading import centred_rank_share, known_number, title_of, trainings
from svrl.paper.training_cells.relation import FEWEST_GAMES, correlation, judge_falling
from svrl.paper.training_cells.verdicts import ATARI_SCALES, nothing_yet, settled
from svrl.stats import interval_if_several, mean_over_games_interval, mean_score

FIGURE = "values"
PLAIN, STRUCTURED, NETWORK = ARMS_OF["dqn"]
SCALINGS = ("minmax", "row")
WORDS = {STRUCTURED: "structured", NETWORK: "structured, valued by the network"}
_DQN = env_names(GAMES)
Number = Callable[[Kept], float | None]


def optimism_in(kept: Kept) -> float | None:
    """Best values less discounted returns."""
    return known_number(kept, "optimism", "optimism")


def beyond_row_mean(kept: Kept, scale: str) -> float | None:
    """Error on hidden entries over that of the row's mean."""
    return known_number(kept, "estimation", "beyond_row_mean", scale=scale)


def numbers(evidence: Evidence, arm: str, env: str, number: Number) -> np.ndarray:
    """(seeds,) of those trainings with batches of 32 that know it."""
    found = [number(kept) for kept in trainings(evidence, env=env, arm=arm, batch_size=32)]
    return np.array([value for value in found if value is not None])


def known_envs(evidence: Evidence, arms: Sequence[str], number: Number) -> list[str]:
    """Games of which every arm knows it."""
    return [env for env in _DQN if all(len(numbers(evidence, arm, env, number)) for arm in arms)]


def knows_values(evidence: Evidence) -> bool:
    """Whether any training says what estimation makes of its values."""
    return bool(known_envs(evidence, (PLAIN,), partial(beyond_row_mean, scale=SCALINGS[0])))


def judge_optimism(arm: str, evidence: Evidence) -> Finding:
    """Whether an arm expects less beyond what it gets than plain DQN does."""
    envs = known_envs(evidence, (PLAIN, arm), optimism_in)
    if not envs:
        return nothing_yet(evidence)
    theirs, ours = ([numbers(evidence, which, env, optimism_in) for env in envs] for which in (PLAIN, arm))
    change = float(mean_score(ours) - mean_score(theirs))
    ends = mean_over_games_interval(ours, theirs)
    told = ", ".join(
        f"{title_of(env)} {x.mean():+.2g} against {y.mean():+.2g}" for env, x, y in zip(envs, ours, theirs, strict=True)
    )
    return settled(
        evidence,
        ends is not None and ends[1] < 0.0,
        ours=f"{change:+.2g}{shown(ends)}, {_mean_of(envs)}",
        value=change,
        ends=ends,
        note=f"Optimism: {told}.",
        limit=0.0,
        side=-1,
    )


def judge_estimation(scale: str, evidence: Evidence) -> Finding:
    """Whether estimation finds hidden entries better than their row's mean does, on plain DQN's values."""
    number = partial(beyond_row_mean, scale=scale)
    envs = known_envs(evidence, (PLAIN,), number)
    if not envs:
        return nothing_yet(evidence)
    errors = [numbers(evidence, PLAIN, env, number) for env in envs]
    middle = float(mean_score(errors))
    ends = mean_over_games_interval(errors)
    kept = [
        numbers(evidence, PLAIN, env, lambda one: known_number(one, "estimation", "best_kept", scale=scale)).mean()
        for env in envs
    ]
    told = ", ".join(f"{title_of(env)} {found.mean():.2f}" for env, found in zip(envs, errors, strict=True))
    over_games = (
        interval_if_several(np.array([found.mean() for found in errors])) if len(errors) >= FEWEST_GAMES else None
    )
    others = f" The interval over games, for games that were not run, is{shown(over_games)}." if over_games else ""
    return settled(
        evidence,
        ends is not None and ends[1] < 1.0,
        ours=f"{middle:.2f}{shown(ends)}, {_mean_of(envs)}",
        value=middle,
        ends=ends,
        note=f"{told}. The best action stays the best in {np.mean(kept):.0%} of the rows.{others}",
        limit=1.0,
        side=-1,
    )


def _mean_of(envs: Sequence[str]) -> str:
    return title_of(envs[0]) if len(envs) == 1 else f"mean of {len(envs)} games"


def _optimism_claim(arm: str, name: str) -> Claim:
    return Claim(
        name=name,
        figure=FIGURE,
        section="",
        says=f"DQN is less optimistic if it is {WORDS[arm]}.",
        paper="not in the paper",
        test="Largest value of a state less the discounted return from there, at the end of training, structured less "
        "plain, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 0.",
        judge=partial(judge_optimism, arm),
        scales=ATARI_SCALES,
    )


def _estimation_claim(scale: str, name: str, words: str) -> Claim:
    return Claim(
        name=name,
        figure=FIGURE,
        section="",
        says=f"Soft-Impute {words} finds hidden entries of DQN's values better than the mean of their row does.",
        paper="not in the paper",
        test="Error on the 10% of the entries that are hidden, over the error of the mean of the row's observed "
        "entries, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 1.",
        judge=partial(judge_estimation, scale),
        scales=ATARI_SCALES,
    )


VALUE_CLAIMS = (
    _optimism_claim(STRUCTURED, "structure-lowers-optimism"),
    _optimism_claim(NETWORK, "structured-choice-lowers-optimism"),
    _estimation_claim("minmax", "estimation-beats-row-means", "with the authors' scaling"),
    _estimation_claim("row", "estimation-of-centred-rows-beats-row-means", "with rows centred"),
    Claim(
        name="lower-centred-rank-larger-gain",
        figure=FIGURE,
        section="",
        says="Games gain more from structure if their values have a lower rank once row means are taken out.",
        paper="not in the paper, which says so of the rank as it is",
        test="Kendall's tau of that rank, as a share of the most that the game's actions allow, and relative gain "
        "over all games of the budget; holds if its interval, by resampling games, lies below 0. Few actions reach a "
        "large share more easily.",
        judge=partial(judge_falling, PLAIN, STRUCTURED, _DQN, rank=centred_rank_share),
        scales=ATARI_SCALES,
    ),
)


def told_of_values(evidence: Evidence) -> str:
    """Optimism of each arm, and errors of each scaling."""
    found = []
    for arm in (PLAIN, STRUCTURED, NETWORK):
        envs = known_envs(evidence, (arm,), optimism_in)
        if envs:
            each = (f"{title_of(env)} {numbers(evidence, arm, env, optimism_in).mean():+.2g}" for env in envs)
            found.append(f"{arm} {', '.join(each)}")
    optimism = f"Best values less discounted returns: {'; '.join(found)}. " if found else ""
    errors = []
    for scale in SCALINGS:
        number = partial(beyond_row_mean, scale=scale)
        envs = known_envs(evidence, (PLAIN,), number)
        if envs:
            each = (f"{title_of(env)} {numbers(evidence, PLAIN, env, number).mean():.2f}" for env in envs)
            errors.append(f"scale {scale}: {', '.join(each)}")
    told = (
        f"Error on hidden entries of DQN's values, where the row's mean has 1: {'; '.join(errors)}." if errors else ""
    )
    tau, ends, games = correlation(evidence, PLAIN, STRUCTURED, _DQN, centred_rank_share)
    relation = (
        f" Kendall's tau of gain and rank with row means taken out, as a share of the possible, over {games} games: "
        f"{tau:+.2f}{shown(ends)}."
        if games
        else ""
    )
    return f"{optimism}{told}{relation}" or "No training of this budget knows it."
