"""Figure 7: learning curves, ranks, and rank against gain."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.experiments.atari_diagnosis.settings import ENVS
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.atari import PAIR, env_names
from svrl.experiments.training_cells.figure import RANK, draw_curves_above_ranks, legend_below, lettered
from svrl.experiments.training_cells.gains import resampled, shown
from svrl.experiments.training_cells.reading import envs_of, title_of
from svrl.experiments.training_cells.relation import correlation, ranks_and_gains
from svrl.reporting.series import tag
from svrl.reporting.style import GREEN, GREY, STYLE

_MOST_NAMES = 12
GAMES = "one game"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Curves above, ranks below, and at the right what the two have to do with each other."""
    envs = envs_of(evidence, ENVS, PAIR)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.1 * len(envs) + 3.3, 4.2), layout="constrained")
        panels, last = draw_curves_above_ranks(figure, evidence, envs, PAIR, last_width=1.4)
        _draw_relation(last, evidence)
        lettered([*panels, last])
        legend_below(figure, [*panels, last])
    return figure


def _draw_relation(panel: Axes, evidence: Evidence) -> None:
    """Relative gain against the rank of plain DQN, a point a game, with its interval over seeds."""
    envs = envs_of(evidence, env_names(ALL_GAMES), PAIR)
    ranks, gains = ranks_and_gains(evidence, *PAIR, envs)
    for env, rank, gain in zip(envs, ranks, gains, strict=True):
        ends = resampled(lambda found: found[..., 0], evidence, *PAIR, (env,))
        if ends is not None:
            tag(panel.vlines(rank, *ends, color=GREEN, alpha=0.35, linewidth=1.0), GAMES)
        if len(envs) <= _MOST_NAMES:
            panel.annotate(title_of(env), (rank, gain), xytext=(4, 3), textcoords="offset points", fontsize=7)
    (points,) = panel.plot(ranks, gains, "o", color=GREEN, markersize=4, label=GAMES)
    tag(points, GAMES)
    panel.axhline(0.0, color=GREY, linewidth=0.7)
    tau, ends, games = correlation(evidence, *PAIR, envs)
    title = f"tau {tau:+.2f}{shown(ends)}" if games else "rank and gain"
    panel.set(title=title, xlabel=RANK, ylabel="relative gain of structure")
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    reach = 1.1 * max(0.1, float(np.abs(panel.get_ylim()).max()))
    panel.set_ylim(-reach, reach)
    room = 0.15 * max(float(np.ptp(ranks)), 1.0)
    panel.set_xlim(ranks.min() - room, ranks.max() + 2.5 * room)
