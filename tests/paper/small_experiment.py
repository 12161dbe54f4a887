"""An experiment whose runs take no time, with every part that a real one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.runs.spec import Kind, Result, RunSpec, Work
from svrl.runs.store import SHIPPED, Kept, Store


class Committed(Store):
    """A store in the place of the table that ships with svrl."""

    def read(self, spec: RunSpec) -> Kept | None:
        kept = super().read(spec)
        return kept and replace(kept, source=SHIPPED)


def square(settings: Mapping[str, Any], work: Work) -> Result:
    value = settings["x"] ** 2
    return Result(rows=[{"value": value}], arrays={"ramp": np.arange(settings["x"])})


SQUARE = Kind(name="square", version=1, compute=square)


def run(x: int, kind: Kind = SQUARE, **more: Any) -> RunSpec:
    return RunSpec(kind=kind, settings={"x": x, **more})


def judge(evidence: Evidence) -> Finding:
    values = [row["value"] for row in evidence.rows()]
    verdict = Verdict.REPRODUCED if sum(values) > 10 else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=f"{sum(values)}", value=float(sum(values)), interval=(1.0, 2.0))


def draw(figure: str, evidence: Evidence) -> Figure:
    picture = Figure()
    picture.subplots().plot([row["value"] for row in evidence.rows()])
    return picture


def experiment(**changes: Any) -> Experiment:
    claim = Claim(
        name="sum-is-large",
        figure="fig1",
        section="2",
        says="The sum is large.",
        paper="> 10",
        test="The sum is compared with 10.",
        judge=judge,
    )
    parts: dict[str, Any] = {
        "name": "toy_rank",
        "title": "Squares",
        "says": {"fig1": "Squares grow."},
        "budgets": {
            "smoke": Budget(runs=(run(1),), words="one square"),
            "laptop": Budget(runs=(run(1), run(2), run(3)), words="three squares"),
            "full": Budget(runs=(run(1), run(30)), words="a large square"),
        },
        "picture": draw,
        "claims": (claim,),
    }
    return Experiment(**{**parts, **changes})
