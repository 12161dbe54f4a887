"""Policies from a part of the converged Q of the four control tasks: is the structure in Q*?

A share of the entries is kept, the rest recovered by matrix estimation, and the policy is greedy in the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from svrl.paper.claim import Claim, Evidence
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import control
from svrl.paper.experiments.control import OPTIMUM, TASKS
from svrl.paper.experiments.control_svp import grid
from svrl.paper.verdicts import percent
from svrl.planning.policy import low_rank_policy
from svrl.plots.style import letter, new_figure
from svrl.runs.spec import Kind, Result, RunSpec, Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compute(settings: Mapping[str, Any], work: Work) -> Result:
    """One task, one share, one mask."""
    problem = control.problem_of(settings, work.device)
    generator = torch.Generator(problem.model.device).manual_seed(settings["seed"])
    found = low_rank_policy(problem.q, generator, observe=settings["observe"])
    row, arrays = control.judged_q(problem, found.q, found.policy)
    return Result(rows=[{**row, "rank_of_estimate": int(found.estimate.rank)}], arrays=arrays)


KIND = Kind(name="control-low-rank-policy", version=1, compute=compute)

HALF = 0.5
SHARES = {
    "smoke": (0.2, HALF),
    "laptop": (0.1, 0.3, HALF, 0.7, 0.9),
    "full": (0.1, 0.2, 0.3, 0.4, HALF, 0.6, 0.7, 0.8, 0.9),
}
MASKS = {"smoke": 2, "laptop": 3, "full": 5}
WORDS = {
    "smoke": "225x80 pairs, p = .2 and .5, 2 masks, 20 starts",
    "laptop": "2500x1000 pairs (cart-pole 10000x1000), p = .1 to .9, 3 masks, 1000 starts",
    "full": "2500x1000 pairs (cart-pole 10000x1000), p = .1 to .9, 5 masks, 1000 starts",
}


def runs(scale: str) -> tuple[RunSpec, ...]:
    """Every task with its optimum, which SVP's figures use too."""
    found: list[RunSpec] = []
    small = scale == "smoke"
    for task in TASKS:
        where = grid(scale, task, "paper")
        found.append(RunSpec(kind=OPTIMUM, settings=where, minutes=0.01 if small else 0.1))
        found += [
            RunSpec(kind=KIND, settings={**where, "observe": observe, "seed": seed}, minutes=0.005 if small else 0.12)
            for observe in SHARES[scale]
            for seed in range(MASKS[scale])
        ]
    return tuple(found)


POLICIES = dict(zip(TASKS, ("fig8", "fig11", "fig15", "fig19"), strict=True))
"""Figures of policies and metrics, by task."""
PATHS = dict(zip(TASKS, ("fig9", "fig12", "fig16", "fig20"), strict=True))
"""Figures of trajectories, by task."""
TASK_OF = {figure: task for some in (POLICIES, PATHS) for task, figure in some.items()}


def needs(figure: str, run: RunSpec) -> bool:
    """Whether a figure reads a run: that of its task."""
    return figure in (POLICIES[run.settings["task"]], PATHS[run.settings["task"]])


BUDGETS = {scale: Budget(runs=runs(scale), needs=needs, words=words) for scale, words in WORDS.items()}


def _claims(task: str, section: str, like: str, performs: str) -> tuple[Claim, ...]:
    """Of one task; the paper's words for its map and for how the policy performs."""
    plain = task.replace("-", " ")
    which: dict[str, Any] = {"kind": KIND.name, "task": task, "observe": HALF}
    claim = partial(Claim, figure=POLICIES[task], section=section)
    return (
        claim(
            name=f"{task}-low-rank-policy",
            says=f"On the {plain} the policy from half of the entries of Q* is as good as the optimal one.",
            paper=performs,
            test=control.LOSS_TEST,
            judge=partial(control.judge_loss, **which),
        ),
        claim(
            name=f"{task}-low-rank-map",
            says=f"The map of the policy from half of the entries of Q* of the {plain} looks like the optimum's.",
            paper=like,
            test="mean over grid states of the difference to the optimum's input, over the range of inputs: upper end "
            f"of the 95% interval over masks at most {percent(control.INPUT_GAP)}",
            judge=partial(control.judge_map, **which),
        ),
        claim(
            name=f"{task}-low-rank-metric",
            says=f"The metric of that policy on the {plain} is the optimum's.",
            paper=performs,
            test=control.METRIC_TEST,
            judge=partial(control.judge_metric, **which),
        ),
        Claim(
            name=f"{task}-low-rank-ends",
            figure=PATHS[task],
            section=section,
            says=f"On the {plain} starts end where the optimum brings them under the policy from half of Q*.",
            paper="nearly identical",
            test=control.ENDS_TEST,
            judge=partial(control.judge_ends, **which),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *_claims("inverted-pendulum", "C.1", "essentially identical", "essentially identical"),
    *_claims("mountain-car", "C.2", "visually identical", "almost identical"),
    *_claims("double-integrator", "C.3", "visually identical", "the same performance"),
    *_claims("cart-pole", "C.4", "visually identical", "almost identical"),
)


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Maps with the metric against the share, or trajectories."""
    from svrl.plots.planning import draw_maps, draw_shares

    task = TASK_OF[figure_id]
    best = evidence.only(OPTIMUM.name, task=task)
    named = {"optimum": best, f"from p = {HALF:g} of Q*": evidence.only(KIND.name, task=task, observe=HALF, seed=0)}
    row = best.rows[0]
    if figure_id in PATHS.values():
        return control.draw_starts_of(named, row, task)
    figure = new_figure(9.4, 2.9)
    parts: Any = figure.subfigures(1, 2, width_ratios=[1.9, 1.0])
    left, right = parts
    panels = left.subplots(1, 2)
    maps = [control.policy_map(title, best, run) for title, run in named.items()]
    draw_maps(left, list(panels), maps, (row["axes"][0], row["axes"][1], control.INPUTS[task]))
    shares = sorted({run.settings["observe"] for run in evidence.where(KIND.name, task=task)})
    found = {share: control.values_of(evidence, "metric", KIND.name, task=task, observe=share) for share in shares}
    metric = right.subplots()
    draw_shares(metric, found, row["metric"], label=control.METRICS[row["metric_name"]], name="low-rank policy")
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
