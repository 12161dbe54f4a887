"""The pendulum on three grids (appendix G.1): ranks, deviations and policies.

The optimum of a grid is judged under several sets of starts and noise. The grid is solved once, and its Q* is
interpolated and followed greedily from every set. A set is drawn from a seed of its own, so that the
rows are independent and have an interval:

    metric         the task's own: mean over starts of the norm of the late angles, in radians
    mean_degrees   mean of their absolute values, in degrees
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import control
from svrl.paper.experiments.control import (
    ITERATIONS,
    LOW,
    MASKS,
    OPTIMUM,
    PAPER_SVP,
    PLANNED,
    STARTS,
    TASKS,
    VARIANTS,
    claim_on,
    optimum_of,
    values_of,
)
from svrl.paper.verdicts import fixed, percent, with_interval
from svrl.planning.policy import GreedyPolicy
from svrl.planning.rollout import rollout
from svrl.plots.style import BLUE, GREY, ORANGE, letter, new_figure, tag
from svrl.runs.spec import Kind, Result, RunSpec, Work
from svrl.runs.store import Kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compute_starts(settings: Mapping[str, Any], work: Work) -> Result:
    """One row for each of `start_seeds`."""
    seeds = settings["start_seeds"]
    # The judge's own starts are not used: any seed leads to the same optimum, and the first is shared with its run.
    problem = control.problem_of({**settings, "start_seed": seeds[0]}, work.device)
    policy = GreedyPolicy(task=problem.task, q=problem.q)
    rows = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        found = rollout(problem.task, policy, starts=settings["starts"], generator=generator).metric
        metric = found[problem.task.metric.name]
        rows.append({"start_seed": seed, "metric": metric, "mean_degrees": found["mean_degrees"]})
    return Result(rows=rows)


STARTS_KIND = Kind(name="control-starts", version=1, compute=compute_starts)

TASK = TASKS[0]
Grid = tuple[int, int]
COARSE, MIDDLE, FINE = (20, 100), (50, 1000), (100, 4000)
"""Points of each axis, and actions: 400x100, 2500x1000, 10000x4000."""
GRIDS = {"smoke": ((9, 60), (15, 80)), "laptop": (COARSE, MIDDLE), "full": (COARSE, MIDDLE, FINE)}
WEIGHTS = {COARSE: (0.03, 0.1, 0.03), MIDDLE: (0.1, 0.5, 0.3), FINE: (4.0, 12.0, 4.0)}
"""Minutes of the optimum, of a plan, and of the optimum under all sets of starts."""
BASELINES = ("svp", "row-mean-update")
"""Beside the paper's SVP, with its variant, on all grids but the finest: ours, and doing without estimation."""
START_SETS = {"smoke": 2, "laptop": 5, "full": 5}


def size_of(points: int, actions: int) -> str:
    """As the paper writes it: "2500x1000"."""
    return f"{points * points}x{actions}"


def at(grid: Grid, variant: str) -> dict[str, Any]:
    """The settings of a grid."""
    return {"task": TASK, "states": [grid[0], grid[0]], "actions": grid[1], "variant": variant}


def runs(scale: str) -> tuple[RunSpec, ...]:
    """Every grid and variant: the optimum, also under several sets of starts, SVP at p = .2, and what stands beside."""
    found: list[RunSpec] = []
    for points, actions in GRIDS[scale]:
        optimum, planned, again = WEIGHTS.get((points, actions), (0.01, 0.01, 0.01))
        for variant in VARIANTS:
            where = {**at((points, actions), variant), "starts": STARTS[scale]}
            seeds = {"start_seeds": list(range(START_SETS[scale]))}
            found.append(RunSpec(kind=STARTS_KIND, settings={**where, **seeds}, minutes=again))
            where |= {"start_seed": 0}
            found.append(RunSpec(kind=OPTIMUM, settings=where, minutes=optimum))
            beside = BASELINES if variant == "paper" and (points, actions) != FINE else ()
            for method in (PAPER_SVP, *beside):
                more: dict[str, Any] = {"method": method, "p": LOW, "iterations": ITERATIONS[scale]}
                masks = 1 if scale == "smoke" and method != PAPER_SVP else MASKS[scale]
                plans = ({**where, **more, "seed": seed} for seed in range(masks))
                found += [RunSpec(kind=PLANNED, settings=settings, minutes=planned) for settings in plans]
    return tuple(found)


def words(scale: str) -> str:
    """What is spent, for a caption."""
    sizes = ", ".join(size_of(*grid) for grid in GRIDS[scale])
    starts = f"{STARTS[scale]} starts ({START_SETS[scale]} sets of them for the optimum)"
    return f"{sizes} pairs, p = .2, {MASKS[scale]} masks, {starts}"


BUDGETS = {scale: Budget(runs=runs(scale), words=words(scale)) for scale in GRIDS}

PRINTED: dict[Grid, tuple[int, float, float]] = {
    COARSE: (4, 1.49, 2.07),
    MIDDLE: (7, 0.53, 1.92),
    FINE: (8, 0.18, 0.96),
}
"""Grid -> approximate rank, average deviation of the optimum, of SVP."""
SIMILAR = 2
"""Ranks count as similar if they are at most so far apart."""


def grids_of(evidence: Evidence) -> list[Grid]:
    """Grids that were run: points of each axis, and actions."""
    found = {(run.settings["states"][0], run.settings["actions"]) for run in evidence.where(OPTIMUM.name)}
    return sorted(found)


def judge_similar(evidence: Evidence) -> Finding:
    """Ranks on the grids from 2500x1000 on, by both energies: the paper's variant, else the authors'."""
    grids = [grid for grid in grids_of(evidence) if grid >= MIDDLE]
    gaps, parts = {}, []
    for variant in VARIANTS:
        rows = [optimum_of(evidence, **at(grid, variant)) for grid in grids]
        tight, stated = ([row[name] for row in rows] for name in ("rank_tight", "rank_99"))
        gaps[variant] = max(max(some) - min(some) for some in (tight, stated))
        parts.append(f"{variant} {' and '.join(map(str, tight))} (99%: {' and '.join(map(str, stated))})")
    note = f"at 1 - 1e-6 of the energy: {', '.join(parts)}"
    if gaps["authors"] <= SIMILAR < gaps["paper"]:
        ours = f"{gaps['authors']} apart in the authors' variant"
        return Finding(verdict=Verdict.OTHERWISE, ours=ours, value=gaps["authors"], note=note)
    return fixed(gaps["paper"] <= SIMILAR, f"{gaps['paper']} apart", gaps["paper"], note)


def judge_near_optimal(evidence: Evidence) -> Finding:
    """On which grids SVP's policy loses less than 1%: the worst decides."""
    losses = {
        size_of(*grid): values_of(evidence, "policy_loss_relative", method=PAPER_SVP, **at(grid, "paper"))
        for grid in grids_of(evidence)
    }
    return control.below_on_worst(losses, control.LOSS, percent)


def _of_grid(grid: Grid) -> Iterator[Claim]:
    size, (rank, best, svp) = size_of(*grid), PRINTED[grid]
    where: dict[str, Any] = {name: value for name, value in at(grid, "").items() if name != "variant"}
    where["scales"] = ("full",) if grid == FINE else control.LOOKED_AT
    yield control.rank_claim("table1", f"rank-at-{size}", f"At {size} the converged Q of the pendulum", rank, **where)
    says = f"At {size} the optimal policy deviates on average by"
    sets: dict[str, Any] = {"kind": STARTS_KIND.name, **where}
    yield control.deviation_claim("table1", f"optimum-at-{size}", says, best, "sets of starts", **sets)
    says = f"At {size} SVP from 20% of the pairs deviates on average by"
    plans: dict[str, Any] = {"method": PAPER_SVP, **where}
    yield control.deviation_claim("table1", f"svp-at-{size}", says, svp, "masks", **plans)


CLAIMS: tuple[Claim, ...] = (
    *(claim for grid in PRINTED for claim in _of_grid(grid)),
    claim_on(
        "table1",
        "rank-stays-low-on-every-grid",
        "The approximate rank is low whatever the grid.",
        "4 to 8",
        f"rank by 99% of the energy at most {control.MOST_RANK} on every grid that was run",
        control.judge_low,
        seeded=False,
    ),
    claim_on(
        "table1",
        "rank-is-similar-on-fine-grids",
        "Once the grid is fine enough, a finer one has a Q of similar rank.",
        "7 and 8",
        f"ranks at 2500x1000 and finer at most {SIMILAR} apart, by 99% and by 1 - 1e-6 of the energy; else in the "
        "authors' variant",
        judge_similar,
        scales=("full",),
        seeded=False,
    ),
    claim_on(
        "fig29",
        "svp-is-nearly-optimal-on-every-grid",
        "On each grid SVP from 20% of the pairs finds almost the optimal policy.",
        "almost the same policy",
        "policy loss over the range of V*, upper end of the 95% interval over masks at most 1% on every grid",
        judge_near_optimal,
    ),
)


COLUMNS = {
    "grid": 0.18,
    "rank,\n99%": 0.24,
    "rank,\n1 - 1e-6": 0.295,
    "optimum,\nnorm (rad)": 0.395,
    "SVP, p = .2,\nnorm (rad)": 0.535,
    "SVP,\ndegrees": 0.67,
    "svp (ours),\nnorm (rad)": 0.8,
    "row-mean-update,\nnorm (rad)": 0.935,
}
"""Of Table 1, and where they stand."""
PLANS = {"SVP": PAPER_SVP, "svp (ours)": "svp"}
SOURCES = dict(zip(VARIANTS, ("ours, paper's variant", "ours, authors' variant"), strict=True))
COLOURS = dict(zip(("the paper", *SOURCES.values()), (GREY, BLUE, ORANGE), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Policies on several grids, or Table 1 with our numbers beside the paper's."""
    return _table(evidence) if figure_id == "table1" else _maps(evidence)


def _maps(evidence: Evidence) -> Figure:
    """The optimum, and plans with the first mask; not all were planned on the finest grid."""
    grids = grids_of(evidence)
    figure = new_figure(3.0 * len(grids) + 0.8, 7.6)
    panels = figure.subplots(1 + len(PLANS), len(grids), squeeze=False)
    titles = {}
    for row, what in zip(panels, ("optimum", *PLANS), strict=True):
        pairs: list[tuple[Kept, Kept]] = []
        for grid, panel in zip(grids, row, strict=True):
            best = evidence.only(OPTIMUM.name, **at(grid, "paper"))
            plans = [best]
            if what in PLANS:
                plans = evidence.where(PLANNED.name, seed=0, method=PLANS[what], **at(grid, "paper"))
            if plans:
                pairs.append((best, plans[0]))
                titles[panel] = f"{what}{', p = .2' if what in PLANS else ''}, {size_of(*grid)}"
            else:
                panel.axis("off")
        control.draw_maps_of(figure, row[: len(pairs)], pairs)
    letter(list(titles), list(titles.values()))
    return figure


def _table(evidence: Evidence) -> Figure:
    """One line a grid and source, in the order of the paper's table, in the colour of its source.

    Intervals of the optimum are over sets of starts, those of SVP over masks.
    """
    lines: list[tuple[str, list[str]]] = []
    for grid in grids_of(evidence):
        if grid in PRINTED:
            rank, best, svp = PRINTED[grid]
            lines.append(("the paper", [size_of(*grid), str(rank), "", f"{best:.2f}", f"{svp:.2f}", "", "", ""]))
        lines += [(source, _ours(evidence, grid, variant)) for variant, source in SOURCES.items()]
    figure = new_figure(12.6, 0.9 + 0.32 * len(lines))
    panel = figure.subplots()
    panel.set(xlim=(0.0, 1.0), ylim=(len(lines) + 0.2, -1.4))
    panel.axis("off")
    for head, place in COLUMNS.items():
        panel.text(place, -0.35, head, ha="center", va="bottom", fontweight="bold", fontsize=8.5)
    above = ""
    for at_line, (source, texts) in enumerate(lines):
        if texts[0] != above:
            panel.axhline(at_line - 0.2, color=GREY, linewidth=0.8)
        above = texts[0]
        shown = [panel.text(0.0, at_line + 0.3, source, va="center", color=COLOURS[source], fontsize=8.5)]
        for place, text in zip(COLUMNS.values(), texts, strict=True):
            shown.append(panel.text(place, at_line + 0.3, text, ha="center", va="center", fontsize=8.5))
        tag(shown, source)
    return figure


def _ours(evidence: Evidence, grid: Grid, variant: str) -> list[str]:
    row, where = optimum_of(evidence, **at(grid, variant)), at(grid, variant)
    numbers = [
        values_of(evidence, "metric", STARTS_KIND.name, **where),
        values_of(evidence, "metric", method=PAPER_SVP, **where),
        values_of(evidence, "mean_degrees", method=PAPER_SVP, **where),
        *(values_of(evidence, "metric", method=method, **where) for method in BASELINES),
    ]
    shown = (with_interval(values) if values else "" for values in numbers)
    return [size_of(*grid), str(row["rank_99"]), str(row["rank_tight"]), *shown]


EXPERIMENT = Experiment(
    name="control_discretisation",
    title="the pendulum on three grids",
    says={
        "fig29": "On three grids, 400x100 to 10000x4000, SVP from 20% of the pairs finds almost the optimal policy.",
        "table1": "On the three grids the approximate rank is 4 to 8, and SVP's deviation is near the optimum's.",
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=("The grid of 10000x4000 is planned at full scale only: a plan takes a quarter of an hour on two cores.",),
)
