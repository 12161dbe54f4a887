"""How the statements on SVP are judged: from rows of plans to findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from svrl.experiments.control_cells import METRICS, PLANNED, TASKS, optimum_of, values_of
from svrl.experiments.control_claims import (
    LOSS,
    METRIC,
    SAME_ENDS,
    best_of,
    judged_above,
    judged_below,
    judged_near,
    percent,
    with_interval,
)
from svrl.experiments.control_svp.settings import BASELINES, HIGH, LOW, PAPER_SVP
from svrl.experiments.paper.claim import Finding, Verdict
from svrl.experiments.paper.evidence import Evidence
from svrl.reporting.intervals import mean_interval

PENDULUM, CAR, INTEGRATOR, CART = TASKS
MOST_RANK = 10
UPRIGHT = 5.0


def of_masks(evidence: Evidence, name: str, task: str, observe: float = LOW, variant: str = "paper") -> list[float]:
    """One number of the paper's SVP, a value a mask."""
    chosen: dict[str, Any] = {"task": task, "observe": observe, "variant": variant, "method": PAPER_SVP}
    return values_of(evidence, name, PLANNED.name, **chosen)


def judge_rank(evidence: Evidence, task: str, printed: int) -> Finding:
    """The paper's definition first, then the tighter energy, in either variant."""
    rows = {variant: optimum_of(evidence, task, variant=variant) for variant in ("paper", "authors")}
    tight = ", ".join(f"{row['rank_tight']} ({variant})" for variant, row in rows.items())
    stated = rows["paper"]["rank_99"]
    note = f"99% of the energy gives {stated}; 1 - 1e-6 gives {tight}"
    if any(row["rank_99"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.REPRODUCED, ours=str(printed), value=printed, note=note)
    if any(row["rank_tight"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.OTHERWISE, ours=str(printed), value=printed, note=note)
    return Finding(verdict=Verdict.NOT_REPRODUCED, ours=str(stated), value=stated, note=note)


def judge_printed_metric(evidence: Evidence) -> Finding:
    """1.92 in degrees as printed, or as norms in radians in either variant."""
    found = [judged_near(of_masks(evidence, "mean_degrees", PENDULUM), 1.92, note="mean degrees", otherwise=False)]
    for variant in ("paper", "authors"):
        values = of_masks(evidence, "metric", PENDULUM, variant=variant)
        note = f"as norms in radians, variant {variant}; in degrees {found[0].ours}"
        found.append(judged_near(values, 1.92, note=note, otherwise=True))
    return best_of(found)


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
    return replace(typical, verdict=Verdict.OTHERWISE) if typical.verdict is Verdict.REPRODUCED else found


def degrees(value: float) -> str:
    """Two digits with the unit."""
    return f"{value:.2g} degrees"


def judge_same_ends(evidence: Evidence, task: str) -> Finding:
    """The share of starts that end where the optimum's do, at p = .6."""
    note = f"at p = {LOW:g}: {with_interval(of_masks(evidence, 'same_end', task), percent)}"
    return judged_above(of_masks(evidence, "same_end", task, HIGH), SAME_ENDS, show=percent, note=note)


def judge_counted(evidence: Evidence) -> Finding:
    """Backups of an iteration over all pairs, less p; all tasks and shares together."""
    rows = evidence.rows(PLANNED.name, method=PAPER_SVP, variant="paper")
    gaps = [abs(row["sweep_equivalents"] / row["iterations_made"] / row["observe"] - 1.0) for row in rows]
    return judged_below(gaps, 0.02, show=percent, note="largest allowed: 2% off p")


def seconds_ratio(row: dict[str, Any], best: dict[str, Any], *, estimation: bool) -> float:
    """Time of an iteration of SVP over that of plain value iteration."""
    spent = row["seconds_backup"] + (row["seconds_estimate"] if estimation else 0.0)
    return float(spent / row["iterations_made"] / (best["vanilla_seconds_backup"] / best["vanilla_iterations"]))


def timed(evidence: Evidence, task: str, *, estimation: bool) -> list[float]:
    """That ratio at p = .2, one a mask."""
    best = optimum_of(evidence, task, variant="paper")
    rows = evidence.rows(PLANNED.name, task=task, method=PAPER_SVP, observe=LOW, variant="paper")
    return [seconds_ratio(row, best, estimation=estimation) for row in rows]


def judge_timed_work(evidence: Evidence) -> Finding:
    """The largest of the tasks' ratios with estimation decides."""
    worst = max(TASKS, key=lambda task: float(np.mean(timed(evidence, task, estimation=True))))
    alone = ", ".join(f"{task} {np.mean(timed(evidence, task, estimation=False)):.2g}" for task in TASKS)
    note = f"slowest on {worst}; backups alone, without estimation: {alone} times"
    values = timed(evidence, worst, estimation=True)
    return judged_below(values, 2 * LOW, show=lambda value: f"{value:.3g} times", note=note)


def judge_total_work(evidence: Evidence) -> Finding:
    """Sweep equivalents at p = .2 over those of exact planning, of the task where SVP does best."""
    ratios = {}
    for task in TASKS:
        exact = optimum_of(evidence, task, variant="paper")["exact_sweeps"]
        ratios[task] = [value / exact for value in of_masks(evidence, "sweep_equivalents", task)]
    shown = ", ".join(f"{task} {np.mean(values):.2g}" for task, values in ratios.items())
    worst = max(ratios, key=lambda task: float(np.mean(ratios[task])))
    return judged_below(ratios[worst], 1.0, show=lambda value: f"{value:.3g} times", note=f"times as many: {shown}")


def judge_all_low_rank(evidence: Evidence) -> Finding:
    """The largest rank of the four tasks, by the paper's definition."""
    rows = {task: optimum_of(evidence, task, variant="paper") for task in TASKS}
    largest = max(row["rank_99"] for row in rows.values())
    tight = ", ".join(
        f"{task} {row['rank_tight']}, row-centred {row['rank_tight_centred']}" for task, row in rows.items()
    )
    verdict = Verdict.REPRODUCED if largest <= MOST_RANK else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"at most {largest}", value=largest, note=f"at 1 - 1e-6: {tight}")


def judge_beaten_by_a_baseline(evidence: Evidence) -> Finding:
    """The paper's SVP against the best baseline that it could be replaced by, on its worst task."""
    shares, names = [], {}
    for task in TASKS:
        mine = of_masks(evidence, "policy_loss_relative", task)
        losses = {
            name: values_of(evidence, "policy_loss_relative", PLANNED.name, task=task, method=name)
            for name in BASELINES
        }
        names[task] = min(losses, key=lambda name: float(np.mean(losses[name])))
        best = max(float(np.mean(losses[names[task]])), 0.0)
        shares += [loss - best for loss in mine]
    low, high = mean_interval(shares)
    verdict = Verdict.REPRODUCED if low > 0.0 else Verdict.NOT_REPRODUCED
    note = "best baseline: " + ", ".join(f"{name} on {task}" for task, name in names.items())
    value = float(np.mean(shares))
    return Finding(verdict=verdict, ours=with_interval(shares, percent), value=value, interval=(low, high), note=note)
