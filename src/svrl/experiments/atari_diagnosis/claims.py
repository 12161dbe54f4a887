"""What the paper says about rank and gain, and what we find."""

from __future__ import annotations

from functools import partial

import numpy as np

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.experiments.atari_diagnosis.settings import ENVS, GAMES, PAPER_RANKS, PAPER_SIGNS
from svrl.experiments.paper.claim import Claim, Finding
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.atari import PAIR, env_names
from svrl.experiments.training_cells.gains import Interval, gain_of, mean_interval, resampled, shown
from svrl.experiments.training_cells.reading import DEFINITIONS, envs_of, mean_rank, title_of, values
from svrl.experiments.training_cells.verdicts import ATARI_SCALES, settled
from svrl.reporting.aggregate import rank_correlation, rank_correlation_interval

NEAR = 0.25
"""Relative distance within which a rank agrees with one that the paper gives as "about"."""
_FEWEST_GAMES = 3


def got(figure: str, evidence: Evidence) -> str:
    """Rank and gain of each of the four games, and their correlation over all."""
    envs = envs_of(evidence, ENVS, PAIR)
    ranks, gains = ranks_and_gains(evidence, envs)
    found = [f"{title_of(env)} {rank:.1f}, {gain:+.0%}" for env, rank, gain in zip(envs, ranks, gains, strict=True)]
    tau, ends, games = correlation(evidence)
    told = f" Kendall's tau of rank and gain over {games} games is {tau:+.2f}{shown(ends)}." if games else ""
    missing = f" This budget has {len(envs)} of the {len(ENVS)} games." if len(envs) < len(ENVS) else ""
    return f"Rank of DQN and relative gain of structure: {'; '.join(found)}.{told}{missing}"


def ranks_and_gains(evidence: Evidence, envs: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """(envs,) each: mean rank of plain DQN over seeds, and relative gain."""
    ranks = np.array([seeds.mean() for seeds in values(evidence, PAIR[0], envs, mean_rank)])
    return ranks, gain_of(evidence, *PAIR, envs).relative


def correlation(evidence: Evidence) -> tuple[float, Interval | None, int]:
    """Kendall's tau-b of rank and gain, its interval over games, and the number of games; 0 if there are too few."""
    envs = envs_of(evidence, env_names(ALL_GAMES), PAIR)
    ranks, gains = ranks_and_gains(evidence, envs)
    if len(envs) < _FEWEST_GAMES or len(set(ranks)) < 2 or len(set(gains)) < 2:
        return 0.0, None, 0
    return rank_correlation(ranks, gains), rank_correlation_interval(ranks, gains), len(envs)


def judge_rank(game: str, evidence: Evidence) -> Finding:
    """The mean rank of one game against the paper's, under the paper's definition and under three others."""
    paper = PAPER_RANKS[game]
    (env,) = env_names((game,))
    found = {}
    for words, energy, centred in DEFINITIONS:
        found[words] = values(evidence, PAIR[0], (env,), partial(mean_rank, energy=energy, centred=centred))[0]
    first, *others = found
    fitting = [words for words in others if _near(found[words], paper)]
    holds = _near(found[first], paper)
    seeds = found[first]
    ends = mean_interval(seeds)
    otherwise = ""
    if fitting and not holds:
        seeds = found[fitting[0]]
        ends = mean_interval(seeds)
        otherwise = f"{seeds.mean():.1f} {fitting[0]}; by the paper's definition {found[first].mean():.1f}."
    all_of_them = ", ".join(f"{ranks.mean():.1f} {words}" for words, ranks in found.items())
    return settled(
        evidence,
        holds,
        ours=f"{seeds.mean():.1f}{shown(ends, 1)}",
        value=float(seeds.mean()),
        ends=ends,
        note=f"{all_of_them}.",
        otherwise=otherwise,
    )


def judge_signs(evidence: Evidence) -> Finding:
    """In how many of the four games the gain has the paper's sign."""
    envs = envs_of(evidence, ENVS, PAIR)
    signs = np.array([PAPER_SIGNS[env.removeprefix("atari/")] for env in envs])
    gains = gain_of(evidence, *PAIR, envs).relative
    count = int((np.sign(gains) == signs).sum())
    ends = resampled(lambda found: (np.sign(found) == signs).sum(-1), evidence, *PAIR, envs)
    told = ", ".join(f"{title_of(env)} {gain:+.0%}" for env, gain in zip(envs, gains, strict=True))
    holds = count == len(envs) == len(ENVS) and ends is not None and ends[0] >= len(ENVS) - 1
    return settled(
        evidence, holds, ours=f"{count}{shown(ends, 0)} of {len(envs)}", value=count, ends=ends, note=f"{told}."
    )


def judge_correlation(evidence: Evidence) -> Finding:
    """Whether games of lower rank gain more."""
    tau, ends, games = correlation(evidence)
    if not games:
        return settled(evidence, False, ours="", value=0.0, ends=None, note="Ranks or gains do not differ.")
    return settled(
        evidence,
        ends is not None and ends[1] < 0.0,
        ours=f"Kendall's tau {tau:+.2f}{shown(ends)} over {games} games",
        value=tau,
        ends=ends,
        note="The interval is over games.",
    )


def _near(ranks: np.ndarray, paper: float) -> bool:
    return bool(abs(ranks.mean() - paper) <= NEAR * paper)


def _rank_claim(game: str) -> Claim:
    name = game.title()
    return Claim(
        name=f"rank-of-{game}",
        figure="fig7",
        section="5",
        says=f"The approximate rank of DQN's values on {name} is about {PAPER_RANKS[game]}.",
        paper=f"about {PAPER_RANKS[game]}",
        test="Mean rank over batches and seeds; reproduced if it is within 25% of the paper's, under another "
        "definition if it is at 99.99% of the energy or with row means taken out.",
        judge=partial(judge_rank, game),
        scales=ATARI_SCALES,
    )


CLAIMS = (
    *(_rank_claim(game) for game in GAMES),
    Claim(
        name="gains-on-four-games",
        figure="fig7",
        section="5",
        says="Structure is better on Frostbite and Krull, slightly better on Alien and slightly worse on Seaquest.",
        paper="+, +, +, -",
        test="Signs of the gains; reproduced if all four agree, and three or more in the interval over seeds.",
        judge=judge_signs,
        scales=ATARI_SCALES,
    ),
    Claim(
        name="lower-rank-larger-gain",
        figure="fig7",
        section="5",
        says="Games of lower rank gain more from structure.",
        paper="decreasing over four games",
        test="Kendall's tau of mean rank and relative gain over all games of the budget; reproduced if its interval, "
        "by resampling games, lies below 0.",
        judge=judge_correlation,
        scales=ATARI_SCALES,
    ),
)
