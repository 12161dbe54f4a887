"""The two ways of adding structure against each other, for docs/evidence.md: python results/ways_table.py."""

from __future__ import annotations

from means_with_intervals import ends

from svrl.paper.catalogue import load_experiment
from svrl.paper.experiments.control_learning import less_loss
from svrl.paper.experiments.gains import gain_of
from svrl.paper.experiments.trainings import Measure, envs_of, row_of, score_of, score_over_time
from svrl.paper.table import committed_table
from svrl.runs.store import Kept

PLAIN, AUTHORS, OURS = ARMS = ("dqn", "sv-dqn", "sv-dqn-network")
PAIRS = ((PLAIN, AUTHORS), (PLAIN, OURS), (AUTHORS, OURS))


def evaluation_of(kept: Kept) -> float:
    """Mean of the games of the final network."""
    return float(row_of(kept, "score")["evaluation"])


GAMES: dict[str, Measure] = {
    "last 100 games": score_of,
    "over all of training": score_over_time,
    "games of the final network": evaluation_of,
}
COMPARED: dict[str, dict[str, Measure]] = {
    "atari_diagnosis": GAMES,
    "minatar_learning": GAMES,
    "control_learning": {"policy loss": less_loss},
}


def main() -> None:
    """Print a table a measure: how often one arm beats the other, with 95% intervals."""
    print("| | " + " | ".join(f"`{better}` beats `{other}`" for other, better in PAIRS) + " |\n|---|---|---|---|")
    for name, measures in COMPARED.items():
        evidence = load_experiment(name).evidence("short", (committed_table(),))
        assert evidence is not None
        found = dict.fromkeys(kept.settings["env"] for kept in evidence.cells)
        # In the order of atari_table.py and of the claims: the draws of a bootstrap depend on it.
        envs = envs_of(evidence, sorted(found) if measures is GAMES else found, ARMS)
        for words, measure in measures.items():
            gains = [gain_of(evidence, *pair, envs, measure=measure) for pair in PAIRS]
            told = " | ".join(f"{gain.improvement:.2f}{ends(gain.improvement_interval)}" for gain in gains)
            print(f"| {name}, {len(envs)} environments, {words} | {told} |")


if __name__ == "__main__":
    main()
