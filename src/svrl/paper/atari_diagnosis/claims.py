"""What the paper says about rank and gain, and what we find."""

from __future__ import annotations

from functools import partial

import numpy as np

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.atari_diagnosis.settings import ENVS, GAMES, PAPER_RANKS, PAPER_SIGNS
from svrl.paper.claim import Claim, Finding
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.atari import PAIR, env_names
from svrl.paper.training_cells.gains import MARGIN, can_tell, gain_of, percent, resampled, shown, shown_percent
from svrl.paper.training_cells.reading import DEFINITIONS, envs_of, mean_rank, title_of, values
from svrl.paper.training_cells.relation import correlation, judge_falling, ranks_and_gains
from svrl.paper.training_cells.verdicts import ATARI_SCALES, nothing_yet, settled
from svrl.stats import interval_if_several, iqm

NEAR = 0.25
"""Relative distance within which a rank agrees with one that the paper gives as "about"."""
HIGH_RANK = 5.0
"""Alien's, which the paper calls moderate; what is above it is high."""
SLIGHTLY = 0.25
"""Largest relative loss that is called slight."""


def got(figure: str, evidence: Evidence) -> str:
    """Rank and gain of each of the four games, and their correlation over all."""
    envs = envs_of(evidence, ENVS, PAIR)
    if not envs:
        return f"None of the {len(ENVS)} games is in this budget."
    ranks, gains = ranks_and_gains(evidence, *PAIR, envs)
    found = [f"{title_of(env)} {rank:.1f}, {percent(gain)}" for env, rank, gain in zip(envs, ranks, gains, strict=True)]
    tau, ends, games = correlation(evidence, *PAIR, env_names(ALL_GAMES))
    told = f" Kendall's tau of rank and gain over {games} games is {tau:+.2f}{shown(ends)}." if games else ""
    missing = f" This budget has {len(envs)} of the {len(ENVS)} games." if len(envs) < len(ENVS) else ""
    return f"Rank of DQN and relative gain of structure: {'; '.join(found)}.{told}{missing}"


def judge_rank(game: str, evidence: Evidence) -> Finding:
    """The mean rank of one game against the paper's, under the paper's definition and under three others."""
    paper = PAPER_RANKS[game]
    (env,) = env_names((game,))
    if not envs_of(evidence, (env,), PAIR[:1]):
        return nothing_yet(evidence)
    found = {}
    for words, energy, centred in DEFINITIONS:
        found[words] = values(evidence, PAIR[0], (env,), partial(mean_rank, energy=energy, centred=centred))[0]
    first, *others = found
    fitting = [words for words in others if _near(found[words], paper)]
    holds = _near(found[first], paper)
    seeds = found[first]
    ends = interval_if_several(seeds)
    otherwise = ""
    if fitting and not holds:
        seeds = found[fitting[0]]
        ends = interval_if_several(seeds)
        otherwise = f"{seeds.mean():.1f} {fitting[0]}; by the paper's definition {found[first].mean():.1f}."
    all_of_them = ", ".join(f"{ranks.mean():.1f} {words}" for words, ranks in found.items())
    return settled(
        evidence,
        holds,
        ours=f"{seeds.mean():.1f}{shown(ends, 1)} {fitting[0] if otherwise else first}",
        value=float(seeds.mean()),
        ends=ends,
        note=f"{all_of_them}.",
        otherwise=otherwise,
        limit=None if otherwise else float(paper),
        side=0,
        within=NEAR * paper,
    )


def judge_signs(evidence: Evidence) -> Finding:
    """In how many of the four games the gain has the paper's sign."""
    envs = envs_of(evidence, ENVS, PAIR)
    if not envs:
        return nothing_yet(evidence)
    signs = np.array([PAPER_SIGNS[env.removeprefix("atari/")] for env in envs])
    gains = gain_of(evidence, *PAIR, envs).relative
    right = np.sign(gains) == signs
    count = int(right.sum())
    ends = resampled(lambda found: (np.sign(found) == signs).sum(-1), evidence, *PAIR, envs)
    if ends is not None:
        # One game's few seeds cannot tell its arms apart, so a wrong sign there may be luck and is not held against it.
        luck = sum(
            not can_tell(*(values(evidence, arm, (env,)) for arm in PAIR))
            for env, is_right in zip(envs, right, strict=True)
            if not is_right
        )
        ends = ends[0], min(ends[1] + luck, len(envs))
    told = ", ".join(f"{title_of(env)} {percent(gain)}" for env, gain in zip(envs, gains, strict=True))
    holds = count == len(envs) == len(ENVS) and ends is not None and ends[0] >= len(ENVS) - 1
    ours = f"{count}{shown(ends, 0)} of {len(envs)}"
    return settled(evidence, holds, ours=ours, value=count, ends=ends, note=f"{told}.", limit=len(envs))


def judge_high_rank(evidence: Evidence) -> Finding:
    """Games of high rank, put together: at best comparable, at worst slightly worse."""
    every = envs_of(evidence, env_names(ALL_GAMES), PAIR)
    if not every:
        return nothing_yet(evidence)
    ranks, gains = ranks_and_gains(evidence, *PAIR, every)
    high = ranks > HIGH_RANK
    envs = [env for env, chosen in zip(every, high, strict=True) if chosen]
    if not envs:
        note = f"No game has a mean rank above {HIGH_RANK:g}; the highest is {ranks.max():.1f}."
        return settled(evidence, False, ours="", value=None, ends=None, note=note)
    middle = float(_middle(gains[high]))
    ends = resampled(_middle, evidence, *PAIR, envs)
    holds = ends is not None and -SLIGHTLY <= ends[0] <= ends[1] <= MARGIN
    told = ", ".join(f"{title_of(env)} {percent(gain)}" for env, gain in zip(envs, gains[high], strict=True))
    return settled(
        evidence,
        holds,
        ours=f"{percent(middle)}{shown_percent(ends)}, IQM of {len(envs)} game{'s' if len(envs) > 1 else ''}",
        value=middle,
        ends=ends,
        note=f"{told}.",
        limit=(MARGIN - SLIGHTLY) / 2,
        side=0,
        within=(MARGIN + SLIGHTLY) / 2,
    )


def _middle(gains: np.ndarray) -> np.ndarray:
    """(...): interquartile mean over games of relative gains (..., games)."""
    return iqm(gains[..., None, :])


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
        judge=partial(judge_falling, *PAIR, env_names(ALL_GAMES)),
        scales=ATARI_SCALES,
    ),
    Claim(
        name="high-rank-comparable-or-slightly-worse",
        figure="fig7",
        section="1",
        says="Games of high rank perform comparably with structure, or only slightly worse.",
        paper="comparable or slightly worse",
        test=f"Interquartile mean of the relative gains over all games whose mean rank is above {HIGH_RANK:g}, which "
        f"the paper calls moderate; reproduced if its whole interval, by resampling seeds within each game, lies "
        f"between -{SLIGHTLY:.0%} and +{MARGIN:.0%}.",
        judge=judge_high_rank,
        scales=ATARI_SCALES,
    ),
)
