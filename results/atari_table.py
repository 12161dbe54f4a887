"""What all complete Atari games say together, for docs/evidence.md: python results/atari_table.py."""

from __future__ import annotations

import sys
from functools import partial

from svrl.envs.atari_games import GAMES
from svrl.paper.catalogue import load_experiment
from svrl.paper.experiments.gains import Panels, correlation, gain_of
from svrl.paper.experiments.trainings import (
    ARMS_OF,
    centred_rank_share,
    env_names,
    envs_of,
    mean_rank,
    row_of,
    score_of,
    score_over_time,
    title_of,
    values,
)
from svrl.paper.table import committed_table
from svrl.paper.verdicts import shown

PLAIN, *STRUCTURED = ARMS_OF["dqn"]
MEASURES = {
    "last 100 games": score_of,
    "all of training": score_over_time,
    "evaluation": lambda kept: float(row_of(kept, "score")["evaluation"]),
}
RANKS = {
    "rank at 99%": mean_rank,
    "rank at 99.99%": partial(mean_rank, energy=0.9999),
    "rank with row means taken out": partial(mean_rank, centred=True),
    "the same over the possible": centred_rank_share,
}


def main() -> None:
    """Print gains of both structured arms, game by game and together, and rank against gain."""
    evidence = load_experiment("atari_diagnosis").evidence("short", (committed_table(),))
    if evidence is None:
        sys.exit("No game is complete. results/add_game.sh frostbite trains one.")
    envs = envs_of(evidence, env_names(GAMES), ARMS_OF["dqn"])
    print("| relative gain, last 100 games | " + " | ".join(title_of(env) for env in envs) + " |")
    print("|---|" + "---|" * len(envs))
    for arm in STRUCTURED:
        gains = Panels.of(evidence, PLAIN, arm, envs).gains
        print(f"| `{arm}` | " + " | ".join(f"{gain:+.0%}" for gain in gains) + " |")
    for words, rank in RANKS.items():
        means = [seeds.mean() for seeds in values(evidence, PLAIN, envs, rank)]
        print(f"| {words} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    print(f"\nover {len(envs)} games:")
    for arm in STRUCTURED:
        for words, measure in MEASURES.items():
            gain = gain_of(evidence, PLAIN, arm, envs, measure=measure)
            print(
                f"  {arm}, {words}: beats {PLAIN} {gain.improvement:.2f}{shown(gain.improvement_interval)}, "
                f"human-normalised IQM {gain.difference:+.3f}{shown(gain.difference_interval, 3)}"
            )
        for words, rank in RANKS.items():
            tau, ends, games = correlation(evidence, PLAIN, arm, envs, rank)
            told = f"{tau:+.2f}{shown(ends)}" if games else "none, it does not differ"
            print(f"  {arm}: Kendall's tau of gain and {words}: {told}")


if __name__ == "__main__":
    main()
