"""The tables of docs/evidence.md, from the committed runs of the short budget.

    python results/tables.py atari_learning --env frostbite --technique dueling
    python results/tables.py atari_batch_size --env seaquest --batch-size 128
    python results/tables.py atari_diagnosis | minatar_learning | control_learning | control_ways

Of each environment every number by arm, with its 95% interval over seeds: Student's t below five seeds, else the
percentile bootstrap. Then differences to the first arm by Welch, and over all environments how often one arm beats
another.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from svrl.agents.study import distinct_rows
from svrl.matrix.rank import approximate_rank
from svrl.mdp.tasks import make_task
from svrl.paper.catalogue import load_experiment
from svrl.paper.claim import Evidence
from svrl.paper.experiments import control_learning, control_ways, gains, trainings
from svrl.paper.experiments.atari_batch_size import of_batches
from svrl.paper.experiments.trainings import Measure, known_number, mean_rank, title_of
from svrl.paper.table import committed_table
from svrl.runs.store import Kept
from svrl.stats import bootstrap_interval, student_interval, welch_interval
from svrl.training.q_star import CONTROL, QStarError

FEW = 5


def target_push(kept: Kept) -> float:
    """What completion added to a target, on average over training; 0 where nothing is completed."""
    known = [value for value in trainings.row_of(kept, "learning").get("target_bias", ()) if value is not None]
    return float(np.mean(known)) if known else 0.0


MEASURES: dict[str, Measure] = {
    "score, last 100 games": trainings.score_of,
    "score, all of training": trainings.score_over_time,
    "score, final network": lambda kept: trainings.row_of(kept, "score")["evaluation"],
}
LOSS: dict[str, Measure] = {"policy loss": control_learning.less_loss}
RANKS: dict[str, Measure] = {
    "rank at 99%": mean_rank,
    "rank at 99.99%": partial(mean_rank, energy=trainings.TIGHT_ENERGY),
    "row-centred rank at 99%": partial(mean_rank, centred=True),
    "row-centred rank at 99.99%": partial(mean_rank, energy=trainings.TIGHT_ENERGY, centred=True),
    "row-centred rank over the possible": trainings.centred_rank_share,
}
NUMBERS: dict[str, Measure] = {
    **MEASURES,
    "policy loss": partial(control_learning.over_the_end, name="greedy_loss"),
    "error of the best value": partial(control_learning.over_the_end, name="value_error"),
    **RANKS,
    "rank of features": partial(known_number, what="features", name="feature_rank"),
    "dormant units": partial(known_number, what="features", name="dormant"),
    "best value": partial(known_number, what="optimism", name="value"),
    "discounted return": partial(known_number, what="optimism", name="gained"),
    "best value less discounted return": partial(known_number, what="optimism", name="optimism"),
    "mean push of a target": target_push,
    **{
        f"estimation with scale {scale}: {name}": partial(known_number, what="estimation", name=name, scale=scale)
        for scale in ("minmax", "row")
        for name in ("held_out", "beyond_row_mean", "row_max_bias", "best_kept")
    },
}


def shown(values: Sequence[float]) -> str:
    """Mean and its interval."""
    if not len(values):
        return ""
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, high = student_interval(values) if len(values) < FEW else bootstrap_interval(values, resamples=20_000)
    return f"{np.mean(values):.3g} [{low:.3g}, {high:.3g}]"


def known(runs: Sequence[Kept], number: Measure) -> list[float]:
    """The number of those trainings that have it."""
    found = []
    for kept in runs:
        try:
            value = number(kept)
        except LookupError:
            continue
        if value is not None:
            found.append(float(value))
    return found


def line(*words: str) -> None:
    """A row of a table."""
    print(f"| {' | '.join(words)} |")


def print_numbers(groups: dict[str, list[Kept]]) -> None:
    """One environment: numbers by arm, and what the others differ by from the first one."""
    line("", *(f"`{arm}`" for arm in groups))
    print("|---" * (len(groups) + 1) + "|")
    for words, number in NUMBERS.items():
        found = [known(runs, number) for runs in groups.values()]
        if any(found):
            line(words, *map(shown, found))
    (first, plain), *others = groups.items()
    for arm, runs in others:
        print(f"\n`{arm}` less `{first}` (Welch):")
        print_differences(runs, plain)


def print_differences(ours: Sequence[Kept], theirs: Sequence[Kept]) -> None:
    """Of every number that both know from two runs or more."""
    for words, number in NUMBERS.items():
        mine, its = known(ours, number), known(theirs, number)
        if min(len(mine), len(its)) > 1:
            low, high = welch_interval([mine], [its])
            print(f"  {words} {np.mean(mine) - np.mean(its):+.3g} [{low:.3g}, {high:.3g}]")


def print_together(evidence: Evidence, arms: Sequence[str], envs: Sequence[str]) -> None:
    """How often one arm beats another, and on Atari whether the gain goes with the rank."""
    measures = LOSS if envs[0].startswith(CONTROL) else MEASURES
    for (other, better), (words, measure) in itertools.product(itertools.combinations(arms, 2), measures.items()):
        panels = gains.Panels.of(evidence, other, better, envs, measure)
        print(f"{better} beats {other} by {words}, {len(envs)} environments: {panels.words}")
    if not envs[0].startswith(trainings.ATARI):
        return
    for arm in arms[1:]:
        panels = gains.Panels.of(evidence, arms[0], arm, envs)
        print(f"relative gain of {arm}: {panels}")
        for words, rank in RANKS.items():
            found = gains.correlation(gains.ranks_of(evidence, arms[0], envs, rank), panels.gains)
            print(f"  Kendall's tau with {words}: {f'{found[0]:+.2f} {found[1]}' if found else 'none '}")


def print_best_ranks(env: str, batch: int) -> None:
    """Mean ranks of the best Q of a control task on batches of distinct grid states."""
    task = make_task(env.removeprefix(CONTROL), actions=control_learning.ACTIONS)
    q = QStarError.of(task, gamma=control_learning.DISCOUNT).q_star
    batches = q[distinct_rows(2_000, batch, len(q), torch.Generator().manual_seed(0))]
    for words, some in (("", batches), ("row-centred ", batches - batches.mean(-1, keepdim=True))):
        for energy in (trainings.ENERGY, trainings.TIGHT_ENERGY):
            rank = torch.as_tensor(approximate_rank(some, energy=energy)).double().mean()
            print(f"best Q, batches of {batch} states: {words}rank at {energy:.2%} {float(rank):.1f}")


def main() -> None:
    """Print the tables of one experiment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment")
    parser.add_argument("--env", help="one environment, as in frostbite; all by default")
    parser.add_argument("--technique", choices=trainings.TECHNIQUES, default="dqn")
    parser.add_argument("--batch-size", type=int, help="of Atari, 32 by default")
    given = parser.parse_args()
    evidence = load_experiment(given.experiment).evidence("short", (committed_table(),))
    if evidence is None:
        sys.exit(f"{given.experiment} is not complete: svrl paper run {given.experiment} --scale short computes it.")
    arms: Sequence[str] = trainings.ARMS_OF[given.technique]
    if given.experiment == "control_ways":
        evidence = control_ways.by_way(evidence)
        arms = [way.name for way in control_ways.ways_of(evidence)]
    everything = evidence
    if given.experiment.startswith("atari"):
        evidence = of_batches(everything, given.batch_size or 32)
    every = dict.fromkeys(kept.settings["env"] for kept in evidence.runs)
    envs = [env for env in trainings.envs_of(evidence, every, arms) if given.env in (None, env.rpartition("/")[2], env)]
    if not envs:
        sys.exit(f"Nothing that was asked for is complete. There is: {evidence.words}.")
    for env in envs:
        groups = {arm: evidence.where(env=env, arm=arm) for arm in arms}
        print(f"\n{title_of(env)}\n")
        print_numbers(groups)
        if given.batch_size:
            for words, some in (*((arm, [arm]) for arm in arms), ("all arms as repetitions", arms)):
                print(f"\n{words}, less batches of 32 (Welch):")
                larger, smaller = (
                    [kept for arm in some for kept in which.where(env=env, arm=arm)]
                    for which in (evidence, of_batches(everything, 32))
                )
                print_differences(larger, smaller)
        if given.experiment == "control_learning":
            for batch in (32, trainings.config_of(groups[arms[0]][0].settings).batch_size):
                print_best_ranks(env, batch)
    print()
    print_together(evidence, arms, envs)


if __name__ == "__main__":
    main()
