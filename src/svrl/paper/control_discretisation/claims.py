"""The nine numbers of Table 1, each as a claim, and that the rank is low and hardly depends on the grid."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from svrl.paper.claim import Claim, Finding, Verdict
from svrl.paper.control_cells import OPTIMUM, PLANNED, values_of
from svrl.paper.control_claims import (
    LOSS,
    RANK_TEST,
    judged_below,
    judged_deviation,
    judged_rank,
    near_test,
    percent,
    with_interval,
)
from svrl.paper.control_discretisation.run import STARTS_KIND
from svrl.paper.control_discretisation.settings import COARSE, FINE, MIDDLE, TASK, VARIANTS, size_of
from svrl.paper.control_svp.settings import PAPER_SVP
from svrl.paper.evidence import Evidence

PRINTED: dict[tuple[int, int], tuple[int, float, float]] = {
    COARSE: (4, 1.49, 2.07),
    MIDDLE: (7, 0.53, 1.92),
    FINE: (8, 0.18, 0.96),
}
"""Grid -> approximate rank, average deviation of the optimum, of SVP."""
MOST_RANK = 10
SIMILAR = 2
"""Ranks count as similar if they are at most so far apart."""


def grids_of(evidence: Evidence) -> list[tuple[int, int]]:
    """Grids that were run: points of each axis, and actions."""
    found = {(cell.settings["states"][0], cell.settings["actions"]) for cell in evidence.where(OPTIMUM.name)}
    return sorted(found)


def at(grid: tuple[int, int], variant: str) -> dict[str, Any]:
    """The settings of a grid."""
    return {"task": TASK, "states": [grid[0], grid[0]], "actions": grid[1], "variant": variant}


def optimum(evidence: Evidence, grid: tuple[int, int], variant: str) -> dict[str, Any]:
    """The row of a grid's optimum."""
    return evidence.only(OPTIMUM.name, **at(grid, variant)).rows[0]


def of_masks(
    evidence: Evidence, name: str, grid: tuple[int, int], variant: str, method: str = PAPER_SVP
) -> list[float]:
    """One number of a method, of the paper's SVP by default, at p = .2, a value a mask."""
    return values_of(evidence, name, PLANNED.name, method=method, **at(grid, variant))


def of_starts(evidence: Evidence, name: str, grid: tuple[int, int], variant: str) -> list[float]:
    """One number of the optimum, a value a set of starts."""
    return values_of(evidence, name, STARTS_KIND.name, **at(grid, variant))


def _rank(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    return judged_rank({variant: optimum(evidence, grid, variant) for variant in VARIANTS}, PRINTED[grid][0])


def _optimum(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    norms = {variant: of_starts(evidence, "metric", grid, variant) for variant in VARIANTS}
    return judged_deviation(of_starts(evidence, "mean_degrees", grid, "paper"), norms, PRINTED[grid][1])


def _svp(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    norms = {variant: of_masks(evidence, "metric", grid, variant) for variant in VARIANTS}
    return judged_deviation(of_masks(evidence, "mean_degrees", grid, "paper"), norms, PRINTED[grid][2])


def _stays_low(evidence: Evidence) -> Finding:
    ranks = {grid: optimum(evidence, grid, "paper") for grid in grids_of(evidence)}
    largest = max(row["rank_99"] for row in ranks.values())
    tight = ", ".join(f"{row['rank_tight']} at {size_of(*grid)}" for grid, row in ranks.items())
    verdict = Verdict.REPRODUCED if largest <= MOST_RANK else Verdict.NOT_REPRODUCED
    return Finding(
        verdict=verdict, ours=f"rank at most {largest}", value=largest, note=f"at 1 - 1e-6 of the energy: {tight}"
    )


def _similar(evidence: Evidence) -> Finding:
    """Ranks on the grids from 2500x1000 on, by both energies: the paper's variant, else the authors'."""
    grids = [grid for grid in grids_of(evidence) if grid >= MIDDLE]
    gaps, parts = {}, []
    for variant in VARIANTS:
        rows = [optimum(evidence, grid, variant) for grid in grids]
        tight, stated = ([row[name] for row in rows] for name in ("rank_tight", "rank_99"))
        gaps[variant] = max(max(some) - min(some) for some in (tight, stated))
        parts.append(f"{variant} {' and '.join(map(str, tight))} (99%: {' and '.join(map(str, stated))})")
    note = f"at 1 - 1e-6 of the energy: {', '.join(parts)}"
    verdict, chosen, where = Verdict.NOT_REPRODUCED, "paper", ""
    if gaps["paper"] <= SIMILAR:
        verdict = Verdict.REPRODUCED
    elif gaps["authors"] <= SIMILAR:
        verdict, chosen, where = Verdict.OTHERWISE, "authors", " in the authors' variant"
    return Finding(verdict=verdict, ours=f"{gaps[chosen]} apart{where}", value=gaps[chosen], note=note)


def _near_optimal(evidence: Evidence) -> Finding:
    """On which grids SVP's policy loses less than 1%: the worst decides."""
    losses = {grid: of_masks(evidence, "policy_loss_relative", grid, "paper") for grid in grids_of(evidence)}
    worst = max(losses, key=lambda grid: float(np.mean(losses[grid])))
    shown = ", ".join(f"{size_of(*grid)} {with_interval(some, percent)}" for grid, some in losses.items())
    return judged_below(losses[worst], LOSS, show=percent, note=f"policy loss: {shown}")


def _of_grid(grid: tuple[int, int]) -> tuple[Claim, ...]:
    size, (rank, best, svp) = size_of(*grid), PRINTED[grid]
    scales = ("full",) if grid == FINE else ("laptop", "full")
    return (
        Claim(
            name=f"rank-at-{size}",
            figure="table1",
            section="G.1",
            says=f"At {size} the converged Q of the pendulum has approximate rank {rank}.",
            paper=str(rank),
            test=RANK_TEST,
            judge=partial(_rank, grid=grid),
            scales=scales,
            seeded=False,
        ),
        Claim(
            name=f"optimum-at-{size}",
            figure="table1",
            section="G.1",
            says=f"At {size} the optimal policy deviates by {best} on average.",
            paper=f"{best} (degrees)",
            test=f"mean over sets of starts {near_test(best)}",
            judge=partial(_optimum, grid=grid),
            scales=scales,
        ),
        Claim(
            name=f"svp-at-{size}",
            figure="table1",
            section="G.1",
            says=f"At {size} SVP from 20% of the pairs deviates by {svp} on average.",
            paper=f"{svp} (degrees)",
            test=f"mean over masks {near_test(svp)}",
            judge=partial(_svp, grid=grid),
            scales=scales,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    *(claim for grid in PRINTED for claim in _of_grid(grid)),
    Claim(
        name="rank-stays-low-on-every-grid",
        figure="table1",
        section="G.1",
        says="The approximate rank is low whatever the grid.",
        paper="4 to 8",
        test=f"rank by 99% of the energy at most {MOST_RANK} on every grid that was run",
        judge=_stays_low,
        seeded=False,
    ),
    Claim(
        name="rank-is-similar-on-fine-grids",
        figure="table1",
        section="G.1",
        says="Once the grid is fine enough, a finer one has a Q of similar rank.",
        paper="7 and 8",
        test=f"ranks at 2500x1000 and finer at most {SIMILAR} apart, by 99% and by 1 - 1e-6 of the energy; else in the "
        "authors' variant",
        judge=_similar,
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
        judge=_near_optimal,
    ),
)


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    parts = []
    for grid in grids_of(evidence):
        if figure_id == "fig29":
            gap = with_interval(of_masks(evidence, "input_gap", grid, "paper"), percent)
            loss = with_interval(of_masks(evidence, "policy_loss_relative", grid, "paper"), percent)
            parts.append(f"at {size_of(*grid)} inputs differ by {gap} of their range and the policy loses {loss}")
            continue
        rank = optimum(evidence, grid, "authors")["rank_tight"]
        best = with_interval(of_starts(evidence, "metric", grid, "authors"))
        svp = with_interval(of_masks(evidence, "metric", grid, "paper"))
        parts.append(f"{size_of(*grid)} has rank {rank}, optimum {best}, SVP {svp}")
    if figure_id == "fig29":
        return f"SVP at p = .2 beside the optimum: {'; '.join(parts)}."
    variants = "norms in radians; rank at 1 - 1e-6 and optimum of the authors' variant, SVP of the paper's"
    return f"{'; '.join(parts)} ({variants})."
