"""The table of control tasks in docs/evidence.md, from the committed cells: python results/control_table.py."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import torch
from means_with_intervals import ends, mean_and_ends
from ways_table import evaluation_of

from svrl.agents.diagnostics import distinct_rows
from svrl.envs.control import task_with
from svrl.matrix.rank import approximate_rank
from svrl.paper.catalogue import load_experiment
from svrl.paper.experiments.control_learning import ACTIONS, DISCOUNT, PLAIN, STRUCTURED, less_loss, over_the_end
from svrl.paper.experiments.gains import gain_of
from svrl.paper.experiments.trainings import (
    ENERGY,
    TIGHT_ENERGY,
    config_of,
    mean_rank,
    row_of,
    score_of,
    score_over_time,
    target_push,
    title_of,
    trainings,
)
from svrl.paper.table import committed_table
from svrl.training.q_star import CONTROL, QStarError

BATCHES = 2_000
OF_THE_STUDY = 32
"""States in a batch of the rank study."""


def best_ranks(env: str, batch: int) -> str:
    """Mean ranks of the best Q on batches of distinct grid states, raw and with row means taken out."""
    task = task_with(env.removeprefix(CONTROL), ACTIONS)
    q = QStarError.of(task, discount=DISCOUNT).q_star
    batches = q[distinct_rows(BATCHES, batch, len(q), torch.Generator().manual_seed(0))]
    centred = batches - batches.mean(-1, keepdim=True)
    told = (
        f"{float(torch.as_tensor(approximate_rank(some, energy=energy)).double().mean()):.1f}"
        for some in (batches, centred)
        for energy in (ENERGY, TIGHT_ENERGY)
    )
    return "{}, {}; with row means taken out {}, {}".format(*told)


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    evidence = load_experiment("control_learning").evidence("short", (committed_table(),))
    if evidence is None:
        sys.exit("No task is complete: svrl paper run control_learning --scale short --store runs/evidence")
    tasks = list(dict.fromkeys(kept.settings["env"] for kept in evidence.cells))
    arms = (PLAIN, *STRUCTURED)
    print("| | " + " | ".join(f"`{arm}`" for arm in arms) + " |\n|---|---|---|---|")
    for name, words in (("greedy_loss", "policy loss"), ("value_error", "error of the best value")):
        for task in tasks:
            groups = [[over_the_end(kept, name) for kept in trainings(evidence, env=task, arm=arm)] for arm in arms]
            print(f"| {title_of(task)}, {words} | {' | '.join(mean_and_ends(group, '{:.4f}') for group in groups)} |")
    gains = [gain_of(evidence, PLAIN, arm, tasks, measure=less_loss) for arm in STRUCTURED]
    wins = [f"{gain.improvement:.2f}{ends(gain.improvement_interval)}" for gain in gains]
    print(f"| loses less than `dqn`, probability over all | | {' | '.join(wins)} |")

    for arm, gain in zip(STRUCTURED, gains, strict=True):
        print(
            f"{arm}: less loss, over plain DQN's, interquartile {gain.difference:+.2f}{ends(gain.difference_interval)}"
        )
        for task in tasks:
            one = gain_of(evidence, PLAIN, arm, [task], measure=less_loss)
            print(f"  {title_of(task)}: probability {one.improvement:.2f}{ends(one.improvement_interval)}")
    for task in tasks:
        plain = trainings(evidence, env=task, arm=PLAIN)
        print(f"{title_of(task)}, ranks at 99% and 99.99% of the energy:")
        for batch in (OF_THE_STUDY, config_of(plain[0].settings).batch_size):
            print(f"  best Q, batches of {batch} grid states: {best_ranks(task, batch)}")
        ranks = [
            np.mean([mean_rank(kept, energy, centred) for kept in plain])
            for centred in (False, True)
            for energy in (ENERGY, TIGHT_ENERGY)
        ]
        told = "{:.1f}, {:.1f}; with row means taken out {:.1f}, {:.1f}".format(*ranks)
        print(f"  plain DQN's values, batches of {OF_THE_STUDY} states that it meets: {told}")
        for scale in ("minmax", "row"):
            beyond = [row_of(kept, "estimation", scale=scale)["beyond_row_mean"] for kept in plain]
            kept_best = [row_of(kept, "estimation", scale=scale)["best_kept"] for kept in plain]
            print(f"  {scale}: error over that of the row's mean {mean_and_ends(beyond)}")
            print(f"  {scale}: best actions that stay {mean_and_ends(kept_best)}")
        for arm in STRUCTURED:
            pushes = [target_push(kept) for kept in trainings(evidence, env=task, arm=arm)]
            print(f"  {arm}: push of a target over training {mean_and_ends(pushes, '{:+.4f}')}")
        first = [row_of(kept, "q_star") for kept in plain]
        begun = np.mean([row["greedy_loss"][0] for row in first])
        print(f"  plain DQN's loss after {first[0]['steps'][0]} steps: {begun:.3f}")
    print("by scores:")
    measures = {"last 100 games": score_of, "all of training": score_over_time, "evaluation": evaluation_of}
    for (words, measure), arm in itertools.product(measures.items(), STRUCTURED):
        gain = gain_of(evidence, PLAIN, arm, tasks, measure=measure)
        print(f"  {arm}, {words}: {gain.improvement:.2f}{ends(gain.improvement_interval)}")


if __name__ == "__main__":
    main()
