"""How the statements on SVP are judged: from rows of plans to findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from svrl.paper.claim import Finding, Verdict
from svrl.paper.control_cells import METRICS, OPTIMUM, PLANNED, TASKS, optimum_of, values_of
from svrl.paper.control_claims import (
    INPUT_GAP,
    LOSS,
    METRIC,
    SAME_ENDS,
    judged_above,
    judged_below,
    judged_deviation,
    judged_rank,
    percent,
)
from svrl.paper.control_svp.settings import DRAWS_NOTHING, LOW, PAPER_SVP, WITHOUT_ESTIMATION
from svrl.paper.evidence import Evidence
from svrl.stats import welch_interval

PENDULUM, CAR, INTEGRATOR, CART = TASKS
MOST_RANK = 10
UPRIGHT = 5.0
"""Counted backups of an iteration may be off p by this share of it."""


def of_masks(evidence: Evidence, name: str, task: str, observe: float = LOW, variant: str = "paper") -> list[float]:
    """One number of the paper's SVP, a value a mask."""
    chosen: dict[str, Any] = {"task": task, "observe": observe, "variant": variant, "method": PAPER_SVP}
    return values_of(evidence, name, PLANNED.name, **chosen)


def judge_rank(evidence: Evidence, task: str, printed: int) -> Finding:
    """The rank of a task's Q* in both variants."""
    return judged_rank({name: optimum_of(evidence, task, variant=name) for name in ("paper", "authors")}, printed)


def judge_printed_metric(evidence: Evidence) -> Finding:
    """1.92 in degrees as printed, or as norms in radians in either variant."""
    norms = {name: of_masks(evidence, "metric", PENDULUM, variant=name) for name in ("paper", "authors")}
    return judged_deviation(of_masks(evidence, "mean_degrees", PENDULUM), norms, 1.92)


def judge_loss(evidence: Evidence, task: str, observe: float) -> Finding:
    """What the policy loses, against 1% of the range of V*."""
    best = optimum_of(evidence, task, variant="paper")
    metric = float(np.mean(of_masks(evidence, "metric", task, observe)))
    note = f"{METRICS[best['metric_name']]} {metric:.3g}, the optimum's {best['metric']:.3g}"
    return judged_below(of_masks(evidence, "policy_loss_relative", task, observe), LOSS, show=percent, note=note)


def judge_metric(evidence: Evidence, task: str) -> Finding:
    """The metric at p = .2 over the optimum's."""
    best = optimum_of(evidence, task, variant="paper")["metric"]
    ratios = [value / best for value in of_masks(evidence, "metric", task)]
    return judged_below(ratios, METRIC, show=lambda value: f"{value:.2f} times")


def judge_upright(evidence: Evidence) -> Finding:
    """The mean absolute angle at p = .2, in degrees: over all starts, else of the median start."""
    best = optimum_of(evidence, PENDULUM, variant="paper")
    mean, median = (of_masks(evidence, name, PENDULUM) for name in ("mean_degrees", "median_degrees"))
    held = percent(float(np.mean(of_masks(evidence, "share_upright", PENDULUM))))
    note = f"mean over all starts, of which {held} stay upright; the optimum's {best['mean_degrees']:.2g}"
    found = judged_below(mean, UPRIGHT, show=degrees, note=note)
    if found.verdict is Verdict.REPRODUCED:
        return found
    note = f"the median start; over all starts {found.ours}, since only {held} of them stay upright"
    typical = judged_below(median, UPRIGHT, show=degrees, note=note)
    if typical.verdict is not Verdict.REPRODUCED:
        return found
    return replace(typical, verdict=Verdict.OTHERWISE, ours=f"{typical.ours}, the median start")


def degrees(value: float) -> str:
    """Two digits with the unit."""
    return f"{value:.2g} degrees"


def judge_same_ends(evidence: Evidence, task: str, observe: float) -> Finding:
    """The share of starts that end where the optimum's do."""
    return judged_above(of_masks(evidence, "same_end", task, observe), SAME_ENDS, show=percent)


def judge_recovery(evidence: Evidence, task: str) -> Finding:
    """At p = .2 both the map and the metric of the optimum."""
    metric = judge_metric(evidence, task)
    gaps = judged_below(of_masks(evidence, "input_gap", task), INPUT_GAP, show=percent)
    both = gaps.verdict is Verdict.REPRODUCED and metric.verdict is Verdict.REPRODUCED
    note = "; ".join(part for part in (f"the metric is {metric.ours} the optimum's", metric.note, gaps.note) if part)
    return replace(gaps, verdict=Verdict.REPRODUCED if both else Verdict.NOT_REPRODUCED, note=note)


def seconds_ratio(row: dict[str, Any], best: dict[str, Any], *, estimation: bool) -> float:
    """Time of an iteration of SVP over that of plain value iteration."""
    spent = row["seconds_backup"] + (row["seconds_estimate"] if estimation else 0.0)
    return float(spent / row["iterations_made"] / (best["vanilla_seconds_backup"] / best["vanilla_iterations"]))


def timed(evidence: Evidence, task: str, *, estimation: bool) -> tuple[list[float], int]:
    """That ratio at p = .2, one a mask that was timed where value iteration was; and how many masks there are."""
    best = evidence.only(OPTIMUM.name, task=task, variant="paper")
    cells = evidence.where(PLANNED.name, task=task, method=PAPER_SVP, observe=LOW, variant="paper")
    machine = best.provenance.get("machine")
    same = [cell for cell in cells if machine is not None and cell.provenance.get("machine") == machine]
    return [seconds_ratio(cell.rows[0], best.rows[0], estimation=estimation) for cell in same], len(cells)


def judge_timed_work(evidence: Evidence) -> Finding:
    """The largest of the tasks' ratios with estimation decides; only times of one machine are compared.

    One task above the limit is enough against the claim. For it, every task needs two masks or more.
    """
    found = {task: timed(evidence, task, estimation=True) for task in TASKS}
    used, masks = sum(len(values) for values, _ in found.values()), sum(count for _, count in found.values())
    note = f"{used} of {masks} plans were timed on the machine of their task's value iteration, others are left out"
    ratios = {task: values for task, (values, _) in found.items() if len(values) > 1}
    if not ratios:
        return Finding(verdict=Verdict.NOT_RUN, note=note)
    worst = max(ratios, key=lambda task: float(np.mean(ratios[task])))
    alone = ", ".join(f"{task} {np.mean(timed(evidence, task, estimation=False)[0]):.2g}" for task in ratios)
    note = f"slowest on {worst}; backups alone, without estimation: {alone} times; {note}"
    judged = judged_below(ratios[worst], 2 * LOW, show=lambda value: f"{value:.3g} times the seconds", note=note)
    untimed = [task for task in TASKS if task not in ratios]
    if judged.verdict is Verdict.REPRODUCED and untimed:
        return replace(judged, verdict=Verdict.NOT_RUN, note=f"no times to compare on {', '.join(untimed)}; {note}")
    return judged


def judge_total_work(evidence: Evidence) -> Finding:
    """Sweep equivalents at p = .2 over those of modified policy iteration, of the task where SVP does worst."""
    ratios = {}
    for task in TASKS:
        exact = optimum_of(evidence, task, variant="paper")["exact_sweeps"]
        ratios[task] = [value / exact for value in of_masks(evidence, "sweep_equivalents", task)]
    shown = ", ".join(f"{task} {np.mean(values):.2g}" for task, values in ratios.items())
    worst = max(ratios, key=lambda task: float(np.mean(ratios[task])))
    return judged_below(ratios[worst], 1.0, show=lambda value: f"{value:.3g} times as many", note=f"backups: {shown}")


def judge_all_low_rank(evidence: Evidence) -> Finding:
    """The largest rank of the four tasks, by the paper's definition."""
    rows = {task: optimum_of(evidence, task, variant="paper") for task in TASKS}
    largest = max(row["rank_99"] for row in rows.values())
    tight = ", ".join(
        f"{task} {row['rank_tight']}, row-centred {row['rank_tight_centred']}" for task, row in rows.items()
    )
    verdict = Verdict.REPRODUCED if largest <= MOST_RANK else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"rank at most {largest}", value=largest, note=f"at 1 - 1e-6: {tight}")


def gaps_to_baselines(evidence: Evidence, task: str) -> dict[str, tuple[float, tuple[float, float]]]:
    """Loss of the paper's SVP at p = .2 less that of each baseline without matrix estimation, and its interval.

    A baseline that draws its pairs and was run once is left out: its spread is not known.
    """
    mine = of_masks(evidence, "policy_loss_relative", task)
    found = {}
    for name in WITHOUT_ESTIMATION:
        other = values_of(evidence, "policy_loss_relative", PLANNED.name, task=task, method=name, variant="paper")
        if len(other) > 1 or (other and name in DRAWS_NOTHING):
            found[name] = (float(np.mean(mine) - np.mean(other)), welch_interval([mine], [other]))
    return found


def judge_beaten_by_a_baseline(evidence: Evidence) -> Finding:
    """On each task the baseline that is most surely better; the task where it is least so decides."""
    best = {}
    for task in TASKS:
        gaps = gaps_to_baselines(evidence, task)
        name = max(gaps, key=lambda name: gaps[name][1][0])
        best[task] = (name, *gaps[name])
    worst = min(TASKS, key=lambda task: best[task][2][0])
    _, value, interval = best[worst]
    verdict = Verdict.REPRODUCED if interval[0] > 0.0 else Verdict.NOT_REPRODUCED
    parts = [f"{task} {name} {_with(gap, bounds)}" for task, (name, gap, bounds) in best.items()]
    doubt = "undecided: the interval contains 0; " if interval[0] <= 0.0 < interval[1] else ""
    note = f"{doubt}least on {worst}; loss of SVP less that of the best baseline: {', '.join(parts)}"
    return Finding(verdict=verdict, ours=_with(value, interval), value=value, interval=interval, note=note)


def _with(value: float, interval: tuple[float, float]) -> str:
    return f"{percent(value)} ({percent(interval[0])} to {percent(interval[1])})"
