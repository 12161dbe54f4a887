"""The table of one Atari game in docs/evidence.md, from the committed cells.

python results/game_table.py breakout
python results/game_table.py frostbite --technique dueling
python results/game_table.py seaquest --batch-size 128
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from svrl.paper.experiments.atari_batch_size import SIZES
from svrl.paper.experiments.trainings import (
    ARMS_OF,
    SHORT,
    TECHNIQUES,
    env_names,
    mean_rank,
    row_of,
    score_of,
    score_over_time,
)
from svrl.paper.table import committed_table
from svrl.runs.store import Kept, read_first
from svrl.stats import student_interval, welch_interval


def shown(values: Sequence[float], form: str = "{:.3g}") -> str:
    """Mean and 95% interval of the mean by Student's t."""
    low, high = student_interval(values)
    return f"{form.format(float(np.mean(values)))} [{form.format(low)}, {form.format(high)}]"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Of two means, with its interval by Welch."""
    low, high = welch_interval([ours], [theirs])
    return f"{float(np.mean(ours) - np.mean(theirs)):+.3g} [{low:.3g}, {high:.3g}]"


def ranks(cells: Sequence[Kept], centred: bool) -> str:
    """Mean ranks at 99% and 99.99% of the energy."""
    return " / ".join(
        f"{np.mean([mean_rank(kept, energy, centred) for kept in cells]):.1f}" for energy in (0.99, 0.9999)
    )


def wanted() -> tuple[str, tuple[str, ...], dict[str, int]]:
    """The game, its arms with the plain one first, and what they change of the preset."""
    parser = argparse.ArgumentParser(description="Print a complete game's table for docs/evidence.md.")
    parser.add_argument("game", help="as in frostbite")
    parser.add_argument("--technique", choices=TECHNIQUES, default="dqn")
    parser.add_argument("--batch-size", type=int, choices=SIZES[1:], help="those of 32 by default")
    given = parser.parse_args()
    return given.game, ARMS_OF[given.technique], {"batch_size": given.batch_size} if given.batch_size else {}


def runs_of(game: str, arm: str, changes: dict[str, int]) -> list[Kept]:
    """All seeds of an arm; the script ends if one is missing."""
    cells = [read_first(cell, (committed_table(),)) for cell in SHORT.cells(env_names((game,)), (arm,), **changes)]
    found = [kept for kept in cells if kept is not None]
    if len(found) < len(cells):
        sys.exit(
            f"{game} is not complete: {arm}{f' with {changes}' if changes else ''} has {len(found)} of "
            f"{len(cells)} seeds. results/add_game.sh trains the others, see results/README.md."
        )
    return found


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    game, (plain, *structured), changes = wanted()
    found = {arm: runs_of(game, arm, changes) for arm in (plain, *structured)}
    numbers: dict[str, Callable[[Kept], float]] = {
        "score, last 100 games": score_of,
        "score over all of training": score_over_time,
        "evaluation, 20 games": lambda kept: row_of(kept, "score")["evaluation"],
        "effective rank of features": lambda kept: row_of(kept, "features")["feature_rank"],
        "dormant units, %": lambda kept: 100 * row_of(kept, "features")["dormant"],
        "best value less discounted return": lambda kept: row_of(kept, "optimism")["optimism"],
    }

    def of(arm: str, number: Callable[[Kept], float]) -> list[float]:
        return [number(kept) for kept in found[arm]]

    print("| | " + " | ".join(f"`{arm}`" for arm in found) + " |\n|" + "---|" * (len(found) + 1))
    for words, number in numbers.items():
        print(f"| {words} | " + " | ".join(shown(of(arm, number)) for arm in found) + " |")
    each = {arm: [f"{value:.4g}" for value in of(arm, numbers["evaluation, 20 games"])] for arm in found}
    print("| evaluation, each seed | " + " | ".join(", ".join(each[arm]) for arm in found) + " |")
    wins = {arm: np.greater.outer(of(arm, score_of), of(plain, score_of)) for arm in structured}
    print(f"| beats `{plain}` | | " + " | ".join(f"{won.sum()} of {won.size} pairs" for won in wins.values()) + " |")
    for words, centred in (("rank at 99% / 99.99% of the energy", False), ("with row means taken out", True)):
        print(f"| {words} | " + " | ".join(ranks(cells, centred) for cells in found.values()) + " |")

    print("\nbeside the plain arm (Welch):")
    beside = {**numbers, "values": lambda kept: row_of(kept, "optimism")["value"]}
    for arm in structured:
        print(
            f"  {arm}: "
            + "; ".join(f"{words} {difference(of(arm, one), of(plain, one))}" for words, one in beside.items())
        )
    if changes:
        print(f"beside batches of {SIZES[0]} (Welch):")
        for arm in found:
            smaller = runs_of(game, arm, {})
            told = (f"{words} {difference(of(arm, one), [*map(one, smaller)])}" for words, one in beside.items())
            print(f"  {arm}: " + "; ".join(told))
        for words in ("score, last 100 games", "evaluation, 20 games"):
            ours = [numbers[words](kept) for arm in found for kept in found[arm]]
            theirs = [numbers[words](kept) for arm in found for kept in runs_of(game, arm, {})]
            print(f"  all arms as repetitions: {words} {difference(ours, theirs)} on {np.mean(theirs):.3g}")
    print("targets and estimation:")
    for arm in structured:
        push = [float(np.mean(row_of(kept, "learning")["target_bias"])) for kept in found[arm]]
        print(f"  {arm}: mean push of a target in training {shown(push)}")
    for scale in ("minmax", "row"):
        for name in ("beyond_row_mean", "held_out", "row_max_bias", "best_kept"):
            values = of(plain, lambda kept, name=name, scale=scale: row_of(kept, "estimation", scale=scale)[name])
            print(f"  estimation on {plain}'s values, {scale}: {name} {shown(values)}")
    for name in ("gained", "value"):
        print(f"  {name} by {plain} {shown(of(plain, lambda kept, name=name: row_of(kept, 'optimism')[name]))}")


if __name__ == "__main__":
    main()
