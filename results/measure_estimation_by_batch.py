"""What matrix estimation makes of the same networks' values in batches of 32, 64 and 128 states.

Writes estimation_by_batch.json: for every run, size and scaling the errors of `svrl.agents.study`, and the
rank. The paper explains figure 30 by these: with more states a batch describes a game of high rank better.

    python results/measure_estimation_by_batch.py RUN... > results/estimation_by_batch.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from svrl import load_agent, rank_study
from svrl.runtime.provenance import commit

SIZES = (32, 64, 128)


def main(runs: list[Path]) -> None:
    rows = []
    for run in runs:
        settings = json.loads((run / "config.json").read_text())
        agent = load_agent(run)
        for size in SIZES:
            study = rank_study(agent, batches=1_000, batch_size=size)
            told = {"env": study.env, "seed": settings["seed"], "trained_with": agent.config.batch_size, "states": size}
            told |= {"rank_99": study.mean, "row_centred_rank_99": study.row_centred_mean}
            rows += [told | asdict(estimation) for estimation in study.estimation]
            print(rows[-1], file=sys.stderr, flush=True)
    print(json.dumps({"commit": commit(), "rows": rows}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("Give the folders of runs: python results/measure_estimation_by_batch.py RUN... > FILE")
    main([Path(name) for name in sys.argv[1:]])
