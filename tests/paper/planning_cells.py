"""What the tests of the planning experiments share: cells that are computed into a store, and rows made by hand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from svrl import __version__
from svrl.paper.cell import Kind, Work
from svrl.paper.claim import Evidence, Finding
from svrl.paper.experiment import Experiment
from svrl.paper.store import HERE, Kept, Store


def smoke_evidence(experiment: Experiment, root: Path) -> Evidence:
    """All smoke cells, computed by their own functions and read back from a store."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    store = Store(root=root)
    try:
        for cell in experiment.budgets["smoke"].cells:
            if store.read(cell) is None:
                result = cell.kind.compute(cell.settings, Work(folder=root / "work"))
                store.write(cell, result, {"svrl": __version__, "machine": "this one"})
    finally:
        torch.set_num_threads(threads)
    evidence = experiment.evidence("smoke", (store,))
    assert evidence is not None, "a smoke cell was not kept"
    return evidence


def at_laptop(evidence: Evidence) -> Evidence:
    """The same cells, called a laptop's: claims then judge them."""
    return dataclasses.replace(evidence, scale="laptop")


def check_experiment(experiment: Experiment, evidence: Evidence, folder: Path) -> dict[str, set[str]]:
    """Every figure draws, and has its words; returns the series of each."""
    series = {}
    for name in experiment.says:
        assert len(experiment.says[name]) > 20
        path = folder / f"{name}.svg"
        needs = next(iter(experiment.budgets.values())).needs
        read = dataclasses.replace(evidence, cells=tuple(cell for cell in evidence.cells if needs(name, cell)))
        experiment.draw(name, read).savefig(path, dpi=40)  # nobody looks at the maps in it
        series[name] = set(re.findall(r'id="series--([a-z0-9-]+)"', path.read_text()))
        sentence = experiment.got(name, read)
        assert sentence.endswith(".")
        assert "nan" not in sentence
    claims = [claim.name for claim in experiment.claims]
    assert len(set(claims)) == len(claims)
    assert not claims or {claim.figure for claim in experiment.claims} == set(experiment.says)
    return series


def kept(kind: Kind, rows: Iterable[dict[str, Any]], *, machine: str = "one", **settings: Any) -> Kept:
    """A cell that was never computed."""
    text = {"kind": kind.name, "key": str(settings), "settings": settings, "rows": list(rows), "source": HERE}
    return Kept(**text, provenance={"machine": machine}, load=dict)


def hand_made(cells: Iterable[Kept], scale: str = "full") -> Evidence:
    """Evidence of such cells."""
    return Evidence(scale=scale, words="made by hand", cells=tuple(cells))


def finding_of(experiment: Experiment, claim: str, evidence: Evidence) -> Finding:
    """What a claim comes to."""
    return next(some for some in experiment.claims if some.name == claim).judged(evidence)


def verdict_of(experiment: Experiment, claim: str, evidence: Evidence) -> str:
    """The same in a word."""
    return str(finding_of(experiment, claim, evidence).verdict)
