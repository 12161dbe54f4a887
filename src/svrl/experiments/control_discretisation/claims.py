"""The nine numbers of Table 1, each as a claim, and that the rank hardly depends on the grid."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from svrl.experiments.control_cells import OPTIMUM, PLANNED, values_of
from svrl.experiments.control_claims import LOSS, NEAR, best_of, judged_below, judged_near, percent, with_interval
from svrl.experiments.control_discretisation.settings import COARSE, FINE, MIDDLE, TASK, VARIANTS, size_of
from svrl.experiments.paper.claim import Claim, Finding, Verdict
from svrl.experiments.paper.evidence import Evidence

PRINTED: dict[tuple[int, int], tuple[int, float, float]] = {
    COARSE: (4, 1.49, 2.07),
    MIDDLE: (7, 0.53, 1.92),
    FINE: (8, 0.18, 0.96),
}
"""Grid -> approximate rank, average deviation of the optimum, of SVP."""
MOST_RANK = 10


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


def of_masks(evidence: Evidence, name: str, grid: tuple[int, int], variant: str) -> list[float]:
    """One number of SVP at p = .2, a value a mask."""
    return values_of(evidence, name, PLANNED.name, **at(grid, variant))


def _rank(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    printed = PRINTED[grid][0]
    rows = {variant: optimum(evidence, grid, variant) for variant in VARIANTS}
    tight = ", ".join(f"{row['rank_tight']} ({variant})" for variant, row in rows.items())
    stated = rows["paper"]["rank_99"]
    note = f"99% of the energy gives {stated}; 1 - 1e-6 gives {tight}"
    if any(row["rank_99"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.REPRODUCED, ours=str(printed), value=printed, note=note)
    if any(row["rank_tight"] == printed for row in rows.values()):
        return Finding(verdict=Verdict.OTHERWISE, ours=str(printed), value=printed, note=note)
    return Finding(verdict=Verdict.NOT_REPRODUCED, ours=str(stated), value=stated, note=note)


def _optimum(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    """Nothing is drawn but starts and noise, which are the same for all: no interval over seeds."""
    printed = PRINTED[grid][1]
    rows = {variant: optimum(evidence, grid, variant) for variant in VARIANTS}
    norms = ", ".join(f"{row['metric']:.2f} ({variant})" for variant, row in rows.items())
    degrees = float(rows["paper"]["mean_degrees"])
    note = f"as norms in radians {norms}; in degrees {degrees:.2g}"
    if abs(degrees - printed) <= NEAR * printed:
        return Finding(verdict=Verdict.REPRODUCED, ours=f"{degrees:.2f}", value=degrees, note=note)
    nearest = min((float(row["metric"]) for row in rows.values()), key=lambda value: abs(value - printed))
    close = abs(nearest - printed) <= NEAR * printed
    verdict = Verdict.OTHERWISE if close else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"{nearest:.2f}", value=nearest, note=note)


def _svp(evidence: Evidence, grid: tuple[int, int]) -> Finding:
    printed = PRINTED[grid][2]
    degrees = of_masks(evidence, "mean_degrees", grid, "paper")
    stated = f"in degrees {with_interval(degrees)}"
    found = []
    for variant in VARIANTS:
        values = of_masks(evidence, "metric", grid, variant)
        note = f"as norms in radians, variant {variant}; {stated}"
        found.append(judged_near(values, printed, note=note, otherwise=True))
    return best_of([*found, judged_near(degrees, printed, note=stated, otherwise=False)])


def _stays_low(evidence: Evidence) -> Finding:
    ranks = {grid: optimum(evidence, grid, "paper") for grid in grids_of(evidence)}
    largest = max(row["rank_99"] for row in ranks.values())
    tight = ", ".join(f"{row['rank_tight']} at {size_of(*grid)}" for grid, row in ranks.items())
    verdict = Verdict.REPRODUCED if largest <= MOST_RANK else Verdict.NOT_REPRODUCED
    return Finding(
        verdict=verdict, ours=f"at most {largest}", value=largest, note=f"at 1 - 1e-6 of the energy: {tight}"
    )


def _near_optimal(evidence: Evidence) -> Finding:
    """On which grids SVP's policy loses less than 1%: the worst decides."""
    losses = {grid: of_masks(evidence, "policy_loss_relative", grid, "paper") for grid in grids_of(evidence)}
    worst = max(losses, key=lambda grid: float(np.mean(losses[grid])))
    shown = ", ".join(f"{size_of(*grid)} {with_interval(some, percent)}" for grid, some in losses.items())
    return judged_below(losses[worst], LOSS, show=percent, note=f"policy loss: {shown}")


def _of_grid(grid: tuple[int, int]) -> tuple[Claim, ...]:
    size, (rank, best, svp) = size_of(*grid), PRINTED[grid]
    scales = ("full",) if grid == FINE else ("laptop", "full")
    near = f"within {NEAR:.0%} of {{}}: in degrees, else as the norm in radians in either variant"
    return (
        Claim(
            name=f"rank-at-{size}",
            figure="table1",
            section="G.1",
            says=f"At {size} the converged Q of the pendulum has approximate rank {rank}.",
            paper=str(rank),
            test="singular values that hold 99% of the energy; else 1 - 1e-6 of it, in either variant",
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
            test=near.format(best),
            judge=partial(_optimum, grid=grid),
            scales=scales,
            seeded=False,
        ),
        Claim(
            name=f"svp-at-{size}",
            figure="table1",
            section="G.1",
            says=f"At {size} SVP from 20% of the pairs deviates by {svp} on average.",
            paper=f"{svp} (degrees)",
            test="mean over masks " + near.format(svp),
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
        row = optimum(evidence, grid, "authors")
        svp = with_interval(of_masks(evidence, "metric", grid, "paper"))
        parts.append(f"{size_of(*grid)} has rank {row['rank_tight']}, optimum {row['metric']:.2f}, SVP {svp}")
    if figure_id == "fig29":
        return f"SVP at p = .2 beside the optimum: {'; '.join(parts)}."
    variants = "norms in radians; rank at 1 - 1e-6 and optimum of the authors' variant, SVP of the paper's"
    return f"{'; '.join(parts)} ({variants})."
