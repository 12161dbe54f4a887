"""A billion pairs: the pendulum on 400 x 250 states and 10,000 actions, planned by cross, in little memory.

Prints peak memory of the process and a certificate on 200 random states. Writes planning_scale.json.

    python results/measure_planning_scale.py OUT_DIR
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch

from svrl import CrossValueIteration, GridMDP, make_task, plan
from svrl.planning import certify_on_sample


def main(out: Path) -> None:
    began = time.perf_counter()
    model = GridMDP(make_task("inverted-pendulum", states=(400, 250), actions=10_000), mode="on-the-fly")
    method = CrossValueIteration(max_iterations=150, tolerance=1e-5)
    result = plan(model, method, seed=0, watch=lambda row: print(row.iteration, row.residual, flush=True))
    seconds = time.perf_counter() - began
    states = torch.randperm(model.n_states, generator=torch.Generator().manual_seed(1))[:200]
    sample = certify_on_sample(model, result.v, result.policy, states)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = {**model.describe(), "method": result.method, "iterations": result.iterations, "outcome": result.outcome}
    row |= {"sweep_equivalents": result.sweep_equivalents, "seconds": seconds, "peak_gigabytes": peak}
    row |= {"certificate": {k: v for k, v in vars(sample).items() if isinstance(v, (int, float, str))}}
    print(row)
    (out / "planning_scale.json").write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
