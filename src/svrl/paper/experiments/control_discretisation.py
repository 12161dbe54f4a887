"""The pendulum on three grids (appendix G.1): ranks, deviations and policies.

The optimum of a grid is judged under several sets of starts and noise. The grid is solved once, and its Q* is
interpolated and followed greedily from every set. A set is drawn from a seed of its own, so that the
rows are independent and have an interval:

    metric         the task's own: mean over starts of the norm of the late angles, in radians
    mean_degrees   mean of their absolute values, in degrees
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import control
from svrl.paper.experiments.control import OPTIMUM, PLANNED, TASKS, optimum_of, values_of
from svrl.paper.experiments.control_svp import ITERATIONS, LOW, MASKS, PAPER_SVP, STARTS
from svrl.paper.verdicts import below, fixed, percent, with_interval
from svrl.planning.policy import GreedyPolicy
from svrl.planning.rollout import rollout
from svrl.plots.style import BLUE, GREY, ORANGE, letter, new_figure, tag
from svrl.runs.spec import Kind, Result, RunSpec, Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from svrl.plots.planning import Map


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
        rows.append(
            {"start_seed": seed, "metric": found[problem.task.metric.name], "mean_degrees": found["mean_degrees"]}
        )
    return Result(rows=rows)


STARTS_KIND = Kind(name="control-starts", version=1, compute=compute_starts)

TASK = TASKS[0]
VARIANTS = ("paper", "authors")
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


def runs(scale: str) -> tuple[RunSpec, ...]:
    """Every grid and variant: the optimum, also under several sets of starts, SVP at p = .2, and what stands beside."""
    found: list[RunSpec] = []
    for points, actions in GRIDS[scale]:
        optimum, planned, again = WEIGHTS.get((points, actions), (0.01, 0.01, 0.01))
        for variant in VARIANTS:
            where: dict[str, Any] = {"task": TASK, "variant": variant, "states": [points, points], "actions": actions}
            where |= {"starts": STARTS[scale]}
            seeds = {"start_seeds": list(range(START_SETS[scale]))}
            found.append(RunSpec(kind=STARTS_KIND, settings={**where, **seeds}, minutes=again))
            where |= {"start_seed": 0}
            found.append(RunSpec(kind=OPTIMUM, settings=where, minutes=optimum))
            beside = BASELINES if variant == "paper" and (points, actions) != FINE else ()
            for method in (PAPER_SVP, *beside):
                more: dict[str, Any] = {"method": method, "observe": LOW, "iterations": ITERATIONS[scale]}
                masks = 1 if scale == "smoke" and method != PAPER_SVP else MASKS[scale]
                found += [
                    RunSpec(kind=PLANNED, settings={**where, **more, "seed": seed}, minutes=planned)
                    for seed in range(masks)
                ]
    return tuple(found)


def words(scale: str) -> str:
    """What is spent, for a caption."""
    sizes = ", ".join(size_of(*grid) for grid in GRIDS[scale])
    starts = f"{STARTS[scale]} starts ({START_SETS[scale]} sets of them for the optimum)"
    return f"{sizes} pairs, p = .2, {MASKS[scale]} masks, {starts}"


BUDGETS = {scale: Budget(runs=runs(scale), words=words(scale)) for scale in GRIDS}

PRINTED: dict[tuple[int, int], tuple[int, float, float]] = {
    COARSE: (4, 1.49, 2.07),
    MIDDLE: (7, 0.53, 1.92),
    FINE: (8, 0.18, 0.96),
}
"""Grid -> approximate rank, average deviation of the optimum, of SVP."""
SIMILAR = 2
"""Ranks count as similar if they are at most so far apart."""


def grids_of(evidence: Evidence) -> list[tuple[int, int]]:
    """Grids that were run: points of each axis, and actions."""
    found = {(run.settings["states"][0], run.settings["actions"]) for run in evidence.where(OPTIMUM.name)}
    return sorted(found)


def at(grid: tuple[int, int], variant: str) -> dict[str, Any]:
    """The settings of a grid."""
    return {"task": TASK, "states": [grid[0], grid[0]], "actions": grid[1], "variant": variant}


def of_masks(
    evidence: Evidence, name: str, grid: tuple[int, int], variant: str, method: str = PAPER_SVP
) -> list[float]:
    """One number of a method, of the paper's SVP by default, at p = .2, a value a mask."""
    return values_of(evidence, name, method=method, **at(grid, variant))


def of_starts(evidence: Evidence, name: str, grid: tuple[int, int], variant: str) -> list[float]:
    """One number of the optimum, a value a set of starts."""
    return values_of(evidence, name, STARTS_KIND.name, **at(grid, variant))


def judge_rank(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    """The rank of a grid's Q* in both variants."""
    return control.judged_rank(
        {variant: optimum_of(evidence, **at(grid, variant)) for variant in VARIANTS}, PRINTED[grid][0]
    )


def judge_optimum(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    """The deviation of the optimum over sets of starts."""
    norms = {variant: of_starts(evidence, "metric", grid, variant) for variant in VARIANTS}
    return control.judged_deviation(of_starts(evidence, "mean_degrees", grid, "paper"), norms, PRINTED[grid][1])


def judge_svp(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    """The deviation of SVP over masks."""
    norms = {variant: of_masks(evidence, "metric", grid, variant) for variant in VARIANTS}
    return control.judged_deviation(of_masks(evidence, "mean_degrees", grid, "paper"), norms, PRINTED[grid][2])


def judge_stays_low(evidence: Evidence) -> Finding:
    """The largest rank of all grids."""
    return control.judged_low(optimum_of(evidence, **at(grid, "paper"))["rank_99"] for grid in grids_of(evidence))


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
    losses = [of_masks(evidence, "policy_loss_relative", grid, "paper") for grid in grids_of(evidence)]
    return below(max(losses, key=lambda some: float(np.mean(some))), control.LOSS, show=percent)


_of_table = partial(Claim, figure="table1", section="G.1")


def _of_grid(grid: tuple[int, int]) -> tuple[Claim, ...]:
    size, (rank, best, svp) = size_of(*grid), PRINTED[grid]
    claim = partial(_of_table, scales=("full",) if grid == FINE else ("laptop", "full"))
    return (
        claim(
            name=f"rank-at-{size}",
            says=f"At {size} the converged Q of the pendulum has approximate rank {rank}.",
            paper=str(rank),
            test=control.RANK_TEST,
            judge=partial(judge_rank, grid=grid),
            seeded=False,
        ),
        claim(
            name=f"optimum-at-{size}",
            says=f"At {size} the optimal policy deviates by {best} on average.",
            paper=f"{best} (degrees)",
            test=f"mean over sets of starts {control.near_test(best)}",
            judge=partial(judge_optimum, grid=grid),
        ),
        claim(
            name=f"svp-at-{size}",
            says=f"At {size} SVP from 20% of the pairs deviates by {svp} on average.",
            paper=f"{svp} (degrees)",
            test=f"mean over masks {control.near_test(svp)}",
            judge=partial(judge_svp, grid=grid),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *(claim for grid in PRINTED for claim in _of_grid(grid)),
    _of_table(
        name="rank-stays-low-on-every-grid",
        says="The approximate rank is low whatever the grid.",
        paper="4 to 8",
        test=f"rank by 99% of the energy at most {control.MOST_RANK} on every grid that was run",
        judge=judge_stays_low,
        seeded=False,
    ),
    _of_table(
        name="rank-is-similar-on-fine-grids",
        says="Once the grid is fine enough, a finer one has a Q of similar rank.",
        paper="7 and 8",
        test=f"ranks at 2500x1000 and finer at most {SIMILAR} apart, by 99% and by 1 - 1e-6 of the energy; else in the "
        "authors' variant",
        judge=judge_similar,
        scales=("full",),
        seeded=False,
    ),
    Claim(
        name="svp-is-nearly-optimal-on-every-grid",
        figure="fig29",
        section="G.1",
        says="On each grid SVP from 20% of the pairs finds almost the optimal policy.",
        paper="almost the same policy",
        test="policy loss over the range of V*, upper end of the 95% interval over masks at most 1% on every grid",
        judge=judge_near_optimal,
    ),
)


HEAD = (
    "grid",
    "rank,\n99%",
    "rank,\n1 - 1e-6",
    "optimum,\nnorm (rad)",
    "SVP, p = .2,\nnorm (rad)",
    "SVP,\ndegrees",
    "svp (ours),\nnorm (rad)",
    "row-mean-update,\nnorm (rad)",
)
PLANS = {"SVP": PAPER_SVP, "svp (ours)": "svp"}
SOURCES = {"paper": "ours, paper's variant", "authors": "ours, authors' variant"}
COLOURS = dict(zip(("the paper", *SOURCES.values()), (GREY, BLUE, ORANGE), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Policies on several grids, or Table 1 with our numbers beside the paper's."""
    return _table(evidence) if figure_id == "table1" else _maps(evidence)


def _maps(evidence: Evidence) -> Figure:
    from svrl.plots.planning import draw_maps

    grids = grids_of(evidence)
    names = optimum_of(evidence, **at(grids[0], "paper"))["axes"]
    figure = new_figure(3.0 * len(grids) + 0.8, 7.6)
    panels = figure.subplots(1 + len(PLANS), len(grids), squeeze=False)
    used, titles = [], []
    for row, what in zip(panels, ("optimum", *PLANS), strict=True):
        maps = [found for grid in grids if (found := _map(evidence, grid, what)) is not None]
        draw_maps(figure, list(row[: len(maps)]), maps, (names[0], names[1], control.INPUTS[TASK]))
        titles += [found.title for found in maps]
        used += list(row[: len(maps)])
        for panel in row[len(maps) :]:  # not planned on the finest grid
            panel.axis("off")
    letter(used, titles)
    return figure


def _map(evidence: Evidence, grid: tuple[int, int], what: str) -> Map | None:
    """The optimum, or a plan with the first mask; None where it was not made."""
    best = evidence.only(OPTIMUM.name, **at(grid, "paper"))
    runs = [best]
    if what in PLANS:
        runs = evidence.where(PLANNED.name, seed=0, method=PLANS[what], **at(grid, "paper"))
    if not runs:
        return None
    title = f"{what}{', p = .2' if what in PLANS else ''}, {size_of(*grid)}"
    return control.policy_map(title, best, runs[0])


def _table(evidence: Evidence) -> Figure:
    """One line a grid and source, in the order of the paper's table.

    Intervals of the optimum are over sets of starts, those of SVP over masks.
    """
    lines: list[tuple[str, list[str]]] = []
    for grid in grids_of(evidence):
        if grid in PRINTED:
            rank, best, svp = PRINTED[grid]
            lines.append(("the paper", [size_of(*grid), str(rank), "", f"{best:.2f}", f"{svp:.2f}", "", "", ""]))
        lines += [(source, _ours(evidence, grid, variant)) for variant, source in SOURCES.items()]
    figure = new_figure(12.6, 0.9 + 0.32 * len(lines))
    _write(figure.subplots(), lines)
    return figure


def _ours(evidence: Evidence, grid: tuple[int, int], variant: str) -> list[str]:
    row = optimum_of(evidence, **at(grid, variant))
    norms, degrees = (with_interval(of_masks(evidence, name, grid, variant)) for name in ("metric", "mean_degrees"))
    best = with_interval(of_starts(evidence, "metric", grid, variant))
    beside = [of_masks(evidence, "metric", grid, variant, method) for method in BASELINES]
    shown = [with_interval(values) if values else "" for values in beside]
    return [size_of(*grid), str(row["rank_99"]), str(row["rank_tight"]), best, norms, degrees, *shown]


def _write(panel: Axes, lines: list[tuple[str, list[str]]]) -> None:
    """Text in columns, a rule below the head and between grids, and the colour of its source before each line."""
    places = (0.18, 0.24, 0.295, 0.395, 0.535, 0.67, 0.8, 0.935)
    panel.set(xlim=(0.0, 1.0), ylim=(len(lines) + 0.2, -1.4))
    panel.axis("off")
    for place, text in zip(places, HEAD, strict=True):
        panel.text(place, -0.35, text, ha="center", va="bottom", fontweight="bold", fontsize=8.5)
    for at_line, (source, texts) in enumerate(lines):
        if at_line == 0 or lines[at_line - 1][1][0] != texts[0]:
            panel.axhline(at_line - 0.2, color=GREY, linewidth=0.8)
        shown = [panel.text(0.0, at_line + 0.3, source, va="center", color=COLOURS[source], fontsize=8.5)]
        for place, text in zip(places, texts, strict=True):
            shown.append(panel.text(place, at_line + 0.3, text, ha="center", va="center", fontsize=8.5))
        tag(shown, source)


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
