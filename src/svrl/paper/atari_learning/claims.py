"""What the paper says about scores on Atari, as claims."""

from __future__ import annotations

from functools import partial

from svrl.paper.atari_learning.judges import (
    judge_actions,
    judge_benefit,
    judge_consistent,
    judge_label_count,
    judge_labels,
    judge_low_games,
    judge_low_rank,
    judge_technique,
    judge_worse,
    judge_worse_rank,
)
from svrl.paper.atari_learning.settings import GAMES_OF, TECHNIQUES_OF
from svrl.paper.claim import Claim
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.atari import TECHNIQUES, env_names
from svrl.paper.training_cells.gains import gain_of
from svrl.paper.training_cells.reading import envs_of
from svrl.paper.training_cells.relation import judge_falling
from svrl.paper.training_cells.verdicts import ATARI_SCALES, EVERY_SCALE

_FULL = ("full",)
_NAMES = {"dqn": "DQN", "double": "double DQN", "dueling": "dueling DQN"}


def got(figure: str, evidence: Evidence) -> str:
    """Gains of the figure's techniques, and which panels are missing."""
    games, found = env_names(GAMES_OF[figure]), []
    panels = 0
    for kind in TECHNIQUES_OF[figure]:
        envs = envs_of(evidence, games, (kind, f"sv-{kind}"))
        panels += len(envs)
        if envs:
            found.append(f"{_NAMES[kind]}: {gain_of(evidence, kind, f'sv-{kind}', envs)}")
    expected = len(games) * len(TECHNIQUES_OF[figure])
    missing = f" This budget has {panels} of its {expected} panels." if panels < expected else ""
    return f"{'; '.join(found)}.{missing}" if found else f"None of its games is in this budget.{missing}"


def has_panels(figure: str, evidence: Evidence) -> bool:
    """Whether a game of the figure was trained with and without structure."""
    games = env_names(GAMES_OF[figure])
    return any(envs_of(evidence, games, (kind, f"sv-{kind}")) for kind in TECHNIQUES_OF[figure])


def _technique(kind: str) -> Claim:
    return Claim(
        name=f"{kind}-gains-across-time",
        figure="fig6",
        section="4.3",
        says=f"With structure {_NAMES[kind]} has higher scores throughout training in all four games.",
        paper="higher in all 4 games, at all times",
        test="Score averaged over training: reproduced if the interval of the probability of improvement, by "
        "resampling seeds within each game, lies above one half, and in each game the structured mean is above the "
        "plain one at 90% of the points or more. Beside it stands the difference of the human-normalised "
        "interquartile means over all games.",
        judge=partial(judge_technique, kind),
        scales=ATARI_SCALES,
    )


def _labels(figure: str, name: str) -> Claim:
    games = GAMES_OF[figure]
    return Claim(
        name=f"labels-{figure}",
        figure=figure,
        section="E",
        says=f"Structure does to {name} on the games of this figure what their labels say: better, similar or worse.",
        paper=f"labels of {sum(game != 'surround' for game in games)} games",
        test="Share of the labelled games whose gain has the label's direction (similar: within 10%); reproduced if it "
        "is at least 80% and its interval over seeds lies above one half.",
        judge=partial(judge_labels, figure),
        scales=_FULL,
    )


def _relation(figure: str, kind: str) -> Claim:
    return Claim(
        name=f"{kind}-lower-rank-larger-gain",
        figure=figure,
        section="E",
        says=f"With {_NAMES[kind]}, too, games of lower rank gain more from structure.",
        paper="consistent over techniques",
        test="Kendall's tau of the mean rank of the plain agent and the relative gain over the games of the figure; "
        "reproduced if its interval, by resampling games, lies below 0.",
        judge=partial(judge_falling, kind, f"sv-{kind}", env_names(GAMES_OF[figure])),
        scales=ATARI_SCALES,
    )


CLAIMS = (
    *(_technique(kind) for kind in TECHNIQUES),
    Claim(
        name="gains-consistent-over-techniques",
        figure="fig6",
        section="4.3",
        says="The gains are consistent: all three techniques gain in all four games.",
        paper="12 of 12 panels",
        test="Panels whose last score is higher; reproduced if all 12 are, and 9 or more in the interval over seeds.",
        judge=judge_consistent,
        scales=ATARI_SCALES,
    ),
    Claim(
        name="games-of-fig6-are-low-rank",
        figure="fig6",
        section="4.3",
        says="The four games of the figure have values of low rank.",
        paper="low rank, as in section 4.1",
        test="Share of the batches of plain DQN with a rank of at most 3, which section 4.1 calls small, in the game "
        "where it is least; reproduced if the 95% interval of its mean over seeds lies above one half.",
        judge=judge_low_games,
        scales=ATARI_SCALES,
    ),
    *(_labels(figure, "DQN") for figure in ("fig23", "fig24", "fig25", "fig26")),
    _labels("fig27", "double DQN"),
    _labels("fig28", "dueling DQN"),
    _relation("fig27", "double"),
    _relation("fig28", "dueling"),
    Claim(
        name="43-of-57-games-benefit",
        figure="fig23",
        section="E",
        says="43 of the 57 games benefit from structure.",
        paper="43 of 57",
        test="Games whose relative gain exceeds 10%; reproduced if their number is within 5 of 43 and its interval "
        "over seeds spans 10 games at most.",
        judge=judge_benefit,
        scales=_FULL,
    ),
    Claim(
        name="4-games-slightly-worse",
        figure="fig26",
        section="E",
        says="Only about four games are slightly worse with structure.",
        paper="4 of 57",
        test="Games that lose more than 10%; reproduced if their number is within 2 of 4 and its interval over seeds "
        "spans 4 games at most.",
        judge=judge_worse,
        scales=_FULL,
    ),
    Claim(
        name="worse-games-have-a-large-rank",
        figure="fig26",
        section="E",
        says="The games that are worse with structure have a significantly large rank.",
        paper="significantly large",
        test="Probability that a game of DQN that loses more than 10% has a higher mean rank than one that does not; "
        "reproduced if its interval, by resampling games within both groups, lies above one half and the median rank "
        "of the worse games is above 3.",
        judge=judge_worse_rank,
        scales=ATARI_SCALES,
    ),
    Claim(
        name="more-than-40-games-are-low-rank",
        figure="fig23",
        section="1",
        says="More than 40 of the 57 games have values of low rank.",
        paper="more than 40 of 57",
        test="Games whose mean rank is 3 or less, which is what section 4.1 calls small; reproduced if the interval of "
        "their number over seeds lies above 40.",
        judge=judge_low_rank,
        scales=_FULL,
    ),
    Claim(
        name="labels-add-up-to-43",
        figure="fig23",
        section="E",
        says="The labels printed under the panels of figures 23 to 26 give the 43 games that benefit.",
        paper="43",
        test="Labels better and slightly better are counted.",
        judge=judge_label_count,
        scales=EVERY_SCALE,
        seeded=False,
        printed=True,
    ),
    Claim(
        name="most-games-have-18-actions",
        figure="fig23",
        section="E",
        says="The majority of the games have 18 actions.",
        paper="more than half",
        test="Games with a minimal action set of 18 are counted in svrl's table of games.",
        judge=judge_actions,
        scales=EVERY_SCALE,
        seeded=False,
        printed=True,
    ),
)
