"""The planning numbers of the paper: ranks, metrics of the optimum and of SVP, the toy curves, the table of G.1.

Writes planning_paper.json. Metrics are of 1000 starts, the same for every policy of a task.

    python results/measure_planning_paper.py OUT_DIR [cuda|cpu]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from svrl import (
    GreedyPolicy,
    GridMDP,
    approximate_rank,
    draw_starts,
    evaluate_policy,
    low_rank_policy,
    make_task,
    paper_svp,
    plan,
    policy_loss,
    rollout,
    solve_exactly,
    toy_mdp,
)
from svrl.planning.value_iteration import paper_budget

TASKS = ("inverted-pendulum", "mountain-car", "double-integrator", "cart-pole")
VARIANTS = ("paper", "authors")
SCALES = (((20, 20), 100), ((50, 50), 1000), ((100, 100), 4000))
STARTS = 1000


def ranks(q: torch.Tensor) -> dict:
    centred = q - q.mean(1, keepdim=True)
    kinds = {"raw": q, "row_centred": centred}
    return {
        f"{kind}_{label}": int(approximate_rank(matrix, energy=energy))
        for kind, matrix in kinds.items()
        for label, energy in (("99", 0.99), ("tight", 1 - 1e-6))
    }


class Task:
    """One discretised task with its optimum, and one set of starts for all policies."""

    def __init__(self, name: str, variant: str, device: str, **sizes) -> None:
        self.task = make_task(name, variant=variant, **sizes)
        self.model = GridMDP(self.task, device=device)
        self.v, self.policy = solve_exactly(self.model)
        self.q = self.model.backup(self.v)
        self.starts = draw_starts(self.task, STARTS, torch.Generator().manual_seed(0))
        self.label = {"task": name, "variant": variant, "states": self.model.n_states, "actions": self.model.n_actions}

    def judge(self, q: torch.Tensor, policy: torch.Tensor) -> dict:
        greedy = GreedyPolicy(task=self.task, q=q)
        generator = torch.Generator().manual_seed(1)
        found = rollout(self.task, greedy, starts=self.starts.to(q.device), generator=generator)
        loss = policy_loss(self.v, evaluate_policy(self.model, policy))
        return {"return": found.discounted_return, "metric": found.metric, "policy_loss_relative": loss.relative}


def svp_row(task: Task, observe: float, seed: int, budget: int, output: str) -> dict:
    began = time.perf_counter()
    result = plan(task.model, paper_svp(observe=observe, max_iterations=budget, output=output), seed=seed)
    row = {**task.label, "kind": "paper-svp", "output": output, "observe": observe, "seed": seed}
    row |= {"iterations": result.iterations, "seconds": time.perf_counter() - began, "outcome": result.outcome}
    row |= {"mse": float((result.q.double() - task.q).square().mean()), "rank": result.rank}
    return row | task.judge(result.q, result.policy)


def show(row: dict) -> dict:
    print({k: v for k, v in row.items() if k != "seconds"}, flush=True)
    return row


def main(out: Path, device: str) -> None:
    rows = []
    for name in TASKS:
        for variant in VARIANTS:
            task = Task(name, variant, device)
            budget = paper_budget(task.model)
            optimum = {**task.label, "kind": "optimum", "budget": budget, **ranks(task.q)}
            rows.append(show(optimum | task.judge(task.q, task.policy)))
            for observe, seed in ((0.2, 0), (0.2, 1), (0.2, 2), (0.4, 0), (0.6, 0), (0.8, 0)):
                rows.append(show(svp_row(task, observe, seed, budget, "fill")))
            rows.append(show(svp_row(task, 0.2, 0, budget, "estimate")))
            for observe in (0.2, 0.5):
                found = low_rank_policy(task.q, torch.Generator(device).manual_seed(0), observe=observe)
                row = {**task.label, "kind": "low-rank policy", "observe": observe, "rank": int(found.estimate.rank)}
                rows.append(show(row | task.judge(found.q, found.policy)))
    for states, actions in (SCALES[0], SCALES[2]):
        for variant in VARIANTS:
            task = Task("inverted-pendulum", variant, device, states=states, actions=actions)
            budget = paper_budget(task.model)
            optimum = {**task.label, "kind": "optimum", "budget": budget, **ranks(task.q)}
            rows.append(show(optimum | task.judge(task.q, task.policy)))
            for seed in (0, 1, 2):
                rows.append(show(svp_row(task, 0.2, seed, budget, "fill")))
    rows += toy_rows(device)
    (out / "planning_paper.json").write_text(json.dumps(rows, indent=1) + "\n")


def toy_rows(device: str) -> list[dict]:
    """Rank and error of Q_t for plain value iteration and for reconstruction at p = .5, from Q0 ~ U(0, 1)."""
    rows = []
    for reward in ("uniform", "normal"):
        model = toy_mdp(0, reward=reward, device=device)
        v, _ = solve_exactly(model)
        best = model.backup(v)
        start = torch.rand(best.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(device)
        q = start.clone()
        for t in range(41):
            row = {"kind": "toy", "method": "value-iteration", "reward": reward, "t": t, **ranks(q)}
            rows.append(row | {"mse": float((q - best).square().mean())})
            q = model.backup(q.max(1).values)
        method = paper_svp(observe=0.5, max_iterations=40)
        from svrl.planning.plan import advance, begin

        run = begin(model, method, seed=0, start=start)
        for t, _ in enumerate(advance(model, method, run), start=1):
            q = run.state.memory["q"].double()
            row = {"kind": "toy", "method": "paper-svp", "reward": reward, "t": t, **ranks(q)}
            rows.append(row | {"mse": float((q - best).square().mean())})
        show(rows[-1])
        show({"kind": "toy", "optimum": reward, **ranks(best)})
        rows.append({"kind": "toy", "method": "optimum", "reward": reward, "t": -1, **ranks(best), "mse": 0.0})
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cpu")
