"""Our claim: under noise the low-rank part of an average loses less than the best baseline."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from svrl.paper.claim import Claim, Finding, Verdict
from svrl.paper.control_claims import number, with_interval
from svrl.paper.evidence import Evidence
from svrl.paper.noisy_simulator.run import KIND
from svrl.paper.noisy_simulator.settings import BARS, OURS
from svrl.stats import mean_interval


def losses(evidence: Evidence, sigma: float, method: str, **settings: Any) -> list[float]:
    """Of every seed; where nothing else is said, of the method as it is."""
    wanted = {
        "challengers": None,
        "rank": None,
        "observe": 1.0,
        "samples": 1,
        "sigma": sigma,
        "method": method,
    } | settings
    return [float(row["loss"]) for row in evidence.rows(KIND.name, **wanted)]


def by_method(evidence: Evidence, sigma: float) -> dict[str, list[float]]:
    """All methods at one level of noise, ours first."""
    few = {cell.settings["challengers"] for cell in evidence.where(KIND.name, sigma=sigma, method="incumbent")}
    found = {"structured average (ours)": losses(evidence, sigma, OURS)}
    found["plain average"] = losses(evidence, sigma, "averaged")
    for count in sorted(few):
        found[f"incumbent + {count}"] = losses(evidence, sigma, "incumbent", challengers=count)
    found["value iteration"] = losses(evidence, sigma, "value-iteration")
    return {name: some for name, some in found.items() if some}


def advantage(evidence: Evidence, sigma: float) -> tuple[list[float], str]:
    """For every seed the loss of the baseline that is best on average over ours, and that baseline's name."""
    found = by_method(evidence, sigma)
    names = list(found)
    best = min(names[1:], key=lambda name: float(np.mean(found[name])))
    return [other / mine for other, mine in zip(found[best], found[names[0]], strict=True)], best


def _pays(evidence: Evidence, sigma: float) -> Finding:
    ratios, best = advantage(evidence, sigma)
    low, high = mean_interval(ratios)
    verdict = Verdict.REPRODUCED if low > 1.0 else Verdict.NOT_REPRODUCED
    found = by_method(evidence, sigma)
    note = f"loss {np.mean(found['structured average (ours)']):.2g} against {np.mean(found[best]):.2g} of {best}"
    if low <= 1.0 < high:
        note = f"undecided: the interval over {len(ratios)} seeds contains 1; {note}"
    ours = with_interval(ratios, lambda value: f"{value:.1f} times")
    return Finding(verdict=verdict, ours=ours, value=float(np.mean(ratios)), interval=(low, high), note=note)


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        name=f"structure-pays-at-noise-{sigma:g}",
        figure="noise",
        section="",
        says=f"With noise {sigma:g} on every backup, planning on the low-rank part of the average loses less than the "
        "best baseline (ours, not the paper's).",
        paper="not measured",
        test="loss of the baseline that is best on average over ours, at equal samples: lower end of its 95% interval "
        "over seeds above 1",
        judge=partial(_pays, sigma=sigma),
    )
    for sigma in BARS
)


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    parts = []
    for sigma in BARS:
        ratios, best = advantage(evidence, sigma)
        parts.append(f"{number(float(np.mean(ratios)))} times at noise {sigma:g} ({best})")
    return f"The best baseline loses {', '.join(parts)} as much as the structured average."
