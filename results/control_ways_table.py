"""Settings of structure one at a time, for docs/evidence.md, from the committed cells.

python results/control_ways_table.py
"""

from __future__ import annotations

import sys

from means_with_intervals import ends, mean_and_ends, push_of

from svrl.experiments.control_learning.claims import less_loss, over_the_end
from svrl.experiments.control_learning.settings import ENVS
from svrl.experiments.control_ways.claims import by_way
from svrl.experiments.control_ways.settings import AUTHORS, PLAIN, WAYS
from svrl.experiments.paper.catalogue import load_experiment
from svrl.experiments.paper.store import committed_store
from svrl.experiments.training_cells.gains import gain_of
from svrl.experiments.training_cells.reading import envs_of, title_of, trainings


def main() -> None:
    """Print the table, and below it what the text beside it says."""
    found = load_experiment("control_ways").evidence("short", (committed_store(),))
    if found is None:
        sys.exit("No way is complete: svrl paper run control_ways --scale short --store results/paper")
    evidence = by_way(found)
    ways = [way for way in WAYS if envs_of(evidence, ENVS, (PLAIN.name, way.name))]
    print(f"| | {' | '.join(title_of(env) for env in ENVS)} | beats plain | beats the authors' |\n|{'---|' * 7}")
    for way in ways:
        losses = [
            mean_and_ends([-less_loss(kept) for kept in trainings(evidence, env=env, arm=way.name)], "{:.3f}")
            for env in ENVS
        ]
        beats = [
            gain_of(evidence, other.name, way.name, ENVS, measure=less_loss) if way is not other else None
            for other in (PLAIN, AUTHORS)
        ]
        told = [f"{gain.improvement:.2f}{ends(gain.improvement_interval)}" if gain else "" for gain in beats]
        print(f"| {way.name} | {' | '.join([*losses, *told])} |")

    for way in ways[1:]:
        gain = gain_of(evidence, PLAIN.name, way.name, ENVS, measure=less_loss)
        print(f"{way.name}: less loss, over plain DQN's, {gain.difference:+.2f}{ends(gain.difference_interval)}")
        for env in ENVS:
            cells = trainings(evidence, env=env, arm=way.name)
            errors = mean_and_ends([over_the_end(kept, "value_error") for kept in cells], "{:.3f}")
            pushes = mean_and_ends([push_of(kept) for kept in cells], "{:+.4f}")
            one = gain_of(evidence, PLAIN.name, way.name, (env,), measure=less_loss)
            print(
                f"  {title_of(env)}: beats plain {one.improvement:.2f}{ends(one.improvement_interval)}, "
                f"push of a target {pushes}, error of the best value {errors}"
            )


if __name__ == "__main__":
    main()
