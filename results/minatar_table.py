"""The table of MinAtar in docs/evidence.md, from the committed cells: python results/minatar_table.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svrl.experiments.paper.catalogue import load_experiment
from svrl.experiments.paper.store import Kept, committed_store, read_first
from svrl.experiments.training_cells.reading import mean_rank, row_of, score_of, title_of

ARMS = ("dqn", "sv-dqn", "sv-dqn-network")
RESAMPLES = 20_000


def shown(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Mean and its 95% percentile bootstrap over seeds."""
    drawn = np.random.default_rng(0).choice(np.array(values), (RESAMPLES, len(values))).mean(1)
    mean, low, high = (form.format(value) for value in (np.mean(values), *np.quantile(drawn, (0.025, 0.975))))
    return f"{mean} [{low}, {high}]"


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    cells = load_experiment("minatar_learning").budgets["short"].cells
    kept = [one for one in (read_first(cell, (committed_store(),)) for cell in cells) if one is not None]
    games = list(dict.fromkeys(cell.settings["env"] for cell in cells))

    def of(game: str, arm: str) -> list[Kept]:
        return [one for one in kept if (one.settings["env"], one.settings["arm"]) == (game, arm)]

    print("| | " + " | ".join(f"`{arm}`" for arm in ARMS) + " |\n|---|---|---|---|")
    for game in games:
        scores = [shown([score_of(one) for one in of(game, arm)]) for arm in ARMS]
        print(f"| {title_of(game)}, {len(of(game, ARMS[0]))} seeds | " + " | ".join(scores) + " |")
    print("\nsvrl paper check --scale short has the probabilities over all games. On plain DQN's values:")
    for game in games:
        plain = of(game, "dqn")
        for scale in ("minmax", "row"):
            beyond = [row_of(one, "estimation", scale=scale)["beyond_row_mean"] for one in plain]
            print(f"  {title_of(game)}, {scale}: error over that of the row's mean {shown(beyond)}")
        ranks = [shown([mean_rank(one, centred=centred) for one in plain]) for centred in (False, True)]
        print(f"  {title_of(game)}: rank at 99% {ranks[0]}, with row means taken out {ranks[1]}")


if __name__ == "__main__":
    main()
