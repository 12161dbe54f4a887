"""Settings of structure one at a time, for docs/evidence.md, from the committed cells.

python results/control_ways_table.py
"""

from __future__ import annotations

import sys

from means_with_intervals import ends, mean_and_ends

from svrl.paper.catalogue import load_experiment
from svrl.paper.experiments.control_learning import ENVS, less_loss, over_the_end
from svrl.paper.experiments.control_ways import AUTHORS, CENTRED, PLAIN, by_way, ways_of
from svrl.paper.experiments.gains import gain_of
from svrl.paper.experiments.trainings import target_push, title_of, trainings
from svrl.paper.table import committed_table


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    found = load_experiment("control_ways").evidence("short", (committed_table(),))
    if found is None:
        sys.exit("No way is complete: svrl paper run control_ways --scale short --store runs/evidence")
    evidence = by_way(found)
    ways = ways_of(evidence)
    tasks = " | ".join(title_of(env) for env in ENVS)
    print(f"| | {tasks} | beats plain | beats the authors' | beats rows centred |\n|{'---|' * 8}")
    for way in ways:
        told = [
            mean_and_ends([-less_loss(kept) for kept in trainings(evidence, env=env, arm=way.name)], "{:.4f}")
            for env in ENVS
        ]
        for other in (PLAIN, AUTHORS, CENTRED):
            if way is other or other not in ways:
                told.append("")
                continue
            gain = gain_of(evidence, other.name, way.name, ENVS, measure=less_loss)
            told.append(f"{gain.improvement:.2f}{ends(gain.improvement_interval)}")
        print(f"| {way.name} | {' | '.join(told)} |")

    for way in ways[1:]:
        gain = gain_of(evidence, PLAIN.name, way.name, ENVS, measure=less_loss)
        print(f"{way.name}: less loss, over plain DQN's, {gain.difference:+.2f}{ends(gain.difference_interval)}")
        for env in ENVS:
            cells = trainings(evidence, env=env, arm=way.name)
            errors = mean_and_ends([over_the_end(kept, "value_error") for kept in cells], "{:.3f}")
            pushes = mean_and_ends([target_push(kept) for kept in cells], "{:+.4f}")
            one = gain_of(evidence, PLAIN.name, way.name, (env,), measure=less_loss)
            print(
                f"  {title_of(env)}: beats plain {one.improvement:.2f}{ends(one.improvement_interval)}, "
                f"push of a target {pushes}, error of the best value {errors}"
            )


if __name__ == "__main__":
    main()
