"""Figures 6 and 23 to 28: scores against agent steps on Atari, with and without structure.

The paper draws 56 of the 57 games in figures 23 to 26; Surround has no panel. Ours stands last in figure 26.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.envs.atari_games import GAMES
from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Experiment
from svrl.paper.experiments import gains, trainings
from svrl.paper.experiments.gains import MARGIN, Panels, labels_of, ranks_of
from svrl.paper.experiments.training_figures import draw_grid, groups_of
from svrl.paper.experiments.trainings import (
    ARMS_OF,
    ATARI,
    PAIR,
    TECHNIQUES,
    atari_budget,
    env_names,
    envs_of,
    on_atari,
    title_of,
)
from svrl.paper.verdicts import counted, fixed, nothing_yet, settled, shown
from svrl.plots.style import empty_figure
from svrl.runs.spec import RunSpec
from svrl.stats import probability_of_improvement, stratified_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIG6 = ("breakout", "frostbite", "krull", "zaxxon")
SELECTED = tuple(game.name for game in GAMES.values() if game.paper_double)
"""The 16 games of figures 27 and 28."""
UNLABELLED = "surround"
_LABELLED = tuple(game for game in GAMES if game != UNLABELLED)
PARTS = {
    "fig23": _LABELLED[:16],
    "fig24": _LABELLED[16:32],
    "fig25": _LABELLED[32:48],
    "fig26": (*_LABELLED[48:], UNLABELLED),
}
FIGURES = ("fig6", *PARTS, "fig27", "fig28")
GAMES_OF: dict[str, tuple[str, ...]] = {"fig6": FIG6, **PARTS, "fig27": SELECTED, "fig28": SELECTED}
TECHNIQUES_OF: dict[str, tuple[str, ...]] = {
    "fig6": TECHNIQUES,
    **dict.fromkeys(PARTS, ("dqn",)),
    "fig27": ("double",),
    "fig28": ("dueling",),
}


def needs(figure: str, run: RunSpec) -> bool:
    """Whether a figure reads a run: of its games and techniques."""
    game, arm = run.settings["env"].removeprefix(ATARI), run.settings["arm"]
    return game in GAMES_OF[figure] and any(arm in ARMS_OF[kind] for kind in TECHNIQUES_OF[figure])


_IN_ALL_ARMS = tuple(dict.fromkeys((*FIG6, *SELECTED)))
_OTHERS = tuple(arm for kind in TECHNIQUES[1:] for arm in ARMS_OF[kind][:2])
_RUNS = {
    # One more game of each part; their games are short.
    "smoke": (("frostbite", "alien", "qbert", "zaxxon"), PAIR, ("frostbite",), _OTHERS),
    "laptop": (("frostbite",), PAIR, (), ()),
    "screen": (GAMES, PAIR, _IN_ALL_ARMS, _OTHERS),
    "short": (GAMES, ARMS_OF["dqn"], _IN_ALL_ARMS, ARMS_OF["double"] + ARMS_OF["dueling"]),
    "full": (GAMES, PAIR, _IN_ALL_ARMS, _OTHERS),
}
"""Games and arms of DQN, then those of double and dueling DQN."""
_ABOUT = {
    "smoke": "Frostbite, and Alien, Qbert and Zaxxon for DQN",
    "laptop": "Frostbite with DQN only",
    "full": "57 games for DQN and 16 for double and dueling DQN",
}
BUDGETS = {
    scale: atari_budget(
        scale, on_atari(scale, games, arms) + on_atari(scale, others, more), _ABOUT.get(scale, ""), needs
    )
    for scale, (games, arms, others, more) in _RUNS.items()
}

MOST_POINTS = 0.9
AGREEMENT = 0.8
LOW_RANK = 3.0
_SIGNS = {"better": 1, "slightly better": 1, "similar": 0, "worse": -1}


def judge_technique(kind: str, evidence: Evidence) -> Finding:
    """Higher throughout training: averaged over time, and at most points of every game."""
    arms = kind, f"sv-{kind}"
    panels = Panels.of(evidence, *arms, env_names(FIG6), trainings.score_over_time)
    if not panels:
        return nothing_yet(evidence)
    above = {env: share_above(evidence, *arms, env) for env in panels.envs}
    low = [f"{title_of(env)} {share:.0%}" for env, share in above.items() if share < MOST_POINTS]
    note = f"Above at too few points: {counted(low)}." if low else "Above at nearly all points of every game."
    some = len(panels) < len(FIG6)
    if some:
        note += f" {len(panels)} of the {len(FIG6)} games are there."
    return gains.improved(evidence, panels, False if low or some else None, note)


def share_above(evidence: Evidence, plain: str, structured: str, env: str) -> float:
    """Share of the points of time at which the structured mean over seeds is the higher one."""
    (at, theirs), (also_at, ours) = (trainings.curves(evidence.where(env=env, arm=arm)) for arm in (plain, structured))
    _, left, right = np.intersect1d(at, also_at, return_indices=True)
    if not len(left):
        return 0.0
    return float((ours.mean(0)[right] > theirs.mean(0)[left]).mean())


def judge_consistent(evidence: Evidence) -> Finding:
    """In how many of the 12 panels, or of those that are there, the structured agent ends higher."""
    found = [Panels.of(evidence, kind, f"sv-{kind}", env_names(FIG6)) for kind in TECHNIQUES]
    if not all(found):
        return nothing_yet(evidence)
    panels = sum(found, Panels())
    count, ends = panels.over_seeds(lambda gains: (gains > 0).sum(-1))
    holds = count == len(FIG6) * len(TECHNIQUES) and ends is not None and ends[0] >= 0.75 * len(panels)
    words = f"{count}{shown(ends, 0)} of {len(panels)} panels"
    return settled(evidence, holds, ours=words, value=count, ends=ends, limit=len(panels))


def judge_labels(figure: str, evidence: Evidence) -> Finding:
    """The share of a figure's labelled games whose gain has the label's direction."""
    (kind,) = TECHNIQUES_OF[figure]
    labelled = [env for env in env_names(GAMES_OF[figure]) if label_of(env, kind)]
    panels = Panels.of(evidence, kind, f"sv-{kind}", labelled)
    signs = np.array([_SIGNS[label_of(env, kind)] for env in panels.envs])
    agree = agreeing(panels.gains, signs)
    share, ends = panels.over_seeds(lambda gains: agreeing(gains, signs).mean(-1))
    others = [title_of(env) for env, fits in zip(panels.envs, agree, strict=True) if not fits]
    return settled(
        evidence,
        share >= AGREEMENT and ends is not None and ends[0] > 0.5,
        ours=f"{int(agree.sum())} of {len(panels)} games, {share:.0%}{shown(ends)}",
        value=share,
        ends=ends,
        note=f"Against their labels: {counted(others)}.",
        limit=AGREEMENT,
    )


def agreeing(gains: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(..., games): whether relative gains have the direction of labels; similar is within the margin."""
    return np.where(signs == 0, np.abs(gains) <= MARGIN, np.sign(gains) == signs)


def label_of(env: str, kind: str) -> str:
    """The paper's label of a game for a technique; empty if it has none."""
    game = GAMES[env.removeprefix(ATARI)]
    return {"dqn": game.paper_dqn, "double": game.paper_double, "dueling": game.paper_dueling}[kind]


def judge_count(label: int, paper: int, near: int, widest: int, evidence: Evidence) -> Finding:
    """Whether so many games have a label as in the paper, surely enough that noise cannot do it.

    Args:
        label: 1 for better, -1 for worse.
        paper: Games of the paper.
        near: Largest distance of the count.
        widest: Games that the interval over seeds may span.
        evidence: What to read.
    """
    panels = Panels.of(evidence, *PAIR, env_names(GAMES))
    count, ends = panels.over_seeds(lambda gains: (labels_of(gains) == label).sum(-1))
    holds = abs(count - paper) <= near and ends is not None and ends[1] - ends[0] <= widest
    ours = f"{count}{shown(ends, 0)} of {len(panels)}"
    return settled(evidence, holds, ours=ours, value=count, ends=ends, limit=paper)


def judge_worse_rank(evidence: Evidence) -> Finding:
    """Whether the games that lose have higher ranks than the others, and ranks that are not low."""
    panels = Panels.of(evidence, *PAIR, env_names(GAMES))
    if not panels:
        return nothing_yet(evidence)
    ranks, worse = ranks_of(evidence, PAIR[0], panels.envs), labels_of(panels.gains) == -1
    if worse.sum() < 2 or worse.all():
        note = f"{int(worse.sum())} of {len(panels)} games lose more than {MARGIN:.0%}: two and some others are needed."
        return settled(evidence, False, ours="", value=None, ends=None, note=note)
    groups = [ranks[worse]], [ranks[~worse]]
    chance = float(probability_of_improvement(*groups))
    ends = stratified_interval(probability_of_improvement, *groups)
    middle, others = float(np.median(ranks[worse])), float(np.median(ranks[~worse]))
    told = [f"{title_of(env)} {rank:.1f}" for env, rank in zip(panels.where(worse).envs, ranks[worse], strict=True)]
    return settled(
        evidence,
        ends[0] > 0.5 and middle > LOW_RANK,
        ours=f"probability {chance:.2f}{shown(ends)} that a worse game has the higher rank, "
        f"median {middle:.1f} against {others:.1f}",
        value=chance,
        ends=ends,
        note=f"Ranks of the worse games: {counted(told)}. The interval is over games.",
        limit=0.5,
    )


def judge_low_rank(evidence: Evidence) -> Finding:
    """In how many games plain DQN's values have a mean rank of at most 3."""
    envs = envs_of(evidence, env_names(GAMES), PAIR[:1])

    def low(ranks: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([game.mean(-1) <= LOW_RANK for game in ranks], axis=0)  # (...), from ranks (..., seeds) of each

    ranks, centred = (
        trainings.values(evidence, PAIR[0], envs, partial(trainings.mean_rank, centred=out)) for out in (False, True)
    )
    count = int(low(ranks))
    ends = stratified_interval(low, ranks) if min(map(len, ranks)) > 1 else None
    return settled(
        evidence,
        ours=f"{count}{shown(ends, 0)} of {len(envs)}",
        value=count,
        ends=ends,
        note=f"With row means taken out: {int(low(centred))}.",
        limit=40,
    )


def judge_label_count(evidence: Evidence) -> Finding:
    """The labels of figures 23 to 26, counted; no run is needed."""
    found = Counter(game.paper_dqn for game in GAMES.values())
    better = found["better"] + found["slightly better"]
    ours = (
        f"{found['better']} better and {found['slightly better']} slightly better are {better}; "
        f"{found['similar']} similar, {found['worse']} worse, {found['']} without a label"
    )
    return fixed(better == 43, ours, better, "Counted from the labels alone.")


def judge_actions(evidence: Evidence) -> Finding:
    """Games with 18 actions, counted; no run is needed."""
    count = sum(game.actions == 18 for game in GAMES.values())
    note = "Counted in svrl's table of games, the minimal action sets of the emulator; the paper prints no list."
    return fixed(2 * count > len(GAMES), f"{count} of {len(GAMES)}", count, note)


_FULL = ("full",)
_NAMES = {"dqn": "DQN", "double": "double DQN", "dueling": "dueling DQN"}


_of_fig6 = partial(Claim, figure="fig6", section="4.3", scales=trainings.ATARI_SCALES)
_of_all_games = partial(Claim, section="E", scales=_FULL, whole=True)
_counted = partial(
    Claim,
    figure="fig23",
    section="E",
    scales=("smoke", "laptop", "short", "full"),
    seeded=False,
    printed=True,
    whole=True,
)


CLAIMS: tuple[Claim, ...] = (
    *(
        _of_fig6(
            name=f"{kind}-gains-across-time",
            says=f"With structure {name} has higher scores throughout training in all four games.",
            paper="higher in all 4 games, at all times",
            test="Score averaged over training: reproduced if the interval of the probability of improvement, by "
            "resampling seeds within each game, lies above one half, and in each game the structured mean is above the "
            "plain one at 90% of the points or more. Beside it stands the difference of the human-normalised "
            "interquartile means over all games.",
            judge=partial(judge_technique, kind),
        )
        for kind, name in _NAMES.items()
    ),
    _of_fig6(
        name="gains-consistent-over-techniques",
        says="The gains are consistent: all three techniques gain in all four games.",
        paper="12 of 12 panels",
        test="Panels whose last score is higher; reproduced if all 12 are, and 9 or more in the interval over seeds.",
        judge=judge_consistent,
    ),
    _of_fig6(
        name="games-of-fig6-are-low-rank",
        says="The four games of the figure have values of low rank.",
        paper="low rank, as in section 4.1",
        test="Share of the batches of plain DQN with a rank of at most 3, which section 4.1 calls small, in the game "
        "where it is least; reproduced if the 95% interval of its mean over seeds lies above one half.",
        judge=partial(gains.mostly_low, arm=PAIR[0], wanted=env_names(FIG6), limit=int(LOW_RANK)),
    ),
    *(
        _of_all_games(
            name=f"labels-{figure}",
            figure=figure,
            says=f"Structure does to {_NAMES[kind]} on the games of this figure what their labels say: better, similar "
            "or worse.",
            paper=f"labels of {sum(game != UNLABELLED for game in GAMES_OF[figure])} games",
            test="Share of the labelled games whose gain has the label's direction (similar: within 10%); reproduced "
            "if it is at least 80% and its interval over seeds lies above one half.",
            judge=partial(judge_labels, figure),
        )
        for figure, (kind, *_) in TECHNIQUES_OF.items()
        if figure != "fig6"
    ),
    *(
        Claim(
            name=f"{kind}-lower-rank-larger-gain",
            figure=figure,
            section="E",
            says=f"With {_NAMES[kind]}, too, games of lower rank gain more from structure.",
            paper="consistent over techniques",
            test="Kendall's tau of the mean rank of the plain agent and the relative gain over the games of the "
            "figure; reproduced if its interval, by resampling games, lies below 0.",
            judge=partial(gains.judge_falling, kind=kind, wanted=env_names(SELECTED)),
            scales=trainings.ATARI_SCALES,
        )
        for figure, kind in (("fig27", "double"), ("fig28", "dueling"))
    ),
    _of_all_games(
        name="43-of-57-games-benefit",
        figure="fig23",
        says="43 of the 57 games benefit from structure.",
        paper="43 of 57",
        test="Games whose relative gain exceeds 10%; reproduced if their number is within 5 of 43 and its interval "
        "over seeds spans 10 games at most.",
        judge=partial(judge_count, +1, 43, 5, 10),
    ),
    _of_all_games(
        name="4-games-slightly-worse",
        figure="fig26",
        says="Only about four games are slightly worse with structure.",
        paper="4 of 57",
        test="Games that lose more than 10%; reproduced if their number is within 2 of 4 and its interval over seeds "
        "spans 4 games at most.",
        judge=partial(judge_count, -1, 4, 2, 4),
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
        scales=trainings.ATARI_SCALES,
        whole=True,
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
        whole=True,
    ),
    _counted(
        name="labels-add-up-to-43",
        says="The labels printed under the panels of figures 23 to 26 give the 43 games that benefit.",
        paper="43",
        test="Labels better and slightly better are counted.",
        judge=judge_label_count,
    ),
    _counted(
        name="most-games-have-18-actions",
        says="The majority of the games have 18 actions.",
        paper="more than half",
        test="Games with a minimal action set of 18 are counted in svrl's table of games.",
        judge=judge_actions,
    ),
)


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the seven figures, with the panels that there are."""
    kinds, games = TECHNIQUES_OF[figure_id], env_names(GAMES_OF[figure_id])
    found = {(kind, env): groups_of(evidence, env, ARMS_OF[kind]) for kind in kinds for env in games}
    kinds = tuple(kind for kind in kinds if any(found[kind, env] for env in games))
    envs = [env for env in games if any(found[kind, env] for kind in kinds)]
    if not envs:
        return empty_figure("none of the games of this figure is in this budget")
    if figure_id == "fig6":
        cells = [(f"{title_of(env)}, {kind}", found[kind, env], "") for kind in kinds for env in envs]
        return draw_grid(cells, len(envs))
    (kind,) = kinds
    return draw_grid(
        [(title_of(env), found[kind, env], _beside(evidence, kind, env)) for env in envs], min(4, len(envs))
    )


def _beside(evidence: Evidence, kind: str, env: str) -> str:
    """Rank of the plain agent, gain of the structured one, and what the paper says of it."""
    (rank,), (gain,) = ranks_of(evidence, kind, (env,)), Panels.of(evidence, kind, f"sv-{kind}", (env,)).gains
    return f"rank {rank:.1f}, gain {gains.signed(gain)}\npaper: {label_of(env, kind) or 'no label'}"


_PART = "Structure raises the score of DQN in most games, and each panel has a label that says so. Part {} of four."

EXPERIMENT = Experiment(
    name="atari_learning",
    title="learning curves on Atari",
    says={
        "fig6": "On Breakout, Frostbite, Krull and Zaxxon, all of low rank, structure gives higher scores throughout "
        "training, for DQN, double DQN and dueling DQN alike.",
        **{figure: _PART.format(letter) for figure, letter in zip(FIGURES[1:5], "ABCD", strict=True)},
        "fig27": "The same for double DQN on 16 games: structure helps where the rank is low.",
        "fig28": "The same for dueling DQN on 16 games.",
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=(
        "The paper's budget takes the preset authors: the figures come from the authors' program, and its settings "
        "are complete. The text differs in loss, exploration and target copies, see the departures.",
        "The paper has no panel for Surround. Ours is the last of figure 26.",
    ),
)
