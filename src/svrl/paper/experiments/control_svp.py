"""SVP on the four control tasks: policies, trajectories, work, and every baseline beside it.

Minutes were measured on two shared cores: matrix estimation takes nearly all of a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import SCALES, Budget, Experiment
from svrl.paper.experiments import control
from svrl.paper.experiments.control import (
    HIGH,
    INPUT_GAP,
    ITERATIONS,
    LOW,
    MASKS,
    METRIC,
    OPTIMUM,
    PAPER_SVP,
    PLANNED,
    TASKS,
    VARIANTS,
    below_on_worst,
    claim_on,
    deviation_claim,
    optimum_of,
    policy_claim,
    rank_claim,
    values_of,
)
from svrl.paper.verdicts import below, fixed, percent
from svrl.plots.style import CYCLE, GREY, draw_means, letter, new_figure, tag
from svrl.runs.spec import RunSpec
from svrl.stats import welch_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASELINES = ("svp", "cross", "async", "sampled-max", "row-mean-update", "incumbent", "coarse")
WITHOUT_SHARE = ("cross", "coarse")
"""They choose their pairs in another way."""
WITHOUT_ESTIMATION = tuple(name for name in BASELINES if name not in ("svp", "cross"))
DRAWS_NOTHING = ("coarse",)
"""Another seed changes nothing: one plan is enough."""
BESIDE_PATHS = ("svp", "row-mean-update")
"""Whose trajectories stand beside the paper's: our combination, and the simplest way to do without estimation."""
SHARES = {"smoke": (0.2, 0.6), "laptop": (0.2, 0.6), "full": (0.1, 0.2, 0.4, 0.6, 0.8)}
SAME = ("double-integrator", "cart-pole")
"""Tasks that are the same in both variants."""
POLICIES = dict(zip(TASKS, ("fig3", "fig13", "fig17", "fig21"), strict=True))
"""Figures of policies and metrics, by task."""
PATHS = dict(zip(TASKS, ("fig10", "fig14", "fig18", "fig22"), strict=True))
"""Figures of trajectories, by task."""


def planned(scale: str, where: dict[str, Any], method: str, p: float | None, masks: int) -> list[RunSpec]:
    """The plans of one method, one a mask."""
    minutes = 1.8 if where["task"] == "cart-pole" else 0.5
    minutes *= 0.01 if scale == "smoke" else 1.0 if method in (PAPER_SVP, "svp") else 0.2
    more = {"method": method, "p": p, "iterations": ITERATIONS[scale]}
    return [RunSpec(kind=PLANNED, settings={**where, **more, "seed": k}, minutes=minutes) for k in range(masks)]


def runs(scale: str) -> tuple[RunSpec, ...]:
    """All runs of a scale: every task with the paper's variant, and the authors' where it is another problem."""
    found: list[RunSpec] = []
    masks = MASKS[scale]
    for task, variant in itertools.product(TASKS, VARIANTS):
        where = control.grid(scale, task, variant)
        found.append(RunSpec(kind=OPTIMUM, settings=where, minutes=0.01 if scale == "smoke" else 0.1))
        # The authors' pendulum is the one whose numbers the paper prints; the car is repeated only in full.
        ours = variant == "paper" or task == TASKS[0] or (scale == "full" and task not in SAME)
        shares = SHARES[scale] if variant == "paper" or scale == "full" else (LOW,)
        for p in shares if ours else ():
            found += planned(scale, where, PAPER_SVP, p, masks)
        for method in BASELINES if variant == "paper" else ():
            share = None if method in WITHOUT_SHARE else LOW
            found += planned(scale, where, method, share, 1 if method in DRAWS_NOTHING or scale == "smoke" else masks)
    return tuple(found)


def needs(figure: str, run: RunSpec) -> bool:
    """Whether a figure reads a run: policies and metrics all of their task, trajectories those that they show."""
    task, method = run.settings["task"], run.settings.get("method")
    return figure in ("baselines", POLICIES[task]) or (
        figure == PATHS[task] and method in (None, PAPER_SVP, *BESIDE_PATHS)
    )


BUDGETS = {
    scale: Budget(
        runs=runs(scale), needs=needs, words=control.words_of(scale, ".1 to .8" if scale == "full" else ".2 and .6")
    )
    for scale in SCALES
}

PENDULUM, CAR, INTEGRATOR, CART = TASKS
UPRIGHT = 5.0
"""Degrees."""


def runs_of(task: str, p: float = LOW) -> dict[str, Any]:
    """The settings of the paper's SVP, whose runs differ in their masks."""
    return {"task": task, "p": p, "variant": "paper", "method": PAPER_SVP}


def judge_upright(evidence: Evidence) -> Finding:
    """The mean absolute angle at p = .2, in degrees: over all starts, else of the median start."""
    runs = runs_of(PENDULUM)
    found, typical = (
        below(values_of(evidence, name, **runs), UPRIGHT, show=lambda value: f"{value:.2g} degrees")
        for name in ("mean_degrees", "median_degrees")
    )
    if found.verdict is Verdict.REPRODUCED or typical.verdict is not Verdict.REPRODUCED:
        return found
    held = percent(float(np.mean(values_of(evidence, "share_upright", **runs))))
    note = f"the median start; over all starts {found.ours}, since only {held} of them stay upright"
    return replace(typical, verdict=Verdict.OTHERWISE, ours=f"{typical.ours}, the median start", note=note)


def judge_recovery(evidence: Evidence, task: str) -> Finding:
    """At p = .2 both the map and the metric of the optimum."""
    gaps, metric = (control.judge_policy(evidence, what, **runs_of(task)) for what in ("map", "metric"))
    both = gaps.verdict is Verdict.REPRODUCED and metric.verdict is Verdict.REPRODUCED
    note = "; ".join(part for part in (f"the metric is {metric.ours} the optimum's", metric.note, gaps.note) if part)
    return replace(gaps, verdict=Verdict.REPRODUCED if both else Verdict.NOT_REPRODUCED, note=note)


def timed(evidence: Evidence, task: str) -> list[float]:
    """Seconds of an iteration at p = .2 over those of plain value iteration.

    One ratio a mask that was timed on the machine where value iteration was.
    """
    optimum = evidence.only(OPTIMUM.name, task=task, variant="paper")
    machine, (exact,) = optimum.provenance.get("machine"), optimum.rows
    plain = exact["vanilla_seconds_backup"] / exact["vanilla_iterations"]
    return [
        float((row["seconds_backup"] + row["seconds_estimate"]) / row["iterations_made"] / plain)
        for run in evidence.where(PLANNED.name, **runs_of(task))
        for row in run.rows
        if machine is not None and run.provenance.get("machine") == machine
    ]


def judge_timed_work(evidence: Evidence) -> Finding:
    """The largest of the tasks' ratios with estimation decides; only times of one machine are compared.

    One task above the limit is enough against the claim. For it, every task needs two masks or more.
    """
    found = {task: timed(evidence, task) for task in TASKS}
    ratios = {task: values for task, values in found.items() if len(values) > 1}
    untimed = [task for task in TASKS if task not in ratios]
    note = f"no times to compare on {', '.join(untimed)}" if untimed else ""
    if not ratios:
        return Finding(verdict=Verdict.NOT_RUN, note=note)
    judged = below_on_worst(ratios, 2 * LOW, lambda value: f"{value:.3g} times the seconds")
    if judged.verdict is Verdict.REPRODUCED and untimed:
        return replace(judged, verdict=Verdict.NOT_RUN, note=note)
    return judged


def judge_total_work(evidence: Evidence) -> Finding:
    """Sweep equivalents at p = .2 over those of modified policy iteration, of the task where SVP does worst."""
    exact = {task: optimum_of(evidence, task)["exact_sweeps"] for task in TASKS}
    made = {task: values_of(evidence, "sweep_equivalents", **runs_of(task)) for task in TASKS}
    ratios = {task: [sweeps / exact[task] for sweeps in made[task]] for task in TASKS}
    return below_on_worst(ratios, 1.0, lambda value: f"{value:.3g} times as many")


def gaps_to_baselines(evidence: Evidence, task: str) -> dict[str, tuple[float, tuple[float, float]]]:
    """Loss of the paper's SVP at p = .2 less that of each baseline without matrix estimation, and its interval.

    A baseline that draws its pairs and was run once is left out: its spread is not known.
    """
    mine = values_of(evidence, "policy_loss_relative", **runs_of(task))
    found = {}
    for name in WITHOUT_ESTIMATION:
        other = values_of(evidence, "policy_loss_relative", task=task, method=name, variant="paper")
        if len(other) > 1 or (other and name in DRAWS_NOTHING):
            found[name] = (float(np.mean(mine) - np.mean(other)), welch_interval([mine], [other]))
    return found


def judge_beaten_by_a_baseline(evidence: Evidence) -> Finding:
    """On each task the baseline that is most surely better; the task where it is least so decides."""
    surest = {
        task: max(gaps_to_baselines(evidence, task).items(), key=lambda baseline: baseline[1][1][0]) for task in TASKS
    }
    worst = min(TASKS, key=lambda task: surest[task][1][1][0])
    _, (value, interval) = surest[worst]

    def told(gap: float, ends: tuple[float, float]) -> str:
        return f"{percent(gap)} ({percent(ends[0])} to {percent(ends[1])})"

    parts = ", ".join(f"{task} {name} {told(*gap)}" for task, (name, gap) in surest.items())
    doubt = "undecided: the interval contains 0; " if interval[0] <= 0.0 < interval[1] else ""
    note = f"{doubt}least on {worst}; loss of SVP less that of the best baseline: {parts}"
    return replace(fixed(interval[0] > 0.0, told(value, interval), value, note), interval=interval)


def _claims_of(task: str, words: str) -> Iterator[Claim]:
    """Of one task; the paper's words for how SVP does."""
    plain = task.replace("-", " ")
    for share in (LOW, HIGH):
        says = f"On the {plain} SVP that backs up {share:.0%} of the pairs plans almost as well as with all of them."
        name = f"{task}-nearly-optimal-from-{share:.0%}".replace("%", "-percent")
        yield policy_claim("loss", name, POLICIES[task], says, "almost the same performance", **runs_of(task, share))
    says = f"The metric of the {plain} at p = .2 is that of the optimum."
    yield policy_claim("metric", f"{task}-metric-from-20-percent", POLICIES[task], says, words, **runs_of(task))
    for share in (HIGH, LOW):
        says = f"On the {plain} starts end where the optimum brings them under the policy of SVP at p = {share:g}."
        vibrates = "vibrates a little, still upright" if (task, share) == (PENDULUM, LOW) else "essentially identical"
        paper = words if task == INTEGRATOR else vibrates
        name = f"{task}-svp-ends-from-{share:.0%}".replace("%", "-percent")
        yield policy_claim("ends", name, PATHS[task], says, paper, **runs_of(task, share))


_addition = partial(Claim, figure="baselines", section="", paper="not compared")
CLAIMS: tuple[Claim, ...] = (
    rank_claim("fig3", "pendulum-rank-7", "The converged Q of the pendulum, 2500x1000,", 7, task=PENDULUM),
    deviation_claim(
        "fig3",
        "pendulum-svp-metric",
        "SVP at p = .2 keeps the pendulum at an average deviation of",
        1.92,
        "masks, and over steps 51 to 199,",
        task=PENDULUM,
        p=LOW,
        method=PAPER_SVP,
    ),
    claim_on(
        "fig10",
        "pendulum-upright-at-20-percent",
        "At p = .2 the pendulum vibrates a little and is still held upright, within 5 degrees on average.",
        "at most 5 degrees",
        "mean absolute angle of steps 51 to 199 over all starts, else of the median start: upper end at most 5 degrees",
        judge_upright,
    ),
    rank_claim("fig13", "mountain-car-rank-4", "The converged Q of the mountain car, 2500x1000,", 4, task=CAR),
    claim_on(
        "fig13",
        "mountain-car-perfect-recovery-from-20-percent",
        "From 20% of the pairs SVP recovers the policy of the mountain car perfectly.",
        "perfect recovery",
        f"inputs differ from the optimum's by at most {percent(INPUT_GAP)} of their range, and the metric is at most "
        f"{METRIC:g} times the optimum's: upper ends of the 95% intervals over masks",
        partial(judge_recovery, task=CAR),
    ),
    *_claims_of(PENDULUM, "comparable"),
    *_claims_of(CAR, "comparable"),
    *_claims_of(INTEGRATOR, "consistently decent"),
    *_claims_of(CART, "essentially identical"),
    Claim(
        name="all-four-tasks-are-low-rank",
        figure="fig3",
        section="1",
        says="All four control tasks have Q matrices of low rank.",
        paper="all 4",
        test=f"rank by 99% of the energy at most {control.MOST_RANK} on each",
        judge=control.judge_low,
        seeded=False,
        whole=True,
    ),
    Claim(
        name="timed-work-falls",
        figure="fig3",
        section="3.2",
        says="An iteration of SVP costs about 1 - p less than one of value iteration: in time, matrix estimation "
        "included.",
        paper="about 1 - p",
        test="seconds of an iteration at p = .2 over those of value iteration on the same machine: upper end of the "
        f"95% interval over masks at most {2 * LOW:g} on every task",
        judge=judge_timed_work,
        whole=True,
    ),
    _addition(
        name="total-work-below-exact-planning",
        says="SVP at p = .2 needs fewer backups than modified policy iteration, which is exact (ours, not the "
        "paper's).",
        test="sweeps of backups over those of modified policy iteration, upper end of the 95% interval over masks at "
        "most 1 on every task",
        judge=judge_total_work,
    ),
    _addition(
        name="a-baseline-does-better",
        says="At p = .2 some baseline without matrix estimation loses less than the paper's SVP (ours, not the "
        "paper's).",
        test=f"loss of SVP less that of {', '.join(WITHOUT_ESTIMATION)}: on every task, the lower end of the 95% "
        "interval over masks (Welch's t) is above 0 for one of them",
        judge=judge_beaten_by_a_baseline,
    ),
)


FLOOR = 1e-7
"""Smaller losses are drawn here."""
LABELS = {PAPER_SVP: "SVP (the paper's)", "svp": "svp (ours)"} | {name: name for name in BASELINES[1:]}
LOOKS = dict(zip(LABELS, zip("oDsv^<>P", (*CYCLE, "#333333", GREY), strict=True), strict=True))
"""Marker and colour of every method."""


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Policies with the metric, trajectories, or all methods by their cost."""
    if figure_id == "baselines":
        return _baselines(evidence)
    task = next(task for task in TASKS if figure_id in (POLICIES[task], PATHS[task]))
    which: dict[str, Any] = {"task": task, "variant": "paper"}
    best = evidence.only(OPTIMUM.name, **which)
    shown = {f"SVP, p = {share:g}": (PAPER_SVP, share) for share in (HIGH, LOW)}
    if figure_id == PATHS[task]:
        shown |= {f"{LABELS[method]}, p = {LOW:g}": (method, LOW) for method in BESIDE_PATHS}
    named = {"optimum": best} | {
        words: evidence.only(PLANNED.name, method=method, p=share, seed=0, **which)
        for words, (method, share) in shown.items()
    }
    if figure_id == PATHS[task]:
        return control.draw_starts_of(named)
    figure = new_figure(9.4, 5.6)
    parts: Any = figure.subfigures(2, 1)
    upper, lower = parts
    panels = upper.subplots(1, 3)
    control.draw_maps_of(upper, panels, [(best, run) for run in named.values()])
    shares, methods = lower.subplots(1, 2, width_ratios=[1.0, 1.5], sharey=True)
    control.draw_shares(shares, evidence, best, LABELS[PAPER_SVP], PLANNED.name, method=PAPER_SVP, **which)
    for at, (method, label) in enumerate(LABELS.items()):
        values = values_of(evidence, "metric", method=method, **(which | _share_of(method)))
        control.draw_masks(methods, [at], [values], label, LOOKS[method][1])
    control.draw_optimum(methods, best)
    methods.set_xticks(range(len(LABELS)), list(LABELS.values()), rotation=30, ha="right", fontsize=8)
    methods.margins(x=0.06)
    letter([*panels, shares, methods], [*named, "metric against p", f"beside other uses of p = {LOW:g}"])
    return figure


def _share_of(method: str) -> dict[str, Any]:
    return {"p": None if method in WITHOUT_SHARE else LOW}


def _baselines(evidence: Evidence) -> Figure:
    """Policy loss against sweeps of backups, one panel a task, one marker a method."""
    figure = new_figure(9.4, 5.4)
    panels = figure.subplots(2, 2, sharey=True)
    for panel, task in zip(panels.flat, TASKS, strict=True):
        _costs(panel, evidence, task)
    for panel in panels[1]:
        panel.set_xlabel("backups (sweeps of all pairs)")
    for panel in panels[:, 0]:
        panel.set_ylabel("policy loss / range of V*")
    letter(list(panels.flat), [task.replace("-", " ") for task in TASKS])
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def _costs(panel: Axes, evidence: Evidence, task: str) -> None:
    for method, (marker, colour) in LOOKS.items():
        rows = list(evidence.rows(PLANNED.name, task=task, method=method, variant="paper", **_share_of(method)))
        losses = [max(row["policy_loss_relative"], FLOOR) for row in rows]
        sweeps = float(np.mean([row["sweep_equivalents"] for row in rows]))
        look = {"color": colour, "label": LABELS[method], "elinewidth": 1.0}
        # Many lie on each other: open ones stay legible.
        face = colour if method == PAPER_SVP else "none"
        draw_means(panel, [sweeps], [losses], LABELS[method], least=0.1, fmt=marker, markerfacecolor=face, **look)
    label = "modified policy iteration"
    exact = optimum_of(evidence, task)["exact_sweeps"]
    tag(panel.axvline(exact, color=GREY, linestyle="--", linewidth=1.0, label=label), label)
    panel.axhline(FLOOR, color=GREY, linestyle=":", linewidth=0.6)
    panel.set(xscale="log", yscale="log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")


EXPERIMENT = Experiment(
    name="control_svp",
    title="SVP on control tasks",
    says={
        **{
            figure: f"On the {task.replace('-', ' ')} SVP is run with several shares of observed pairs and as many "
            "iterations as value iteration; policy and metric stay close to the optimum's."
            for task, figure in POLICIES.items()
        },
        **{
            figure: f"Policies of SVP at p = .6 and .2 move the {task.replace('-', ' ')} about as the optimal one does."
            for task, figure in PATHS.items()
        },
        "baselines": "The paper compares with value iteration only. Here are ways to plan from 20% of the pairs.",
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=(
        "Metrics of angles are norms in radians; the paper calls them degrees.",
        "Claims on trajectories test where starts end, not the way there.",
        "Trajectories are of the first three random starts; of angles, of those that the optimum holds upright.",
    ),
)
