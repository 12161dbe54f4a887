"""What the paper says about its toy MDP, and how each statement is tested."""

from __future__ import annotations

import numpy as np

from svrl.paper.claim import Claim, Finding
from svrl.paper.control_claims import judged_below, with_interval
from svrl.paper.evidence import Evidence
from svrl.paper.toy_rank.run import KIND, ONLINE, VANILLA
from svrl.paper.toy_rank.settings import ITERATIONS

FAST = 10
COMPARABLE = 2.0
LOW_RANK = 10


def at(evidence: Evidence, name: str, *, reward: str, method: str, t: int | None) -> list[float]:
    """One number of iteration t (None: of the optimum), a value an MDP."""
    rows = evidence.rows(KIND.name, reward=reward, method=method)
    return [float(row[name]) for row in rows if row["t"] == t]


def curves(evidence: Evidence, name: str, *, reward: str, method: str) -> np.ndarray:
    """(seeds, iterations + 1)."""
    cells = evidence.where(KIND.name, reward=reward, method=method)
    return np.array([[row[name] for row in cell.rows if row["t"] is not None] for cell in cells], float)


def iterations_until_one(evidence: Evidence, reward: str) -> list[float]:
    """The first iteration of plain value iteration whose rank is 1, or one more than there are, a value an MDP."""
    found = curves(evidence, "rank_99", reward=reward, method=VANILLA) <= 1
    return [float(row.argmax()) if row.any() else float(found.shape[1]) for row in found]


def _falls(evidence: Evidence) -> Finding:
    other = with_interval(iterations_until_one(evidence, "normal"))
    return judged_below(iterations_until_one(evidence, "uniform"), FAST, note=f"U(0, 1) rewards; with N(0, 1): {other}")


def _low(evidence: Evidence) -> Finding:
    ranks, centred = (
        at(evidence, name, reward="uniform", method=VANILLA, t=None) for name in ("rank_99", "rank_99_centred")
    )
    other = with_interval(at(evidence, "rank_99", reward="normal", method=VANILLA, t=None))
    note = f"less its row means: {with_interval(centred)}; with N(0, 1) rewards: {other}"
    return judged_below(ranks, LOW_RANK, note=note)


def _stays_low(evidence: Evidence) -> Finding:
    """The largest rank on the path decides, from the iteration on at which it must have fallen."""
    path = curves(evidence, "rank_99", reward="uniform", method=ONLINE)
    largest = [float(ranks[FAST:].max()) for ranks in path]
    first = ", ".join(f"{rank:.3g}" for rank in path.mean(0)[:4])
    last, centred = (
        with_interval(at(evidence, name, reward="uniform", method=ONLINE, t=ITERATIONS))
        for name in ("rank_99", "rank_99_centred")
    )
    other = with_interval(at(evidence, "rank_99", reward="normal", method=ONLINE, t=ITERATIONS))
    note = (
        f"{first} after 0 to 3 iterations, {last} after {ITERATIONS}, less its row means {centred}; "
        f"with N(0, 1) rewards {other}"
    )
    return judged_below(largest, LOW_RANK, note=note)


def error_ratios(evidence: Evidence, reward: str) -> list[float]:
    """Error of reconstruction over that of plain value iteration after the last iteration, a value an MDP."""
    last = [at(evidence, "mse", reward=reward, method=method, t=ITERATIONS) for method in (ONLINE, VANILLA)]
    return [ours / plain for ours, plain in zip(*last, strict=True)]


def _comparable(evidence: Evidence) -> Finding:
    other = with_interval(error_ratios(evidence, "normal"))
    note = f"U(0, 1) rewards; with N(0, 1): {other} times"
    return judged_below(
        error_ratios(evidence, "uniform"), COMPARABLE, show=lambda value: f"{value:.2f} times", note=note
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="toy-rank-falls-fast",
        figure="fig1",
        section="2",
        says="During value iteration the approximate rank of Q drops fast.",
        paper="about 1 after a few iterations",
        test=f"first iteration with rank 1 (99% of the energy), upper end of the interval over MDPs at most {FAST}",
        judge=_falls,
    ),
    Claim(
        name="toy-optimum-is-low-rank",
        figure="fig1",
        section="2",
        says="The converged Q of the toy MDP has low rank.",
        paper="low",
        test=f"rank by 99% of the energy, upper end of the interval over MDPs at most {LOW_RANK} of 100",
        judge=_low,
    ),
    Claim(
        name="toy-rank-stays-low-under-reconstruction",
        figure="fig1",
        section="2",
        says="Reconstruction from half of the pairs keeps Q of low rank throughout.",
        paper="low rank",
        test=f"largest rank by 99% of the energy of iterations {FAST} to {ITERATIONS}, upper end of the interval over "
        f"MDPs at most {LOW_RANK} of 100",
        judge=_stays_low,
    ),
    Claim(
        name="toy-half-of-the-pairs-is-comparable",
        figure="fig1",
        section="2",
        says="After about 40 iterations reconstruction from half of the pairs is comparable to value iteration.",
        paper="comparable",
        test=f"error after 40 iterations over value iteration's, upper end of the interval at most {COMPARABLE:g}",
        judge=_comparable,
    ),
)


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    ranks = curves(evidence, "rank_99", reward="uniform", method=VANILLA).mean(0)
    errors = [
        with_interval(at(evidence, "mse", reward="uniform", method=method, t=ITERATIONS))
        for method in (VANILLA, ONLINE)
    ]
    first = ", ".join(f"{rank:.3g}" for rank in ranks[:4])
    return (
        f"With rewards from U(0, 1) the rank is {first} after 0 to 3 iterations (means over MDPs). After "
        f"{ITERATIONS} the mean squared error is {errors[0]} for value iteration and {errors[1]} with half of the "
        f"pairs; with N(0, 1) rewards the second is {with_interval(error_ratios(evidence, 'normal'))} times the first."
    )
