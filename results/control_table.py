"""The table of control tasks in docs/evidence.md, from the committed cells: python results/control_table.py."""

from __future__ import annotations

import sys

import numpy as np
import torch
from minatar_table import ends, shown

from svrl.agents.config import AgentConfig
from svrl.envs.control import task_with
from svrl.experiments.control_learning.claims import PLAIN, STRUCTURED, less_loss, over_the_end
from svrl.experiments.control_learning.settings import ACTIONS, DISCOUNT
from svrl.experiments.paper.catalogue import load_experiment
from svrl.experiments.paper.store import committed_store
from svrl.experiments.training.q_star import QStarError
from svrl.experiments.training_cells.gains import gain_of
from svrl.experiments.training_cells.reading import ENERGY, TIGHT_ENERGY, mean_rank, row_of, title_of, trainings
from svrl.matrix.rank import approximate_rank

BATCHES = 2_000
BATCH = AgentConfig().batch_size


def best_ranks(env: str) -> str:
    """Mean ranks of the best Q on batches of random grid states, raw and with row means taken out."""
    task = task_with(env.removeprefix("control/"), ACTIONS)
    q = QStarError.of(task, discount=DISCOUNT).q_star
    generator = torch.Generator().manual_seed(0)
    batches = q[torch.randint(len(q), (BATCHES, BATCH), generator=generator)]
    centred = batches - batches.mean(-1, keepdim=True)
    told = (
        f"{float(torch.as_tensor(approximate_rank(some, energy=energy)).double().mean()):.1f}"
        for some in (batches, centred)
        for energy in (ENERGY, TIGHT_ENERGY)
    )
    return "rank of Q* at 99% {}, at 99.99% {}; with row means taken out {}, {}".format(*told)


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    evidence = load_experiment("control_learning").evidence("laptop", (committed_store(),))
    if evidence is None:
        sys.exit("No task is complete: svrl paper run control_learning --scale laptop --store results/paper")
    tasks = list(dict.fromkeys(kept.settings["env"] for kept in evidence.cells))
    arms = (PLAIN, *STRUCTURED)
    print("| | " + " | ".join(f"`{arm}`" for arm in arms) + " |\n|---|---|---|---|")
    for name, words in (("greedy_loss", "policy loss"), ("value_error", "error of the best value")):
        for task in tasks:
            groups = [[over_the_end(kept, name) for kept in trainings(evidence, env=task, arm=arm)] for arm in arms]
            print(f"| {title_of(task)}, {words} | {' | '.join(shown(group, '{:.4f}') for group in groups)} |")
    gains = [gain_of(evidence, PLAIN, arm, tasks, measure=less_loss) for arm in STRUCTURED]
    wins = [f"{gain.improvement:.2f}{ends(gain.improvement_interval)}" for gain in gains]
    print(f"| loses less than `dqn`, probability over all | | {' | '.join(wins)} |")

    for arm, gain in zip(STRUCTURED, gains, strict=True):
        print(
            f"{arm}: less loss, over plain DQN's, interquartile {gain.difference:+.3f}{ends(gain.difference_interval)}"
        )
        for task in tasks:
            one = gain_of(evidence, PLAIN, arm, [task], measure=less_loss)
            print(f"  {title_of(task)}: probability {one.improvement:.2f}{ends(one.improvement_interval)}")
    for task in tasks:
        plain = trainings(evidence, env=task, arm=PLAIN)
        print(f"{title_of(task)}: {best_ranks(task)}")
        ranks = [
            np.mean([mean_rank(kept, energy, centred) for kept in plain])
            for centred in (False, True)
            for energy in (ENERGY, TIGHT_ENERGY)
        ]
        print("  of plain DQN's values " + ", ".join(f"{rank:.1f}" for rank in ranks))
        for scale in ("minmax", "row"):
            beyond = [row_of(kept, "estimation", scale=scale)["beyond_row_mean"] for kept in plain]
            print(f"  {scale}: error over that of the row's mean {shown(beyond)}")


if __name__ == "__main__":
    main()
