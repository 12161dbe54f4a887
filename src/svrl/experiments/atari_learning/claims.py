"""What the paper says about scores on Atari, as claims."""

from __future__ import annotations

from functools import partial

from svrl.experiments.atari_learning.judges import (
    judge_actions,
    judge_benefit,
    judge_consistent,
    judge_label_count,
    judge_labels,
    judge_low_rank,
    judge_technique,
    judge_worse,
)
from svrl.experiments.atari_learning.settings import GAMES_OF, TECHNIQUES_OF
from svrl.experiments.paper.claim import Claim
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.atari import TECHNIQUES, env_names
from svrl.experiments.training_cells.gains import gain_of
from svrl.experiments.training_cells.reading import envs_of
from svrl.experiments.training_cells.verdicts import ATARI_SCALES, EVERY_SCALE

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


def _technique(kind: str) -> Claim:
    return Claim(
        name=f"{kind}-gains-across-time",
        figure="fig6",
        section="4.3",
        says=f"With structure {_NAMES[kind]} has higher scores throughout training in all four games.",
        paper="higher in all 4 games, at all times",
        test="Score averaged over training: reproduced if the interval of the probability of improvement lies above "
        "one half, and in each game the structured mean is above the plain one at 90% of the points or more.",
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
    *(_labels(figure, "DQN") for figure in ("fig23", "fig24", "fig25", "fig26")),
    _labels("fig27", "double DQN"),
    _labels("fig28", "dueling DQN"),
    Claim(
        name="43-of-57-games-benefit",
        figure="fig23",
        section="E",
        says="43 of the 57 games benefit from structure.",
        paper="43 of 57",
        test="Games whose relative gain exceeds 10%; reproduced if the interval of their number over seeds reaches 43.",
        judge=judge_benefit,
        scales=_FULL,
    ),
    Claim(
        name="4-games-slightly-worse",
        figure="fig26",
        section="E",
        says="Only about four games are slightly worse with structure.",
        paper="4 of 57",
        test="Games that lose more than 10%; reproduced if the interval of their number over seeds covers 4.",
        judge=judge_worse,
        scales=_FULL,
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
        test="Games with a minimal action set of 18 are counted.",
        judge=judge_actions,
        scales=EVERY_SCALE,
        seeded=False,
        printed=True,
    ),
)
