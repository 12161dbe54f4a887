"""How much policy the default planners lose: the bars of svp and cross, and every baseline beside them.

svp observes 20% of the pairs, each task with its reward and with reward - 1, three mask seeds, before
and after one final sweep. cross plans 10000 x 4000. Writes planning_quality.json.

    python results/measure_planning_quality.py OUT_DIR [cuda|cpu]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from svrl import (
    CrossValueIteration,
    GridMDP,
    ModifiedPolicyIteration,
    evaluate_policy,
    make_method,
    make_task,
    plan,
    policy_loss,
    solve_exactly,
)
from svrl.planning import Method

TASKS = ("inverted-pendulum", "mountain-car", "double-integrator", "cart-pole")
BUDGET = {"inverted-pendulum": 135, "mountain-car": 181, "double-integrator": 72, "cart-pole": 112}
BASELINES = ("async", "sampled-max", "row-mean-update", "incumbent", "coarse")


def measure(model: GridMDP, best, method: Method, seed: int, **more) -> dict:
    began = time.perf_counter()
    result = plan(model, method, seed=seed)
    seconds = time.perf_counter() - began
    loss = policy_loss(best, evaluate_policy(model, result.policy))
    swept = policy_loss(best, evaluate_policy(model, model.improve(result.v)[1]))
    row = {**{k: result.problem[k] for k in ("task", "reward_offset", "states", "actions")}, **more}
    row |= {"method": result.name, "record": result.method, "seed": seed, "iterations": result.iterations}
    row |= {"policy_loss_relative": loss.relative, "after_one_full_sweep": swept.relative, "worst": loss.worst}
    row |= {"sweep_equivalents": result.sweep_equivalents, "seconds": seconds, "outcome": result.outcome}
    print(
        f"{row['task']:18} {row['reward_offset']:4} {result.name:16} {seed} "
        f"{100 * loss.relative:8.4f}% {100 * swept.relative:8.4f}% {result.sweep_equivalents:8.2f} sweeps",
        flush=True,
    )
    return row


def main(out: Path, device: str) -> None:
    rows = []
    for task in TASKS:
        for offset in (0.0, -1.0):
            model = GridMDP(make_task(task, reward_offset=offset), device=device)
            best, _ = solve_exactly(model)
            for seed in (0, 1, 2):
                svp = make_method("svp", final_sweep=False, iterations=BUDGET[task])
                rows.append(measure(model, best, svp, seed))
            for name in BASELINES:
                rows.append(measure(model, best, make_method(name, iterations=BUDGET[task]), 0))
            rows.append(measure(model, best, make_method("paper-svp", iterations=BUDGET[task]), 0))
    for task in TASKS[:3]:
        model = GridMDP(make_task(task, states=(100, 100), actions=4000), device=device)
        best, _ = solve_exactly(model)
        for seed in (0, 1, 2):
            row = measure(model, best, CrossValueIteration(), seed)
            row["share_of_a_sweep_an_iteration"] = row["sweep_equivalents"] / row["iterations"]
            rows.append(row)
        rows.append(measure(model, best, ModifiedPolicyIteration(), 0))
    (out / "planning_quality.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cpu")
