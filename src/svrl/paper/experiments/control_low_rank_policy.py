"""Policies from a part of the converged Q of the four control tasks: is the structure in Q*?

A share of the entries is kept, the rest recovered by matrix estimation, and the policy is greedy in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from svrl.paper.claim import Claim, Evidence
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import control
from svrl.paper.experiments.control import MASKS, OPTIMUM, TASKS, policy_claim
from svrl.planning.policy import low_rank_policy
from svrl.plots.style import letter, new_figure
from svrl.runs.spec import Kind, Result, RunSpec, Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compute(settings: Mapping[str, Any], work: Work) -> Result:
    """One task, one share, one mask."""
    problem = control.problem_of(settings, work.device)
    generator = torch.Generator(problem.model.device).manual_seed(settings["seed"])
    found = low_rank_policy(problem.q, generator, p=settings["p"])
    row, arrays = control.judged_q(problem, found.q, found.policy)
    return Result(rows=[{**row, "rank_of_estimate": int(found.estimate.rank)}], arrays=arrays)


KIND = Kind(name="control-low-rank-policy", version=1, compute=compute)

HALF = 0.5
SHARES = {
    "smoke": (0.2, HALF),
    "laptop": (0.1, 0.3, HALF, 0.7, 0.9),
    "full": (0.1, 0.2, 0.3, 0.4, HALF, 0.6, 0.7, 0.8, 0.9),
}


def runs(scale: str) -> tuple[RunSpec, ...]:
    """Every task with its optimum, which SVP's figures use too."""
    found: list[RunSpec] = []
    small = scale == "smoke"
    for task in TASKS:
        where = control.grid(scale, task, "paper")
        found.append(RunSpec(kind=OPTIMUM, settings=where, minutes=0.01 if small else 0.1))
        found += [
            RunSpec(kind=KIND, settings={**where, "p": p, "seed": seed}, minutes=0.005 if small else 0.12)
            for p in SHARES[scale]
            for seed in range(MASKS[scale])
        ]
    return tuple(found)


POLICIES = dict(zip(TASKS, ("fig8", "fig11", "fig15", "fig19"), strict=True))
"""Figures of policies and metrics, by task."""
PATHS = dict(zip(TASKS, ("fig9", "fig12", "fig16", "fig20"), strict=True))
"""Figures of trajectories, by task."""


def needs(figure: str, run: RunSpec) -> bool:
    """Whether a figure reads a run: that of its task."""
    return figure in (POLICIES[run.settings["task"]], PATHS[run.settings["task"]])


BUDGETS = {
    scale: Budget(runs=runs(scale), needs=needs, words=control.words_of(scale, f"{shares[0]:g} to {shares[-1]:g}"))
    for scale, shares in SHARES.items()
}


def _claims_of(task: str, like: str, performs: str) -> Iterator[Claim]:
    """Of one task; the paper's words for its map, and for how the policy performs."""
    plain = task.replace("-", " ")
    claim = partial(policy_claim, kind=KIND.name, task=task, p=HALF)
    says = f"On the {plain} the policy from half of the entries of Q* is as good as the optimal one."
    yield claim("loss", f"{task}-low-rank-policy", POLICIES[task], says, performs)
    says = f"The map of the policy from half of the entries of Q* of the {plain} looks like the optimum's."
    yield claim("map", f"{task}-low-rank-map", POLICIES[task], says, like)
    says = f"The metric of that policy on the {plain} is the optimum's."
    yield claim("metric", f"{task}-low-rank-metric", POLICIES[task], says, performs)
    says = f"On the {plain} starts end where the optimum brings them under the policy from half of Q*."
    yield claim("ends", f"{task}-low-rank-ends", PATHS[task], says, "nearly identical")


CLAIMS = (
    *_claims_of("inverted-pendulum", "essentially identical", "essentially identical"),
    *_claims_of("mountain-car", "visually identical", "almost identical"),
    *_claims_of("double-integrator", "visually identical", "the same performance"),
    *_claims_of("cart-pole", "visually identical", "almost identical"),
)


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Maps with the metric against the share, or trajectories."""
    task = next(task for task in TASKS if figure_id in (POLICIES[task], PATHS[task]))
    best = evidence.only(OPTIMUM.name, task=task)
    named = {"optimum": best, f"from p = {HALF:g} of Q*": evidence.only(KIND.name, task=task, p=HALF, seed=0)}
    if figure_id == PATHS[task]:
        return control.draw_starts_of(named)
    figure = new_figure(9.4, 2.9)
    parts: Any = figure.subfigures(1, 2, width_ratios=[1.9, 1.0])
    left, right = parts
    panels, metric = left.subplots(1, 2), right.subplots()
    control.draw_maps_of(left, panels, [(best, run) for run in named.values()])
    control.draw_shares(metric, evidence, best, "low-rank policy", KIND.name, task=task)
    letter([*panels, metric], [*named, "metric against p"])
    return figure


EXPERIMENT = Experiment(
    name="control_low_rank_policy",
    title="policies from a part of Q*",
    says={
        **{
            figure: f"Half of the entries of the {task.replace('-', ' ')}'s converged Q, completed by matrix "
            "estimation, give a policy that looks and performs like the optimal one."
            for task, figure in POLICIES.items()
        },
        **{
            figure: f"That policy moves the {task.replace('-', ' ')} nearly as the optimal one does, with nearly the "
            "same inputs."
            for task, figure in PATHS.items()
        },
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=("Claims on trajectories test where starts end, not the way there.",),
)
