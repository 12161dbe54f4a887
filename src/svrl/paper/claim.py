"""Evidence and claims: what was measured, what the paper says, how it is tested, and what was found.

A claim is judged from evidence, and says itself at which scales there is enough of it. Nothing that depends on
seeds is called reproduced without an interval.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from svrl.runs.store import HERE, Kept


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All runs of an experiment at one scale.

    Attributes:
        scale: "smoke", "laptop", "full", or another budget of the experiment.
        words: What was spent: "2500x1000, p = .2 and .6, 3 masks".
        runs: In the order of the settings.
    """

    scale: str
    words: str
    runs: tuple[Kept, ...]

    def where(self, kind: str | None = None, **settings: Any) -> list[Kept]:
        """Runs of a kind with these settings; a tuple matches the list that JSON made of it."""
        wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return [
            run
            for run in self.runs
            if kind in (None, run.kind) and all(run.settings.get(name) == value for name, value in wanted.items())
        ]

    def only(self, kind: str | None = None, **settings: Any) -> Kept:
        """The one run with these settings.

        Raises:
            LookupError: If there is none or more than one.
        """
        found = self.where(kind, **settings)
        if len(found) != 1:
            raise LookupError(f"{len(found)} runs have {settings}, and one was expected.")
        return found[0]

    def rows(self, kind: str | None = None, **settings: Any) -> Iterator[dict[str, Any]]:
        """Rows of these runs, each with the settings of its run."""
        for run in self.where(kind, **settings):
            for row in run.rows:
                yield {**run.settings, **row}

    @property
    def source(self) -> str:
        """Whether it was computed here, or comes with svrl in whole or in part."""
        sources = {run.source for run in self.runs}
        return "here" if sources <= {HERE} else "committed" if HERE not in sources else "here and committed"


class Verdict(enum.StrEnum):
    """What became of a claim. What was found so far, at a smaller budget than the paper's, settles nothing."""

    REPRODUCED = "reproduced"
    OTHERWISE = "reproduced under another definition"
    NOT_REPRODUCED = "not reproduced"
    SUPPORTED = "supported so far"
    CONTRADICTED = "contradicted so far"
    UNDECIDED = "undecided so far"
    NOT_RUN = "not run at this scale"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the evidence says about a claim.

    Attributes:
        verdict: In one of seven words.
        ours: Our value with its interval, as a person would read it: "0.32% (0.27% to 0.36%)"; empty if there is none.
        value: The same as a number, for machines, where it is one.
        interval: Of that number over seeds, 95%; None where nothing is random, or nothing was run.
        note: Under which definition, at what budget, what stands in the way.
    """

    verdict: Verdict
    ours: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of the paper, or, for an addition, one of ours.

    Attributes:
        name: Short, unique, words-with-hyphens.
        figure: "fig3" or "table1"; that it belongs to, if only by its section.
        section: Of the paper, "3.3" or "C.1".
        says: The statement in our words.
        paper: The paper's value as it is printed, or the direction: "7", "higher in all 4 games".
        test: How it is tested, in a sentence: which number decides, against which limit.
        judge: From complete evidence to a finding.
        scales: At which it can be judged.
        seeded: Whether the outcome depends on seeds; then no verdict of reproduced comes without an interval.
        printed: Judged from what the paper prints alone, so nothing has to be run.
        whole: Judged from all runs of its experiment, not only from those that its figure reads.
    """

    name: str
    figure: str
    section: str
    says: str
    paper: str
    test: str
    judge: Callable[[Evidence], Finding]
    scales: tuple[str, ...] = ("laptop", "full")
    seeded: bool = True
    printed: bool = False
    whole: bool = False

    def judged(self, evidence: Evidence | None) -> Finding:
        """What the evidence says; that it was not run where there is none, or not enough.

        Raises:
            RuntimeError: If a verdict of reproduced on something random comes without an interval.
        """
        if self.printed:
            return self.judge(evidence or Evidence(scale="none", words="what the paper prints", runs=()))
        if evidence is None or evidence.scale not in self.scales:
            return Finding(verdict=Verdict.NOT_RUN, note="" if evidence is None else f"{evidence.scale} is too small")
        found = self.judge(evidence)
        positive = found.verdict in (Verdict.REPRODUCED, Verdict.OTHERWISE, Verdict.SUPPORTED)
        if positive and self.seeded and found.interval is None:
            raise RuntimeError(f"{self.name} was called {found.verdict} without an interval over seeds.")
        if found.verdict is Verdict.OTHERWISE and not found.note:
            raise RuntimeError(f"{self.name} was called {found.verdict}, and no note says which.")
        return found
