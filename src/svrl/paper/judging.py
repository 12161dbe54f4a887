"""Every claim against the best evidence there is.

A claim is judged from the scale that was asked for, if it can be judged there and all runs are kept. Otherwise, or
if that settles nothing, from the largest other budget that is kept, here or committed, and the finding says which it
was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from svrl.paper.catalogue import ADDITIONS
from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import SCALES, Experiment
from svrl.runs.store import Reader

SMOKE, LAPTOP, FULL = SCALES
SO_FAR = (Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.UNDECIDED)
"""Verdicts that settle nothing."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim and what was found.

    Attributes:
        experiment: That makes it.
        claim: The claim.
        finding: What was found.
        evidence: What it was judged from; None if there was nothing.
        asked: The scale that was asked for.
    """

    experiment: Experiment
    claim: Claim
    finding: Finding
    evidence: Evidence | None
    asked: str

    @property
    def is_addition(self) -> bool:
        """Ours, not the paper's."""
        return self.claim.figure in ADDITIONS

    @property
    def scale(self) -> str:
        """Of the evidence; where there is none, the scale that was asked for."""
        return self.evidence.scale if self.evidence else self.asked

    @property
    def source(self) -> str:
        """Where the evidence comes from: here, committed or both, or from what the paper prints."""
        if self.claim.printed:
            return "the paper"
        return self.evidence.source if self.evidence else "none"

    def as_json(self) -> dict[str, Any]:
        """One row of `svrl paper check --json`; what is null has its reason beside it."""
        claim, found = self.claim, self.finding
        no_value = "not one number" if found.ours else "not run"
        no_interval = "not one number" if claim.seeded else "no seed changes it"
        no_interval = "not run" if found.verdict is Verdict.NOT_RUN else no_interval
        return {
            "claim": claim.name,
            "section": claim.section,
            "addition": self.is_addition,
            "figure": claim.figure,
            "experiment": self.experiment.name,
            "says": claim.says,
            "paper": claim.paper,
            "test": claim.test,
            "ours": found.ours,
            "value": found.value,
            **({} if found.value is not None else {"value_reason": no_value}),
            "interval": None if found.interval is None else list(found.interval),
            **({} if found.interval is not None else {"interval_reason": no_interval}),
            "verdict": str(found.verdict),
            "scale": self.scale,
            "source": self.source,
            "budget": self.evidence.words if self.evidence else "",
            "note": found.note,
        }


@dataclass(frozen=True)
class Library:
    """Experiments and where their runs are kept.

    Attributes:
        experiments: In the order of the paper.
        stores: Read in this order.
    """

    experiments: tuple[Experiment, ...]
    stores: tuple[Reader, ...]

    @cached_property
    def _known(self) -> dict[tuple[str, str, str | None], Evidence | None]:
        return {}

    def evidence(self, experiment: Experiment, scale: str, figure: str | None = None) -> Evidence | None:
        """What is kept, of all or for one figure, read once."""
        key = (experiment.name, scale, figure)
        if key not in self._known:
            self._known[key] = experiment.evidence(scale, self.stores, figure)
        return self._known[key]

    def exhibits(self, experiment: Experiment, asked: str, figure: str | None = None) -> list[Evidence]:
        """All complete evidence: of the asked scale, then from the largest budget down; smoke only if asked.

        Where two scales are the same runs, the larger stands for both. With a figure, what that figure reads.
        """
        largest = _from_large(experiment)
        by_runs: dict[tuple[str, ...], Evidence] = {}
        for name in (asked, *(name for name in largest if name not in (asked, SMOKE))):
            if found := self.evidence(experiment, name, figure):
                runs = tuple(f"{run.source} {run.id}" for run in found.runs)
                by_runs[runs] = min(by_runs.get(runs, found), found, key=lambda one: largest.index(one.scale))
        return list(by_runs.values())

    def judge(self, asked: str, only: Iterable[str] | None = None) -> list[Judged]:
        """Every claim, of all figures or only of some."""
        figures = None if only is None else set(only)
        return [
            self._judged(experiment, claim, asked)
            for experiment in self.experiments
            for claim in experiment.claims
            if figures is None or claim.figure in figures
        ]

    def _judged(self, experiment: Experiment, claim: Claim, asked: str) -> Judged:
        complete = self.exhibits(experiment, asked, None if claim.whole else claim.figure)
        usable = [found for found in complete if found.scale in claim.scales] or complete
        evidence = usable[0] if usable else None
        finding = claim.judged(evidence)
        if finding.verdict in SO_FAR:
            evidence = min(usable, key=lambda found: _from_large(experiment).index(found.scale))
            finding = claim.judged(evidence)
        if evidence is None and not claim.printed:
            finding = replace(finding, note=self._half_finished(experiment, asked))
        return Judged(experiment=experiment, claim=claim, finding=finding, evidence=evidence, asked=asked)

    def _half_finished(self, experiment: Experiment, asked: str) -> str:
        """That a run was begun and how to end it; empty if nothing of it is kept."""
        wanted = experiment.runs(asked) if asked in experiment.budgets else []
        kept = len(wanted) - len(experiment.missing(asked, self.stores)) if wanted else 0
        resume = f"svrl paper run {experiment.name} --scale {asked} resumes"
        return f"half-finished: {kept} of {len(wanted)} runs are kept; {resume}" if kept else ""


def _from_large(experiment: Experiment) -> list[str]:
    """Names of budgets: the paper's, then those run once, then laptop and smoke."""
    others = [name for name in experiment.budgets if name not in SCALES]
    return [name for name in (FULL, *others, LAPTOP, SMOKE) if name in experiment.budgets]
