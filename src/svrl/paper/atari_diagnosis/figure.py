"""Figure 7: learning curves, ranks, and rank against gain. The addition: values, returns and estimates."""

from __future__ import annotations

from functools import partial

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.atari_diagnosis.settings import ENVS
from svrl.paper.atari_diagnosis.value_claims import FIGURE, numbers
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.atari import ARMS_OF, PAIR, env_names
from svrl.paper.training_cells.figure import (
    COLOURS,
    RANK,
    draw_curves_above_ranks,
    empty_figure,
    legend_below,
    lettered,
    say,
    series_name,
)
from svrl.paper.training_cells.gains import resampled, shown
from svrl.paper.training_cells.reading import (
    Measure,
    centred_rank_share,
    envs_of,
    known_number,
    mean_rank,
    title_of,
    trainings,
)
from svrl.paper.training_cells.relation import FEWEST_GAMES, correlation, ranks_and_gains
from svrl.plots.style import GREEN, GREY, ORANGE, STYLE, name_columns, name_points, tag

HEIGHT = 4.2
"""Of figure 7, inches."""
_MOST_NAMES = 12
_LEAST_REACH = 0.15
"""Gains that the axis shows at least: a difference of some percent shall look like one."""
OBSERVED = 0.9
"""Share of the entries that the study of estimation observes."""
_SCALINGS = {"minmax": "completed with the authors' scaling", "row": "completed with rows centred"}
ONE_GAME = "one game"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the two figures, with the games that there are."""
    with mpl.rc_context(STYLE):
        return _draw_values(evidence) if figure_id == FIGURE else _draw_ranks_and_gains(evidence)


def _draw_ranks_and_gains(evidence: Evidence) -> Figure:
    """Curves above, ranks below, and at the right what the two have to do with each other."""
    envs = envs_of(evidence, ENVS, PAIR)
    if not envs:
        return empty_figure(Figure(figsize=(5.6, 1.4), layout="constrained"), "none of these games is in this budget")
    figure = Figure(figsize=(2.1 * len(envs) + 3.3, HEIGHT), layout="constrained")
    arms = [arm for arm in ARMS_OF["dqn"] if envs_of(evidence, envs, (arm,)) == envs]
    panels, last = draw_curves_above_ranks(figure, evidence, envs, arms, last_width=1.4)
    _draw_relation(last, evidence, mean_rank, RANK, 0.7 * HEIGHT)
    lettered([*panels, last])
    legend_below(figure, [*panels, last])
    return figure


def _draw_relation(panel: Axes, evidence: Evidence, rank: Measure, words: str, height: float) -> None:
    """Relative gain against a rank of plain DQN's values, a point a game, with its interval over seeds."""
    envs = envs_of(evidence, env_names(ALL_GAMES), PAIR)
    panel.set(title="rank and gain", xlabel=words, ylabel=f"relative gain of {PAIR[1]}")
    if len(envs) < FEWEST_GAMES:
        say(panel, "too few games")
        return
    ranks, gains = ranks_and_gains(evidence, *PAIR, envs, rank)
    for env, place in zip(envs, ranks, strict=True):
        ends = resampled(lambda found: found[..., 0], evidence, *PAIR, (env,))
        if ends is not None:
            tag(panel.vlines(place, *ends, color=GREY, alpha=0.6, linewidth=1.0), ONE_GAME)
    (points,) = panel.plot(ranks, gains, "o", color="black", markersize=4, label=ONE_GAME)
    tag(points, ONE_GAME)
    panel.axhline(0.0, color=GREY, linewidth=0.7)
    tau, ends, games = correlation(evidence, *PAIR, envs, rank)
    if games:
        panel.set_title(f"rank and gain, tau {tau:+.2f}{shown(ends)}")
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    low, high = panel.get_ylim()
    panel.set_ylim(min(low, -_LEAST_REACH), max(high, _LEAST_REACH))
    room = 0.1 * float(np.ptp(ranks)) or 0.5
    panel.set_xlim(ranks.min() - room, ranks.max() + 4.0 * room)  # names stand at the right of points
    if len(envs) <= _MOST_NAMES:
        name_points(panel, ranks, gains, [title_of(env) for env in envs], height)


def _draw_values(evidence: Evidence) -> Figure:
    """Values, returns and estimates game by game, and whether the rank with row means taken out tells a gain."""
    figure = Figure(figsize=(8.4, 5.8), layout="constrained")
    (returns, relation), (errors, kept) = figure.subplots(2, 2)
    _draw_returns(returns, evidence)
    _draw_relation(relation, evidence, centred_rank_share, "rank with row means taken out, share of the possible", 1.9)
    _draw_scalings(errors, evidence, "beyond_row_mean")
    errors.axhline(1.0, color=GREY, linewidth=0.7)
    errors.set(title="error on hidden values", ylabel="over that of the row's mean")
    _draw_scalings(kept, evidence, "best_kept")
    kept.axhline(OBSERVED, color=GREY, linewidth=0.7)  # so many would stay if every hidden one were lost
    kept.set(title="best actions that stay the best", ylabel="share of states")
    kept.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panels = [returns, relation, errors, kept]
    lettered(panels)
    legend_below(figure, panels, columns=3)
    return figure


def _draw_returns(panel: Axes, evidence: Evidence) -> None:
    """A bar from the mean return up to the mean value, which is marked: its length is the optimism; a dot a seed."""
    envs = [env for env in env_names(ALL_GAMES) if any(_known(evidence, arm, env) for arm in ARMS_OF["dqn"])]
    for at, arm in enumerate(ARMS_OF["dqn"]):
        name = series_name(arm)
        for column, env in enumerate(envs):
            cells = _known(evidence, arm, env)
            if not cells:
                continue
            place = column + 0.24 * (at - 1)
            value, gained = (
                [known_number(one, "optimism", field) or 0.0 for one in cells] for field in ("value", "gained")
            )
            tag(
                panel.vlines(
                    place, np.mean(gained), np.mean(value), COLOURS[name], linewidth=5.0, alpha=0.35, label=name
                ),
                name,
            )
            tag(panel.plot([place] * len(value), value, "_", color=COLOURS[name], markersize=9), name)
            tag(panel.plot([place] * len(gained), gained, "o", color=COLOURS[name], markersize=3), name)
    if not envs:
        say(panel, "too few steps to know returns")
    panel.set(
        title="value (dashes) and return (dots)",
        ylabel="of clipped rewards, discounted",
        ylim=(min(0.0, panel.get_ylim()[0]), None),
    )
    name_columns(panel, [title_of(env) for env in envs])


def _draw_scalings(panel: Axes, evidence: Evidence, field: str) -> None:
    """A bar a scaling and game, of plain DQN's values, with a dot a seed."""
    envs = envs_of(evidence, env_names(ALL_GAMES), PAIR[:1])
    for at, (scale, words) in enumerate(_SCALINGS.items()):
        for column, env in enumerate(envs):
            number = partial(known_number, what="estimation", name=field, scale=scale)
            found = numbers(evidence, PAIR[0], env, number)
            if not len(found):
                continue
            place = column + 0.3 * (at - 0.5)
            bar = panel.bar(place, found.mean(), 0.28, alpha=0.6, label=words, color=(ORANGE, GREEN)[at])
            tag(bar.patches, words)
            tag(panel.plot([place] * len(found), found, "o", color="black", markersize=2.5), words)
    name_columns(panel, [title_of(env) for env in envs])


def _known(evidence: Evidence, arm: str, env: str) -> list[Kept]:
    """Trainings that know their returns."""
    cells = trainings(evidence, env=env, arm=arm, batch_size=32)
    return [kept for kept in cells if known_number(kept, "optimism", "value") is not None]
