"""Figure 7: does the rank of Q tell how much structure gains?

The paper asks none of it. All are about the networks at the end of training (`svrl.agents.study` and
`svrl.agents.study`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import gains, trainings
from svrl.paper.experiments.gains import Panels, ranks_of, signed, signed_ends
from svrl.paper.experiments.training_figures import COLOURS, RANK, draw_curves_above_ranks, series_name
from svrl.paper.experiments.trainings import ARMS_OF, PAIR, WORDS, env_names, envs_of, known_number, title_of
from svrl.paper.verdicts import nothing_yet, settled, shown
from svrl.plots.style import (
    GREEN,
    GREY,
    ORANGE,
    empty_figure,
    in_percent,
    legend_below,
    letter,
    name_columns,
    name_points,
    new_figure,
    say,
    tag,
)
from svrl.runs.store import Kept
from svrl.stats import interval_if_several, iqm, mean_over_games_interval, mean_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE = "values"
"""Our figure beside the paper's."""
PLAIN, STRUCTURED, NETWORK = ARMS_OF["dqn"]
GAMES = ("frostbite", "krull", "alien", "seaquest")
ENVS = env_names(GAMES)
PAPER_RANKS = {"frostbite": 2, "krull": 2, "alien": 5, "seaquest": 10}
PAPER_SIGNS = {"frostbite": 1, "krull": 1, "alien": 1, "seaquest": -1}

BUDGETS = {
    "smoke": Budget(
        runs=trainings.pairs(trainings.SMOKE, ("frostbite", "alien")),
        words=f"{trainings.listed(('frostbite', 'alien'))}, DQN, {WORDS['smoke']}",
    ),
    "laptop": Budget(
        runs=trainings.pairs(trainings.LAPTOP, ("frostbite",)),
        needs=lambda figure, run: figure != FIGURE,  # its agents have seen too little to know what they will get
        words=f"Frostbite, DQN, {WORDS['laptop']}",
    ),
    "short": trainings.short_budget(ALL_GAMES),
    "full": Budget(runs=trainings.pairs(trainings.FULL, ALL_GAMES), words=f"57 games, DQN, {WORDS['full']}"),
}

DEFINITIONS: tuple[tuple[str, float, bool], ...] = (
    ("at 99% of the energy", 0.99, False),
    ("at 99.99%", 0.9999, False),
    ("at 99% with row means taken out", 0.99, True),
    ("at 99.99% with row means taken out", 0.9999, True),
)
"""What rank can mean; the first is the paper's."""
NEAR = 0.25
"""Relative distance within which a rank agrees with one that the paper gives as "about"."""
HIGH_RANK = 5.0
"""Alien's, which the paper calls moderate; what is above it is high."""
SLIGHTLY = 0.25
"""Largest relative loss that is called slight."""


def judge_rank(game: str, evidence: Evidence) -> Finding:
    """The mean rank of one game against the paper's, under the paper's definition and under three others."""
    paper = PAPER_RANKS[game]
    (env,) = env_names((game,))
    if not envs_of(evidence, (env,), PAIR[:1]):
        return nothing_yet(evidence)
    found = {
        words: np.array(
            [trainings.mean_rank(kept, energy, centred) for kept in trainings.of(evidence, env=env, arm=PLAIN)]
        )
        for words, energy, centred in DEFINITIONS
    }
    stated = next(iter(found))
    fitting = [words for words, ranks in found.items() if abs(ranks.mean() - paper) <= NEAR * paper]
    words = fitting[0] if fitting else stated
    seeds = found[words]
    ends = interval_if_several(seeds)
    by_paper = f"by the paper's definition {found[stated].mean():.1f}"
    otherwise = "" if words == stated else f"{seeds.mean():.1f} {words}; {by_paper}."
    return settled(
        evidence,
        stated in fitting,
        ours=f"{seeds.mean():.1f}{shown(ends, 1)} {words}",
        value=float(seeds.mean()),
        ends=ends,
        otherwise=otherwise,
        limit=None if otherwise else float(paper),
        side=0,
        within=NEAR * paper,
    )


def judge_signs(evidence: Evidence) -> Finding:
    """In how many of the four games the gain has the paper's sign."""
    panels = Panels.of(evidence, *PAIR, ENVS)
    if not len(panels):
        return nothing_yet(evidence)
    signs = np.array([PAPER_SIGNS[env.removeprefix("atari/")] for env in panels.envs])
    right = np.sign(panels.gains) == signs
    count = int(right.sum())
    ends = panels.ends(lambda found: (np.sign(found) == signs).sum(-1))
    if ends is not None:
        # One game's few seeds cannot tell its arms apart, so a wrong sign there may be luck and is not held against it.
        wrong = panels.where(~right)
        luck = sum(
            not gains.can_tell([plain], [ours]) for plain, ours in zip(wrong.plain, wrong.structured, strict=True)
        )
        ends = ends[0], min(ends[1] + luck, len(panels))
    holds = count == len(panels) == len(ENVS) and ends is not None and ends[0] >= len(ENVS) - 1
    ours = f"{count}{shown(ends, 0)} of {len(panels)}"
    return settled(evidence, holds, ours=ours, value=count, ends=ends, note=f"{panels}.", limit=len(panels))


def judge_high_rank(evidence: Evidence) -> Finding:
    """Games of high rank, put together: at best comparable, at worst slightly worse."""
    panels = Panels.of(evidence, *PAIR, env_names(ALL_GAMES))
    if not len(panels):
        return nothing_yet(evidence)
    ranks = ranks_of(evidence, PAIR[0], panels.envs)
    high = panels.where(ranks > HIGH_RANK)
    if not len(high):
        note = f"No game has a mean rank above {HIGH_RANK:g}; the highest is {ranks.max():.1f}."
        return settled(evidence, False, ours="", value=None, ends=None, note=note)
    middle, ends = float(_middle(high.gains)), high.ends(_middle)
    return settled(
        evidence,
        ours=f"{signed(middle)}{signed_ends(ends)}, IQM of {len(high)} game{'s' if len(high) > 1 else ''}",
        value=middle,
        ends=ends,
        note=f"{high}.",
        limit=(gains.MARGIN - SLIGHTLY) / 2,
        side=0,
        within=(gains.MARGIN + SLIGHTLY) / 2,
    )


def _middle(gains: np.ndarray) -> np.ndarray:
    """(...): interquartile mean over games of relative gains (..., games)."""
    return iqm(gains[..., None, :])


_claim = partial(Claim, figure="fig7", scales=trainings.ATARI_SCALES)


def _rank_claim(game: str) -> Claim:
    name = game.title()
    return _claim(
        name=f"rank-of-{game}",
        section="5",
        says=f"The approximate rank of DQN's values on {name} is about {PAPER_RANKS[game]}.",
        paper=f"about {PAPER_RANKS[game]}",
        test="Mean rank over batches and seeds; reproduced if it is within 25% of the paper's, under another "
        "definition if it is at 99.99% of the energy or with row means taken out.",
        judge=partial(judge_rank, game),
    )


CLAIMS: tuple[Claim, ...] = (
    *(_rank_claim(game) for game in GAMES),
    _claim(
        name="gains-on-four-games",
        section="5",
        says="Structure is better on Frostbite and Krull, slightly better on Alien and slightly worse on Seaquest.",
        paper="+, +, +, -",
        test="Signs of the gains; reproduced if all four agree, and three or more in the interval over seeds.",
        judge=judge_signs,
    ),
    _claim(
        name="lower-rank-larger-gain",
        section="5",
        says="Games of lower rank gain more from structure.",
        paper="decreasing over four games",
        test="Kendall's tau of mean rank and relative gain over all games of the budget; reproduced if its interval, "
        "by resampling games, lies below 0.",
        judge=partial(gains.judge_falling, *PAIR, env_names(ALL_GAMES)),
    ),
    _claim(
        name="high-rank-comparable-or-slightly-worse",
        section="1",
        says="Games of high rank perform comparably with structure, or only slightly worse.",
        paper="comparable or slightly worse",
        test=f"Interquartile mean of the relative gains over all games whose mean rank is above {HIGH_RANK:g}, which "
        f"the paper calls moderate; reproduced if its whole interval, by resampling seeds within each game, lies "
        f"between -{SLIGHTLY:.0%} and +{gains.MARGIN:.0%}.",
        judge=judge_high_rank,
    ),
)

WORDS = {STRUCTURED: "structured", NETWORK: "structured, valued by the network"}
_DQN = env_names(ALL_GAMES)
Number = Callable[[Kept], float | None]


def optimism_in(kept: Kept) -> float | None:
    """Best values less discounted returns."""
    return known_number(kept, "optimism", "optimism")


def beyond_row_mean(kept: Kept, scale: str) -> float | None:
    """Error on hidden entries over that of the row's mean."""
    return known_number(kept, "estimation", "beyond_row_mean", scale=scale)


def numbers(evidence: Evidence, arm: str, env: str, number: Number) -> np.ndarray:
    """(seeds,) of those trainings with batches of 32 that know it."""
    found = [number(kept) for kept in trainings.of(evidence, env=env, arm=arm, batch_size=32)]
    return np.array([value for value in found if value is not None])


def known_envs(evidence: Evidence, arms: Sequence[str], number: Number) -> list[str]:
    """Games of which every arm knows it."""
    return [env for env in _DQN if all(len(numbers(evidence, arm, env, number)) for arm in arms)]


def judge_optimism(arm: str, evidence: Evidence) -> Finding:
    """Whether an arm expects less beyond what it gets than plain DQN does."""
    envs = known_envs(evidence, (PLAIN, arm), optimism_in)
    if not envs:
        return nothing_yet(evidence)
    theirs, ours = ([numbers(evidence, which, env, optimism_in) for env in envs] for which in (PLAIN, arm))
    change = float(mean_score(ours) - mean_score(theirs))
    ends = mean_over_games_interval(ours, theirs)
    return settled(
        evidence,
        ours=f"{change:+.2g}{shown(ends)}, {_mean_of(envs)}",
        value=change,
        ends=ends,
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
    return settled(
        evidence,
        ours=f"{middle:.2f}{shown(ends)}, {_mean_of(envs)}",
        value=middle,
        ends=ends,
        limit=1.0,
        side=-1,
    )


def _mean_of(envs: Sequence[str]) -> str:
    return title_of(envs[0]) if len(envs) == 1 else f"mean of {len(envs)} games"


_value_claim = partial(Claim, figure=FIGURE, section="", scales=trainings.ATARI_SCALES)


def _optimism_claim(arm: str, name: str) -> Claim:
    return _value_claim(
        name=name,
        says=f"DQN is less optimistic if it is {WORDS[arm]}.",
        paper="not in the paper",
        test="Largest value of a state less the discounted return from there, at the end of training, structured less "
        "plain, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 0.",
        judge=partial(judge_optimism, arm),
    )


def _estimation_claim(scale: str, name: str, words: str) -> Claim:
    return _value_claim(
        name=name,
        says=f"Soft-Impute {words} finds hidden entries of DQN's values better than the mean of their row does.",
        paper="not in the paper",
        test="Error on the 10% of the entries that are hidden, over the error of the mean of the row's observed "
        "entries, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 1.",
        judge=partial(judge_estimation, scale),
    )


VALUE_CLAIMS = (
    _optimism_claim(STRUCTURED, "structure-lowers-optimism"),
    _optimism_claim(NETWORK, "structured-choice-lowers-optimism"),
    _estimation_claim("minmax", "estimation-beats-row-means", "with the authors' scaling"),
    _estimation_claim("row", "estimation-of-centred-rows-beats-row-means", "with rows centred"),
    _value_claim(
        name="lower-centred-rank-larger-gain",
        says="Games gain more from structure if their values have a lower rank once row means are taken out.",
        paper="not in the paper, which says so of the rank as it is",
        test="Kendall's tau of that rank, as a share of the most that the game's actions allow, and relative gain "
        "over all games of the budget; holds if its interval, by resampling games, lies below 0. Few actions reach a "
        "large share more easily.",
        judge=partial(gains.judge_falling, PLAIN, STRUCTURED, _DQN, rank=trainings.centred_rank_share),
    ),
)


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
    return _draw_values(evidence) if figure_id == FIGURE else _draw_ranks_and_gains(evidence)


def _draw_ranks_and_gains(evidence: Evidence) -> Figure:
    """Curves above, ranks below, and at the right what the two have to do with each other."""
    envs = envs_of(evidence, ENVS, PAIR)
    if not envs:
        return empty_figure("none of these games is in this budget")
    figure = new_figure(2.1 * len(envs) + 3.3, HEIGHT)
    arms = [arm for arm in ARMS_OF["dqn"] if envs_of(evidence, envs, (arm,)) == envs]
    panels, last = draw_curves_above_ranks(figure, evidence, envs, arms, last_width=1.4)
    _draw_relation(last, evidence, trainings.mean_rank, RANK, 0.7 * HEIGHT)
    letter([*panels, last])
    legend_below(figure, [*panels, last])
    return figure


def _draw_relation(panel: Axes, evidence: Evidence, rank: trainings.Measure, words: str, height: float) -> None:
    """Relative gain against a rank of plain DQN's values, a point a game, with its interval over seeds."""
    panels = Panels.of(evidence, *PAIR, env_names(ALL_GAMES))
    panel.set(title="rank and gain", xlabel=words, ylabel=f"relative gain of {PAIR[1]}")
    if len(panels) < gains.FEWEST_GAMES:
        say(panel, "too few games")
        return
    ranks, changes = ranks_of(evidence, PAIR[0], panels.envs, rank), panels.gains
    for env, place in zip(panels.envs, ranks, strict=True):
        ends = Panels.of(evidence, *PAIR, (env,)).ends(lambda found: found[..., 0])
        if ends is not None:
            tag(panel.vlines(place, *ends, color=GREY, alpha=0.6, linewidth=1.0), ONE_GAME)
    (points,) = panel.plot(ranks, changes, "o", color="black", markersize=4, label=ONE_GAME)
    tag(points, ONE_GAME)
    panel.axhline(0.0, color=GREY, linewidth=0.7)
    tau, ends, games = gains.correlation(evidence, *PAIR, panels.envs, rank)
    if games:
        panel.set_title(f"rank and gain, tau {tau:+.2f}{shown(ends)}")
    in_percent(panel.yaxis, 0)
    low, high = panel.get_ylim()
    panel.set_ylim(min(low, -_LEAST_REACH), max(high, _LEAST_REACH))
    room = 0.1 * float(np.ptp(ranks)) or 0.5
    panel.set_xlim(ranks.min() - room, ranks.max() + 4.0 * room)  # names stand at the right of points
    if len(panels) <= _MOST_NAMES:
        name_points(panel, ranks, changes, [title_of(env) for env in panels.envs], height)


def _draw_values(evidence: Evidence) -> Figure:
    """Values, returns and estimates game by game, and whether the rank with row means taken out tells a gain."""
    figure = new_figure(8.4, 5.8)
    (returns, relation), (errors, kept) = figure.subplots(2, 2)
    _draw_returns(returns, evidence)
    _draw_relation(
        relation, evidence, trainings.centred_rank_share, "rank with row means taken out, share of the possible", 1.9
    )
    _draw_scalings(errors, evidence, "beyond_row_mean")
    errors.axhline(1.0, color=GREY, linewidth=0.7)
    errors.set(title="error on hidden values", ylabel="over that of the row's mean")
    _draw_scalings(kept, evidence, "best_kept")
    kept.axhline(OBSERVED, color=GREY, linewidth=0.7)  # so many would stay if every hidden one were lost
    kept.set(title="best actions that stay the best", ylabel="share of states")
    in_percent(kept.yaxis, 0)
    panels = [returns, relation, errors, kept]
    letter(panels)
    legend_below(figure, panels, columns=3)
    return figure


def _draw_returns(panel: Axes, evidence: Evidence) -> None:
    """A bar from the mean return up to the mean value, which is marked: its length is the optimism; a dot a seed."""
    envs = [env for env in env_names(ALL_GAMES) if any(_known(evidence, arm, env) for arm in ARMS_OF["dqn"])]
    for at, arm in enumerate(ARMS_OF["dqn"]):
        name = series_name(arm)
        for column, env in enumerate(envs):
            runs = _known(evidence, arm, env)
            if not runs:
                continue
            place = column + 0.24 * (at - 1)
            value, gained = (
                [known_number(one, "optimism", field) or 0.0 for one in runs] for field in ("value", "gained")
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
    runs = trainings.of(evidence, env=env, arm=arm, batch_size=32)
    return [kept for kept in runs if known_number(kept, "optimism", "value") is not None]


EXPERIMENT = Experiment(
    name="atari_diagnosis",
    title="rank against gain on Atari",
    says={
        "fig7": "Structure gains on Frostbite and Krull, whose rank is about 2, gains a little on Alien, of about 5, "
        "and loses a little on Seaquest, of about 10: the lower the rank, the larger the gain.",
        FIGURE: "Why does structure gain or lose? Completion changes what the best action is thought to be worth, and "
        "which one it is. So values are held against returns, and estimates of hidden values against those values.",
    },
    budgets=BUDGETS,
    picture=draw,
    claims=(*CLAIMS, *VALUE_CLAIMS),
    notes=(
        "The panel of rank against gain is ours. It has all games of DQN that the budget has, not only the four.",
        "Alien is slightly better in this figure and better in figure 23.",
    ),
)
