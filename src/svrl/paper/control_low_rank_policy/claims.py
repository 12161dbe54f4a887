"""What the paper says about policies from a part of Q*, and how each statement is tested."""

from __future__ import annotations

from functools import partial

import numpy as np

from svrl.paper.claim import Claim, Finding
from svrl.paper.control_cells import METRICS, TASKS, optimum_of, values_of
from svrl.paper.control_claims import (
    INPUT_GAP,
    LOSS,
    METRIC,
    SAME_ENDS,
    judged_above,
    judged_below,
    percent,
    with_interval,
)
from svrl.paper.control_low_rank_policy.run import KIND
from svrl.paper.control_low_rank_policy.settings import HALF, PATHS, POLICIES
from svrl.paper.evidence import Evidence

SECTIONS = dict(zip(TASKS, ("C.1", "C.2", "C.3", "C.4"), strict=True))
MAPS = dict(zip(TASKS, ("essentially identical", *3 * ["visually identical"]), strict=True))
WORDS = dict(
    zip(TASKS, ("essentially identical", "almost identical", "the same performance", "almost identical"), strict=True)
)


def of_masks(evidence: Evidence, name: str, task: str) -> list[float]:
    """One number at p = .5, a value a mask."""
    return values_of(evidence, name, KIND.name, task=task, observe=HALF)


def _loss(evidence: Evidence, task: str) -> Finding:
    return judged_below(of_masks(evidence, "policy_loss_relative", task), LOSS, show=percent)


def _map(evidence: Evidence, task: str) -> Finding:
    return judged_below(of_masks(evidence, "input_gap", task), INPUT_GAP, show=percent)


def _metric(evidence: Evidence, task: str) -> Finding:
    best = optimum_of(evidence, task)
    values = of_masks(evidence, "metric", task)
    note = f"{METRICS[best['metric_name']]} {with_interval(values)}, the optimum's {best['metric']:.3g}"
    ratios = [value / best["metric"] for value in values]
    return judged_below(ratios, METRIC, show=lambda value: f"{value:.2f} times", note=note)


def _same(evidence: Evidence, task: str) -> Finding:
    return judged_above(of_masks(evidence, "same_end", task), SAME_ENDS, show=percent)


def _claims(task: str) -> tuple[Claim, ...]:
    plain, section = task.replace("-", " "), SECTIONS[task]
    return (
        Claim(
            name=f"{task}-low-rank-policy",
            figure=POLICIES[task],
            section=section,
            says=f"On the {plain} the policy from half of the entries of Q* is as good as the optimal one.",
            paper=WORDS[task],
            test=f"policy loss over the range of V*, upper end of the 95% interval over masks at most {percent(LOSS)}",
            judge=partial(_loss, task=task),
        ),
        Claim(
            name=f"{task}-low-rank-map",
            figure=POLICIES[task],
            section=section,
            says=f"The map of the policy from half of the entries of Q* of the {plain} looks like the optimum's.",
            paper=MAPS[task],
            test="mean over grid states of the difference to the optimum's input, over the range of inputs: upper end "
            f"of the 95% interval over masks at most {percent(INPUT_GAP)}",
            judge=partial(_map, task=task),
        ),
        Claim(
            name=f"{task}-low-rank-metric",
            figure=POLICIES[task],
            section=section,
            says=f"The metric of that policy on the {plain} is the optimum's.",
            paper=WORDS[task],
            test=f"metric over the optimum's, upper end of the 95% interval over masks at most {METRIC:g}",
            judge=partial(_metric, task=task),
        ),
        Claim(
            name=f"{task}-low-rank-ends",
            figure=PATHS[task],
            section=section,
            says=f"On the {plain} starts end where the optimum brings them under the policy from half of Q*.",
            paper="nearly identical",
            test="share of starts that end within 5% of every axis's range of where the optimum's do, lower end of the "
            f"95% interval over masks at least {SAME_ENDS:g}",
            judge=partial(_same, task=task),
        ),
    )


CLAIMS: tuple[Claim, ...] = tuple(claim for task in TASKS for claim in _claims(task))


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    policies, paths = ({figure: task for task, figure in some.items()} for some in (POLICIES, PATHS))
    if figure_id in paths:
        same = with_interval(of_masks(evidence, "same_end", paths[figure_id]), percent)
        return f"{same} of the starts end where the optimum's do, within 5% of the box."
    task = policies[figure_id]
    best = optimum_of(evidence, task)
    metric = with_interval(of_masks(evidence, "metric", task))
    loss = percent(float(np.mean(of_masks(evidence, "policy_loss_relative", task))))
    name = METRICS[best["metric_name"]]
    return (
        f"{name[0].upper()}{name[1:]}: optimum {best['metric']:.3g}, from half of Q* {metric}. "
        f"That policy loses {loss} of the range of V*."
    )
