"""Noisy backups on the three-motor pendulum: structure against every baseline, at equal numbers of samples.

Writes planning_noise.json: `bars` (five seeds that nothing was tuned on) and `sweep` (noise, samples,
share observed, rank). Policy losses are exact on the grid, as a share of the span of V*.

    python results/measure_planning_noise.py OUT_DIR [cuda|cpu]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from svrl import (
    AveragedStructuredIteration,
    AveragedValueIteration,
    GridMDP,
    IncumbentIteration,
    Method,
    NoisyBackups,
    ValueIteration,
    evaluate_policy,
    make_task,
    plan,
    policy_loss,
    solve_exactly,
)

ITERATIONS = 90
FRESH_SEEDS = range(200, 205)


def main(out: Path, device: str) -> None:
    model = GridMDP(make_task("three-motor-pendulum"), device=device)
    best, _ = solve_exactly(model)

    def losses(method: Method, sigma: float, seeds: range) -> dict:
        began, found, ranks, samples = time.perf_counter(), [], [], 0.0
        for seed in seeds:
            result = plan(NoisyBackups(model, sigma), method, seed=seed)
            found.append(policy_loss(best, evaluate_policy(model, result.policy)).relative)
            ranks.append(result.rank)
            samples = result.sweep_equivalents
        row = {"method": method.name, "record": repr(method), "sigma": sigma, "losses": found}
        row |= {name: getattr(method, name, 1) for name in ("samples", "rank")}
        # The incumbent's few pairs are sampled so often that it costs what a sweep costs, whatever its share.
        row["observe"] = 1.0 if method.name == "incumbent" else getattr(method, "observe", 1.0)
        row |= {"chosen": getattr(method, "choose", True)}
        row |= {"mean": sum(found) / len(found), "ranks": ranks, "sweep_equivalents": samples}
        row["seconds"] = time.perf_counter() - began
        print(f"{row['mean']:.5f}  {sigma:<5} {samples:6.1f}  {row['record']}", flush=True)
        return row

    baselines = [
        ValueIteration(stop="sup", max_iterations=ITERATIONS),
        AveragedValueIteration(max_iterations=ITERATIONS),
        *[IncumbentIteration(challengers=few, max_iterations=ITERATIONS) for few in (1, 2, 3, 5, 9, 39)],
    ]
    ours = AveragedStructuredIteration(max_iterations=ITERATIONS)
    bars = [losses(method, sigma, FRESH_SEEDS) for sigma in (0.1, 0.3, 1.0) for method in [*baselines, ours]]
    sweep = []
    few = range(200, 203)
    for sigma in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        for samples in (1, 4):
            sweep.append(losses(AveragedValueIteration(samples=samples), sigma, few))
            sweep.append(losses(AveragedStructuredIteration(samples=samples), sigma, few))
        sweep.append(losses(IncumbentIteration(challengers=3, max_iterations=ITERATIONS), sigma, few))
    for sigma in (0.1, 0.3, 1.0):
        for share in (0.05, 0.2, 0.5):
            sweep.append(losses(AveragedValueIteration(observe=share), sigma, few))
            sweep.append(losses(AveragedStructuredIteration(observe=share), sigma, few))
        for rank in (2, 3, 5, 8, 12, 20, 40):
            sweep.append(losses(AveragedStructuredIteration(rank=rank, choose=False), sigma, few))
    text = {"problem": model.describe(), "iterations": ITERATIONS, "bars": bars, "sweep": sweep}
    (out / "planning_noise.json").write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cpu")
