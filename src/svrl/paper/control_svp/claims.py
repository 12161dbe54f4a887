"""What the paper says about SVP on the control tasks, and how each statement is tested."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from svrl.paper.claim import Claim, Finding
from svrl.paper.control_cells import METRICS, PLANNED, TASKS, optimum_of, values_of
from svrl.paper.control_claims import (
    INPUT_GAP,
    LOSS,
    METRIC,
    RANK_TEST,
    SAME_ENDS,
    near_test,
    number,
    percent,
    with_interval,
)
from svrl.paper.control_svp import judges
from svrl.paper.control_svp.judges import MOST_RANK, of_masks
from svrl.paper.control_svp.settings import BASELINES, HIGH, LOW, PAPER_SVP, PATHS, POLICIES, WITHOUT_ESTIMATION
from svrl.paper.evidence import Evidence

PENDULUM, CAR, INTEGRATOR, CART = TASKS
SECTIONS = dict(zip(TASKS, ("3.3", "C.2", "C.3", "C.4"), strict=True))
WORDS = dict(zip(TASKS, ("comparable", "comparable", "consistently decent", "essentially identical"), strict=True))


def _claim(
    name: str, figure: str, section: str, says: str, paper: str, test: str, judge: Callable[..., Finding], **more: Any
) -> Claim:
    return Claim(name=name, figure=figure, section=section, says=says, paper=paper, test=test, judge=judge, **more)


def _task_claims(task: str) -> list[Claim]:
    plain, policies, section = task.replace("-", " "), POLICIES[task], SECTIONS[task]
    loss_test = f"policy loss over the range of V*, upper end of the 95% interval over masks at most {percent(LOSS)}"
    found = [
        _claim(
            f"{task}-nearly-optimal-from-{round(100 * share)}-percent",
            policies,
            section,
            f"On the {plain} SVP that backs up {share:.0%} of the pairs plans almost as well as with all of them.",
            "almost the same performance",
            loss_test,
            partial(judges.judge_loss, task=task, observe=share),
        )
        for share in (LOW, HIGH)
    ]
    found.append(
        _claim(
            f"{task}-metric-from-20-percent",
            policies,
            section,
            f"The metric of the {plain} at p = .2 is that of the optimum.",
            WORDS[task],
            f"metric over the optimum's, upper end of the 95% interval over masks at most {METRIC:g}",
            partial(judges.judge_metric, task=task),
        )
    )
    return [*found, *(_ends_claim(task, share) for share in (HIGH, LOW))]


def _ends_claim(task: str, share: float) -> Claim:
    shakes = task == PENDULUM and share == LOW
    paper = "vibrates a little, still upright" if shakes else "essentially identical"
    return _claim(
        f"{task}-svp-ends-from-{round(100 * share)}-percent",
        PATHS[task],
        "C.1" if task == PENDULUM else SECTIONS[task],
        f"On the {task.replace('-', ' ')} starts end where the optimum brings them under the policy of SVP at "
        f"p = {share:g}.",
        paper if task != INTEGRATOR else WORDS[task],
        "share of starts that end within 5% of every axis's range of where the optimum's do, lower end of the 95% "
        f"interval over masks at least {SAME_ENDS:g}",
        partial(judges.judge_same_ends, task=task, observe=share),
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "pendulum-rank-7",
        "fig3",
        "3.3",
        "The converged Q of the pendulum, 2500x1000, has approximate rank 7.",
        "7",
        RANK_TEST,
        partial(judges.judge_rank, task=PENDULUM, printed=7),
        seeded=False,
    ),
    _claim(
        "pendulum-svp-metric",
        "fig3",
        "3.3",
        "SVP at p = .2 keeps the pendulum at an average deviation of 1.92.",
        "1.92 (degrees)",
        f"mean over masks {near_test(1.92)}, of the angles of steps 51 to 199",
        judges.judge_printed_metric,
    ),
    _claim(
        "pendulum-upright-at-20-percent",
        "fig10",
        "C.1",
        "At p = .2 the pendulum vibrates a little and is still held upright, within 5 degrees on average.",
        "at most 5 degrees",
        "mean absolute angle of steps 51 to 199 over all starts, else of the median start: upper end at most 5 degrees",
        judges.judge_upright,
    ),
    _claim(
        "mountain-car-rank-4",
        "fig13",
        "C.2",
        "The converged Q of the mountain car, 2500x1000, has approximate rank 4.",
        "4",
        RANK_TEST,
        partial(judges.judge_rank, task=CAR, printed=4),
        seeded=False,
    ),
    _claim(
        "mountain-car-perfect-recovery-from-20-percent",
        "fig13",
        "C.2",
        "From 20% of the pairs SVP recovers the policy of the mountain car perfectly.",
        "perfect recovery",
        f"inputs differ from the optimum's by at most {percent(INPUT_GAP)} of their range, and the metric is at most "
        f"{METRIC:g} times the optimum's: upper ends of the 95% intervals over masks",
        partial(judges.judge_recovery, task=CAR),
    ),
    *(claim for task in TASKS for claim in _task_claims(task)),
    _claim(
        "all-four-tasks-are-low-rank",
        "fig3",
        "1",
        "All four control tasks have Q matrices of low rank.",
        "all 4",
        f"rank by 99% of the energy at most {MOST_RANK} on each",
        judges.judge_all_low_rank,
        seeded=False,
        whole=True,
    ),
    _claim(
        "timed-work-falls",
        "fig3",
        "3.2",
        "An iteration of SVP costs about 1 - p less than one of value iteration: in time, matrix estimation included.",
        "about 1 - p",
        "seconds of an iteration at p = .2 over those of value iteration on the same machine: upper end of the 95% "
        f"interval over masks at most {2 * LOW:g} on every task",
        judges.judge_timed_work,
        whole=True,
    ),
    _claim(
        "total-work-below-exact-planning",
        "baselines",
        "",
        "SVP at p = .2 needs fewer backups than modified policy iteration, which is exact (ours, not the paper's).",
        "not compared",
        "sweeps of backups over those of modified policy iteration, upper end of the 95% interval over masks at most 1 "
        "on every task",
        judges.judge_total_work,
    ),
    _claim(
        "a-baseline-does-better",
        "baselines",
        "",
        "At p = .2 some baseline without matrix estimation loses less than the paper's SVP (ours, not the paper's).",
        "not compared",
        f"loss of SVP less that of {', '.join(WITHOUT_ESTIMATION)}: on every task, the lower end of the 95% interval "
        "over masks (Welch's t) is above 0 for one of them",
        judges.judge_beaten_by_a_baseline,
    ),
)


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    policies, paths = ({figure: task for task, figure in some.items()} for some in (POLICIES, PATHS))
    if figure_id in policies:
        return _got_policies(policies[figure_id], evidence)
    if figure_id in paths:
        task = paths[figure_id]
        parts = [
            f"{with_interval(of_masks(evidence, 'same_end', task, share), percent)} at p = {share:g}"
            for share in (HIGH, LOW)
        ]
        return f"Share of starts that end where the optimum's do: {' and '.join(parts)}."
    losses = {
        method: float(np.mean(values_of(evidence, "policy_loss_relative", PLANNED.name, method=method)))
        for method in (PAPER_SVP, *BASELINES)
    }
    shown = ", ".join(f"{method} {percent(max(loss, 0.0))}" for method, loss in losses.items())
    return f"Mean policy loss over the tasks: {shown}."


def _got_policies(task: str, evidence: Evidence) -> str:
    best = optimum_of(evidence, task, variant="paper")
    name = METRICS[best["metric_name"]]
    parts = []
    for share in (HIGH, LOW):
        metric = with_interval(of_masks(evidence, "metric", task, share), number)
        loss = percent(float(np.mean(of_masks(evidence, "policy_loss_relative", task, share))))
        parts.append(f"{metric} at p = {share:g}, where the policy loses {loss}")
    return (
        f"Rank {best['rank_99']} by 99% of the energy and {best['rank_tight']} by 1 - 1e-6. "
        f"{name[0].upper()}{name[1:]}: optimum {best['metric']:.3g}, SVP {'; '.join(parts)}."
    )
