"""The table of MinAtar in docs/evidence.md, from the committed cells: python results/minatar_table.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from means_with_intervals import RESAMPLES, ends, mean_and_ends

from svrl.paper.catalogue import load_experiment
from svrl.paper.claim import Evidence
from svrl.paper.experiments.gains import gain_of
from svrl.paper.experiments.trainings import mean_rank, row_of, score_of, title_of, trainings
from svrl.paper.table import committed_table
from svrl.stats import ends as middle_of

PLAIN, *STRUCTURED = ("dqn", "sv-dqn", "sv-dqn-network")


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    evidence = load_experiment("minatar_learning").evidence("short", (committed_table(),))
    if evidence is None:
        sys.exit("MinAtar is not complete: svrl paper run minatar_learning --scale short")
    games = list(dict.fromkeys(kept.settings["env"] for kept in evidence.cells))
    print("| | " + " | ".join(f"`{arm}`" for arm in (PLAIN, *STRUCTURED)) + " |\n|---|---|---|---|")
    for game in games:
        arms = [trainings(evidence, env=game, arm=arm) for arm in (PLAIN, *STRUCTURED)]
        scores = " | ".join(mean_and_ends([score_of(kept) for kept in cells]) for cells in arms)
        print(f"| {title_of(game)}, last 100 games | {scores} |")
    gains = [gain_of(evidence, PLAIN, arm, games) for arm in STRUCTURED]
    wins = [f"{gain.improvement:.2f}{ends(gain.improvement_interval)}" for gain in gains]
    print(f"| beats `dqn`, probability over all | | {' | '.join(wins)} |")

    print("\nscores divided by plain DQN's mean in each game, less 1:")
    for arm, gain in zip(STRUCTURED, gains, strict=True):
        print(f"  {arm}: interquartile mean {gain.difference:+.3f}{ends(gain.difference_interval)}")
        print(f"  {arm}: mean {mean_ratio(evidence, arm, games)}")
    print("on plain DQN's values:")
    for game in games:
        plain = trainings(evidence, env=game, arm=PLAIN)
        for scale in ("minmax", "row"):
            beyond = [row_of(kept, "estimation", scale=scale)["beyond_row_mean"] for kept in plain]
            print(f"  {title_of(game)}, {scale}: error over that of the row's mean {mean_and_ends(beyond)}")
        ranks = [mean_and_ends([mean_rank(kept, centred=centred) for kept in plain]) for centred in (False, True)]
        print(f"  {title_of(game)}: rank at 99% {ranks[0]}, with row means taken out {ranks[1]}")


def mean_ratio(evidence: Evidence, arm: str, games: Sequence[str]) -> str:
    """Mean over games of an arm's mean score over plain DQN's, less 1; seeds are resampled within each game."""
    generator = np.random.default_rng(0)
    ratios, drawn = [], []
    for game in games:
        both = [np.array([score_of(kept) for kept in trainings(evidence, env=game, arm=one)]) for one in (arm, PLAIN)]
        again = [generator.choice(scores, (RESAMPLES, len(scores))).mean(1) for scores in both]
        ratios.append(both[0].mean() / both[1].mean())
        drawn.append(again[0] / again[1])
    low, high = middle_of(np.mean(drawn, axis=0))
    return f"{np.mean(ratios) - 1:+.3f}{ends((low - 1, high - 1))}"


if __name__ == "__main__":
    main()
