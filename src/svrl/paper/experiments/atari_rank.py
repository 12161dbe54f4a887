"""Figure 4: how low the rank of a learned Q is, on four Atari games with 18 actions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.paper.claim import Claim, Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.experiments import trainings
from svrl.paper.experiments.gains import mostly_low
from svrl.paper.experiments.training_figures import RANK
from svrl.paper.experiments.trainings import atari_budget, env_names, envs_of, on_atari, rank_shares, title_of
from svrl.plots.style import (
    BLUE,
    ORANGE,
    empty_figure,
    in_percent,
    legend_below,
    letter,
    new_figure,
    tag,
    whole_numbers,
)
from svrl.runs.store import Kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAMES = ("frostbite", "krull", "zaxxon", "alien")
ENVS = env_names(GAMES)
ARM = "dqn"
BUDGETS = {
    scale: atari_budget(
        scale, on_atari(scale, games, (ARM,)), f"{words}, DQN, {trainings.PLANS[scale].batches:,} batches of 32 states"
    )
    for scale, games, words in (
        ("smoke", ("frostbite", "alien"), "Frostbite and Alien"),
        ("laptop", GAMES[:1], "Frostbite"),
        ("short", GAMES, ""),
        ("full", GAMES, "Frostbite, Krull, Zaxxon and Alien"),
    )
}

LOW = 3
"""Ranks that the paper calls small."""


CLAIMS = (
    Claim(
        name="atari-low-rank",
        figure="fig4",
        section="4.1",
        says="The approximate rank of batches of learned values is mostly 3 or less in all four games.",
        paper="mostly 3 or less, of at most 18",
        test="Share of the batches with a rank of at most 3, in the game where it is least; reproduced if the 95% "
        "interval of its mean over seeds lies above one half.",
        judge=partial(mostly_low, arm=ARM, wanted=ENVS, limit=LOW),
        scales=trainings.ATARI_SCALES,
    ),
)

_KINDS = (("", "-", False), (", rows centred", "--", True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The games that there are, side by side."""
    envs = envs_of(evidence, ENVS, (ARM,))
    if not envs:
        return empty_figure("none of these games is in this budget")
    figure = new_figure(2.3 * len(envs) + 0.6, 2.7)
    panels = list(figure.subplots(1, len(envs), squeeze=False)[0])
    for panel, env in zip(panels, envs, strict=True):
        _draw_game(panel, evidence.where(env=env, arm=ARM))
        panel.set_title(title_of(env))
        panel.set_xlabel(RANK, fontsize=8)
    panels[0].set_ylabel("share of batches")
    letter(panels)
    legend_below(figure, panels)
    return figure


def _draw_game(panel: Axes, runs: list[Kept]) -> None:
    for words, style, centred in _KINDS:
        shares = rank_shares(runs, centred=centred)
        name, edges = f"histogram{words}", np.arange(len(shares) + 1) - 0.5
        bars = panel.stairs(shares, edges, fill=not centred, color=ORANGE, alpha=0.8, linestyle=style, label=name)
        tag(bars, name)
        name = f"cumulative{words}"
        line = panel.step(
            np.arange(len(shares)), np.cumsum(shares), where="post", color=BLUE, linestyle=style, label=name
        )
        tag(line, name)
    panel.set_ylim(0, 1.03)
    whole_numbers(panel.xaxis)
    in_percent(panel.yaxis)


EXPERIMENT = Experiment(
    name="atari_rank",
    title="rank of the learned Q on Atari",
    says={
        "fig4": "On four games with 18 actions the approximate rank of 32 x 18 matrices of learned values, over "
        "10,000 random batches of states, is small everywhere and mostly 3 or less."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=("The paper does not name its four games. Ours are Frostbite, Krull, Zaxxon and Alien.",),
)
