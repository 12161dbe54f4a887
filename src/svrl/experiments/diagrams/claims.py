"""What the diagrams say, as statements that can be wrong."""

from __future__ import annotations

from functools import partial

import numpy as np

from svrl.experiments.control_claims import with_interval
from svrl.experiments.diagrams.run import BACKUPS, DROP_IN
from svrl.experiments.diagrams.settings import AGENTS, PARTLY, SHARES
from svrl.experiments.paper.claim import Claim, Finding, Verdict
from svrl.experiments.paper.evidence import Evidence
from svrl.stats import mean_interval

EVERY = ("smoke", "laptop", "full")


def shares(evidence: Evidence, observe: float) -> list[float]:
    """Backups of every iteration over all pairs."""
    return [float(row["share"]) for row in evidence.rows(BACKUPS.name, observe=observe)]


def _counted(evidence: Evidence, observe: float) -> Finding:
    """A Bernoulli mean: its own interval must contain p, up to one percent of the pairs."""
    found = shares(evidence, observe)
    low, high = mean_interval(found)
    close = low - 0.01 <= observe <= high + 0.01
    verdict = Verdict.REPRODUCED if close else Verdict.NOT_REPRODUCED
    ours = with_interval(found, lambda value: f"{value:.4f}")
    return Finding(verdict=verdict, ours=ours, value=float(np.mean(found)), interval=(low, high))


def _drop_in(evidence: Evidence) -> Finding:
    """All agents are the plain ones at p = 1, and none is at p < 1."""
    whole = [row["identical"] for row in evidence.rows(DROP_IN.name, observe=1.0)]
    part = [row["identical"] for row in evidence.rows(DROP_IN.name, observe=PARTLY)]
    holds = all(whole) and not any(part)
    return Finding(
        verdict=Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED,
        ours=f"{sum(whole)} of {len(whole)} identical at p = 1, {sum(part)} of {len(part)} at p = {PARTLY:g}",
        note=f"agents: {', '.join(AGENTS)}",
    )


CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            name=f"svp-backs-up-{round(100 * share)}-percent",
            figure="fig2",
            section="3.2",
            says=f"An iteration of SVP with p = {share:g} backs up that share of the pairs and estimates the others.",
            paper=f"p = {share:g}",
            test="counted backups of an iteration over all pairs: p within the 95% interval, widened by .01",
            judge=partial(_counted, observe=share),
            scales=EVERY,
        )
        for share in SHARES
    ),
    Claim(
        name="sv-rl-is-a-drop-in",
        figure="fig5",
        section="4.2",
        says="SV-RL changes how the targets of an update are formed and leaves all else as it is.",
        paper="only the target step differs",
        test="weights after training with every entry observed and kept are bit for bit the plain agent's, and with "
        "p = .9 are not",
        judge=_drop_in,
        scales=EVERY,
        seeded=False,
    ),
)


def got(figure_id: str, evidence: Evidence) -> str:
    """What we got, in our numbers."""
    if figure_id == "fig2":
        parts = ", ".join(f"{np.mean(shares(evidence, share)):.3f} at p = {share:g}" for share in SHARES)
        return f"Counted on a toy MDP, an iteration backs up a share of {parts}."
    return f"Weights after {_steps(evidence)} steps beside the plain agents': {_drop_in(evidence).ours}."


def _steps(evidence: Evidence) -> int:
    return int(evidence.where(DROP_IN.name)[0].settings["steps"])
