"""Figure 7: does the rank of Q tell how much structure gains?

The paper asks none of it. All are about the networks at the end of training (`svrl.agents.study` and
`svrl.agents.study`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Experiment
from svrl.paper.experiments import gains, trainings
from svrl.paper.experiments.gains import Panels, ranks_of, signed, signed_ends
from svrl.paper.experiments.training_figures import COLOURS, HEIGHT, RANK, draw_curves_above_ranks, series_name
from svrl.paper.experiments.trainings import (
    ARMS_OF,
    ATARI,
    PAIR,
    Measure,
    atari_budget,
    env_names,
    envs_of,
    known_number,
    mean_rank,
    on_atari,
    title_of,
    values,
)
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
from svrl.stats import interval_if_several, iqm, mean_over_games_interval, mean_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE = "values"
"""Our figure beside the paper's."""
PLAIN, STRUCTURED, NETWORK = ARMS_OF["dqn"]
PAPER = {"frostbite": (2, 1), "krull": (2, 1), "alien": (5, 1), "seaquest": (10, -1)}
"""The paper's rank of each game, and the sign of its gain."""
ENVS, ALL_ENVS = env_names(PAPER), env_names(ALL_GAMES)

BUDGETS = {
    "smoke": atari_budget("smoke", on_atari("smoke", ("frostbite", "alien")), "Frostbite and Alien, DQN"),
    "laptop": atari_budget(
        "laptop",
        on_atari("laptop", ("frostbite",)),
        "Frostbite, DQN",
        lambda figure, run: figure != FIGURE,  # its agents have seen too little to know what they will get
    ),
    "short": atari_budget("short", on_atari("short", ALL_GAMES, ARMS_OF["dqn"])),
    "full": atari_budget("full", on_atari("full", ALL_GAMES), "57 games, DQN"),
}

DEFINITIONS: dict[str, Measure] = {
    "at 99% of the energy": mean_rank,
    "at 99.99%": partial(mean_rank, energy=trainings.TIGHT_ENERGY),
    "at 99% with row means taken out": partial(mean_rank, centred=True),
    "at 99.99% with row means taken out": partial(mean_rank, energy=trainings.TIGHT_ENERGY, centred=True),
}
"""What rank can mean; the first is the paper's."""
NEAR = 0.25
"""Relative distance within which a rank agrees with one that the paper gives as "about"."""
HIGH_RANK = 5.0
"""Alien's, which the paper calls moderate; what is above it is high."""
SLIGHTLY = 0.25
"""Largest relative loss that is called slight."""


def judge_rank(env: str, paper: int, evidence: Evidence) -> Finding:
    """The mean rank of one game against the paper's, under the paper's definition and under three others."""
    found = {words: values(evidence, PLAIN, (env,), rank)[0] for words, rank in DEFINITIONS.items()}
    stated = next(iter(found))
    if not len(found[stated]):
        return nothing_yet(evidence)
    fitting = [words for words, ranks in found.items() if abs(ranks.mean() - paper) <= NEAR * paper]
    words = fitting[0] if fitting else stated
    rank, ends = float(found[words].mean()), interval_if_several(found[words])
    by_paper = f"by the paper's definition {found[stated].mean():.1f}"
    otherwise = "" if words == stated else f"{rank:.1f} {words}; {by_paper}."
    return settled(
        evidence,
        stated in fitting,
        ours=f"{rank:.1f}{shown(ends, 1)} {words}",
        value=rank,
        ends=ends,
        otherwise=otherwise,
        limit=None if otherwise else float(paper),
        side=0,
        within=NEAR * paper,
    )


def judge_signs(evidence: Evidence) -> Finding:
    """In how many of the four games the gain has the paper's sign."""
    panels = Panels.of(evidence, *PAIR, ENVS)
    if not panels:
        return nothing_yet(evidence)
    signs = np.array([PAPER[env.removeprefix(ATARI)][1] for env in panels.envs])
    count, ends = panels.over_seeds(lambda found: (np.sign(found) == signs).sum(-1))
    if ends is not None:
        # One game's few seeds cannot tell its arms apart, so a wrong sign there may be luck and is not held against it.
        wrong = panels.where(np.sign(panels.gains) != signs)
        luck = sum(
            not gains.can_tell([plain], [ours]) for plain, ours in zip(wrong.plain, wrong.structured, strict=True)
        )
        ends = ends[0], min(ends[1] + luck, len(panels))
    holds = count == len(panels) == len(ENVS) and ends is not None and ends[0] >= len(ENVS) - 1
    ours = f"{count}{shown(ends, 0)} of {len(panels)}"
    return settled(evidence, holds, ours=ours, value=count, ends=ends, note=f"{panels}.", limit=len(panels))


def judge_high_rank(evidence: Evidence) -> Finding:
    """Games of high rank, put together: at best comparable, at worst slightly worse."""
    panels = Panels.of(evidence, *PAIR, ALL_ENVS)
    if not panels:
        return nothing_yet(evidence)
    ranks = ranks_of(evidence, PLAIN, panels.envs)
    high = panels.where(ranks > HIGH_RANK)
    if not high:
        note = f"No game has a mean rank above {HIGH_RANK:g}; the highest is {ranks.max():.1f}."
        return settled(evidence, False, ours="", value=None, ends=None, note=note)
    middle, ends = high.over_seeds(lambda found: iqm(found[..., None, :]))
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


_claim = partial(Claim, figure="fig7", scales=trainings.ATARI_SCALES)


CLAIMS: tuple[Claim, ...] = (
    *(
        _claim(
            name=f"rank-of-{game}",
            section="5",
            says=f"The approximate rank of DQN's values on {game.title()} is about {rank}.",
            paper=f"about {rank}",
            test="Mean rank over batches and seeds; reproduced if it is within 25% of the paper's, under another "
            "definition if it is at 99.99% of the energy or with row means taken out.",
            judge=partial(judge_rank, f"{ATARI}{game}", rank),
        )
        for game, (rank, _) in PAPER.items()
    ),
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
        judge=partial(gains.judge_falling, kind=PLAIN, wanted=ALL_ENVS),
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


def judge_below(
    limit: float, digits: str, number: Measure, arm: str, less: Sequence[str], evidence: Evidence
) -> Finding:
    """Whether the mean over games of a number of an arm, perhaps less that of another, is below a limit."""
    envs = envs_of(evidence, ALL_ENVS, (arm, *less), number)
    if not envs:
        return nothing_yet(evidence)
    ours, *theirs = (values(evidence, which, envs, number) for which in (arm, *less))
    middle = float(mean_score(ours)) - sum(float(mean_score(other)) for other in theirs)
    ends = mean_over_games_interval(ours, *theirs)
    where = title_of(envs[0]) if len(envs) == 1 else f"mean of {len(envs)} games"
    words = f"{middle:{digits}}{shown(ends)}, {where}"
    return settled(evidence, ours=words, value=middle, ends=ends, limit=limit, side=-1)


_value_claim = partial(Claim, figure=FIGURE, section="", scales=trainings.ATARI_SCALES)
_optimism = partial(known_number, what="optimism")
_estimation = partial(known_number, what="estimation")
VALUE_CLAIMS = (
    *(
        _value_claim(
            name=name,
            says=f"DQN is less optimistic if it is {series_name(arm)}.",
            paper="not in the paper",
            test="Largest value of a state less the discounted return from there, at the end of training, structured "
            "less plain, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 0.",
            judge=partial(judge_below, 0.0, "+.2g", partial(_optimism, name="optimism"), arm, (PLAIN,)),
        )
        for name, arm in (
            ("structure-lowers-optimism", STRUCTURED),
            ("structured-choice-lowers-optimism", NETWORK),
        )
    ),
    *(
        _value_claim(
            name=name,
            says=f"Soft-Impute {words} finds hidden entries of DQN's values better than the mean of their row does.",
            paper="not in the paper",
            test="Error on the 10% of the entries that are hidden, over the error of the mean of the row's observed "
            "entries, mean over games; holds if its 95% interval over seeds, by Welch's t, lies below 1.",
            judge=partial(
                judge_below, 1.0, ".2f", partial(_estimation, name="beyond_row_mean", scale=scale), PLAIN, ()
            ),
        )
        for name, scale, words in (
            ("estimation-beats-row-means", "minmax", "with the authors' scaling"),
            ("estimation-of-centred-rows-beats-row-means", "row", "with rows centred"),
        )
    ),
    _value_claim(
        name="lower-centred-rank-larger-gain",
        says="Games gain more from structure if their values have a lower rank once row means are taken out.",
        paper="not in the paper, which says so of the rank as it is",
        test="Kendall's tau of that rank, as a share of the most that the game's actions allow, and relative gain "
        "over all games of the budget; holds if its interval, by resampling games, lies below 0. Few actions reach a "
        "large share more easily.",
        judge=partial(gains.judge_falling, kind=PLAIN, wanted=ALL_ENVS, rank=trainings.centred_rank_share),
    ),
)


_MOST_NAMES = 12
_LEAST_REACH = 0.15
"""Gains that the axis shows at least: a difference of some percent shall look like one."""
OBSERVED = 0.9
"""Share of the entries that the study of estimation observes."""
_SCALINGS = {"minmax": ("completed with the authors' scaling", ORANGE), "row": ("completed with rows centred", GREEN)}
ONE_GAME = "one game"


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the two figures, with the games that there are."""
    return _draw_values(evidence) if figure_id == FIGURE else _draw_ranks_and_gains(evidence)


def _draw_ranks_and_gains(evidence: Evidence) -> Figure:
    """Curves above, ranks below, and at the right what the two have to do with each other."""
    envs = envs_of(evidence, ENVS, PAIR)
    if not envs:
        return empty_figure("none of these games is in this budget")
    arms = [arm for arm in ARMS_OF["dqn"] if envs_of(evidence, envs, (arm,)) == envs]
    relation = partial(_draw_relation, evidence=evidence, rank=mean_rank, words=RANK, height=0.7 * HEIGHT)
    return draw_curves_above_ranks(evidence, envs, arms, relation)


def _draw_relation(panel: Axes, *, evidence: Evidence, rank: Measure, words: str, height: float) -> None:
    """Relative gain against a rank of plain DQN's values, a point a game, with its interval over seeds."""
    panels = Panels.of(evidence, *PAIR, ALL_ENVS)
    panel.set(title="rank and gain", xlabel=words, ylabel=f"relative gain of {STRUCTURED}")
    if len(panels) < gains.FEWEST_GAMES:
        say(panel, "too few games")
        return
    ranks, changes = ranks_of(evidence, PLAIN, panels.envs, rank), panels.gains
    for at, place in enumerate(ranks):
        _, ends = panels.where(np.arange(len(panels)) == at).over_seeds(lambda found: found[..., 0])
        if ends is not None:
            tag(panel.vlines(place, *ends, color=GREY, alpha=0.6, linewidth=1.0), ONE_GAME)
    (points,) = panel.plot(ranks, changes, "o", color="black", markersize=4, label=ONE_GAME)
    tag(points, ONE_GAME)
    panel.axhline(0.0, color=GREY, linewidth=0.7)
    if found := gains.correlation(ranks, changes):
        panel.set_title(f"rank and gain, tau {found[0]:+.2f}{shown(found[1])}")
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
    panels = list(figure.subplots(2, 2).flat)
    returns, relation, errors, kept = panels
    _draw_returns(returns, evidence)
    words = "rank with row means taken out, share of the possible"
    _draw_relation(relation, evidence=evidence, rank=trainings.centred_rank_share, words=words, height=1.9)
    _draw_scalings(errors, evidence, "beyond_row_mean")
    errors.axhline(1.0, color=GREY, linewidth=0.7)
    errors.set(title="error on hidden values", ylabel="over that of the row's mean")
    _draw_scalings(kept, evidence, "best_kept")
    kept.axhline(OBSERVED, color=GREY, linewidth=0.7)  # so many would stay if every hidden one were lost
    kept.set(title="best actions that stay the best", ylabel="share of states")
    in_percent(kept.yaxis, 0)
    letter(panels)
    legend_below(figure, panels, columns=3)
    return figure


def _draw_returns(panel: Axes, evidence: Evidence) -> None:
    """A bar from the mean return up to the mean value, which is marked: its length is the optimism; a dot a seed."""
    value, gained = (partial(_optimism, name=name) for name in ("value", "gained"))
    arms = ARMS_OF["dqn"]
    envs = [env for env in ALL_ENVS if any(envs_of(evidence, (env,), (arm,), value) for arm in arms)]
    for shift, arm in zip((-0.24, 0.0, 0.24), arms, strict=True):
        name = series_name(arm)
        look: dict[str, Any] = {"color": COLOURS[name]}
        expected, got = (values(evidence, arm, envs, number) for number in (value, gained))
        for column, (best, sums) in enumerate(zip(expected, got, strict=True)):
            if len(best):
                place = column + shift
                ends = sums.mean(), best.mean()
                tag(panel.vlines(place, *ends, **look, linewidth=5.0, alpha=0.35, label=name), name)
                tag(panel.plot([place] * len(best), best, "_", **look, markersize=9), name)
                tag(panel.plot([place] * len(sums), sums, "o", **look, markersize=3), name)
    if not envs:
        say(panel, "too few steps to know returns")
    panel.set(
        title="value (dashes) and return (dots)",
        ylabel="of clipped rewards, discounted",
        ylim=(min(0.0, panel.get_ylim()[0]), None),
    )
    name_columns(panel, [title_of(env) for env in envs])


def _draw_scalings(panel: Axes, evidence: Evidence, name: str) -> None:
    """A bar a scaling and game, of plain DQN's values, with a dot a seed."""
    envs = envs_of(evidence, ALL_ENVS, (PLAIN,))
    for shift, (scale, (words, colour)) in zip((-0.15, 0.15), _SCALINGS.items(), strict=True):
        number = partial(_estimation, name=name, scale=scale)
        for column, found in enumerate(values(evidence, PLAIN, envs, number)):
            if len(found):
                bar = panel.bar(column + shift, found.mean(), 0.28, alpha=0.6, label=words, color=colour)
                tag(bar.patches, words)
                tag(panel.plot([column + shift] * len(found), found, "o", color="black", markersize=2.5), words)
    name_columns(panel, [title_of(env) for env in envs])


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
