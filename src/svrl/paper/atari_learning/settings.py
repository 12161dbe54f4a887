"""Games of the learning figures, in the paper's order, and what is spent on them.

The paper draws 56 of the 57 games in figures 23 to 26; Surround has no panel. Ours stands last in figure 26.
"""

from __future__ import annotations

from dataclasses import replace

from svrl.envs.atari_games import GAMES
from svrl.paper.cell import Cell
from svrl.paper.experiment import Budget
from svrl.paper.training_cells.atari import (
    ALL_ARMS,
    ARMS_OF,
    FULL,
    LAPTOP,
    PAIR,
    SHORT,
    SMOKE,
    TECHNIQUES,
    WORDS,
    env_names,
    in_order,
    listed,
    short_budget,
)
from svrl.paper.training_cells.plan import TrainingPlan

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


def _budget(cells: tuple[Cell, ...], games: str, words: str) -> Budget:
    """A budget for the figures that have at least one panel in it."""
    trained = {(cell.settings["env"], cell.settings["arm"]) for cell in cells}
    drawn = tuple(
        figure
        for figure in FIGURES
        if any((env, kind) in trained for env in env_names(GAMES_OF[figure]) for kind in TECHNIQUES_OF[figure])
    )
    return Budget(cells=tuple({cell.key: cell for cell in cells}.values()), words=f"{games}, {words}", figures=drawn)


def _cells(plan: TrainingPlan, all_arms: tuple[str, ...], pair: tuple[str, ...]) -> tuple[Cell, ...]:
    return (*plan.cells(env_names(all_arms), ALL_ARMS), *plan.cells(env_names(pair), PAIR))


_SMOKE_PAIRS = ("alien", "qbert", "zaxxon")
"""One more game of each part; their games are short."""
_IN_ALL_ARMS = tuple(dict.fromkeys((*FIG6, *SELECTED)))

BUDGETS = {
    "smoke": _budget(
        _cells(SMOKE, ("frostbite",), _SMOKE_PAIRS),
        f"Frostbite, and {listed(_SMOKE_PAIRS)} for DQN",
        WORDS["smoke"],
    ),
    "laptop": _budget(_cells(LAPTOP, (), ("frostbite",)), "Frostbite with DQN only", WORDS["laptop"]),
    "short": replace(
        short_budget(GAMES),
        cells=(
            *SHORT.cells(env_names(in_order(GAMES)), ARMS_OF["dqn"]),
            *SHORT.cells(env_names(in_order(_IN_ALL_ARMS)), (*ARMS_OF["double"], *ARMS_OF["dueling"])),
        ),
    ),
    "full": _budget(
        _cells(FULL, _IN_ALL_ARMS, tuple(GAMES)),
        "57 games for DQN and 16 for double and dueling DQN",
        WORDS["full"],
    ),
}
