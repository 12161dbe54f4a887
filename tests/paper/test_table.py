"""Tables of evidence: what is added comes back, what is there stays, and damage is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svrl import __version__
from svrl.paper.catalogue import load_all
from svrl.paper.table import Table, committed_table
from svrl.runs.spec import Result, RunSpec
from svrl.runs.store import Store

from .small_experiment import SQUARE, run

TOLD = {"svrl": __version__, "machine": "one", "seconds": 1.5, "ended": "today"}


def result(x: int) -> Result:
    return Result(rows=[{"value": x, "curve": [0.1, None]}], arrays={"path": np.arange(float(x))})


def keep(store: Store, spec: RunSpec, result: Result, told: dict[str, Any]) -> None:
    store.add(spec)
    store.keep(spec, result, told)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(root=tmp_path / "runs")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table")


def test_what_is_added_comes_back(store: Store, table: Table):
    assert table.read(run(3)) is None
    for x in (3, 1):
        keep(store, run(x), result(x), TOLD)
    keep(store, run(2), Result(rows=[{"value": 2}]), {**TOLD, "machine": "another"})
    assert table.add(store) == 3
    for read in (table, Table(table.root)):
        kept = read.read(run(3))
        assert kept is not None
        assert (kept.rows, kept.settings, kept.provenance) == (result(3).rows, {"x": 3}, TOLD)
        assert kept.source == "committed"
        assert np.array_equal(kept.arrays["path"], np.arange(3.0))
        other = read.read(run(2))
        assert other is not None
        assert other.provenance["machine"] == "another"
        assert other.arrays == {}
        assert read.keys() == {run(x).id for x in (1, 2, 3)}
    lines = (table.root / "square.jsonl").read_text().splitlines()
    assert [f'"settings": {{"x": {x}}}' in line for x, line in zip((1, 2, 3), lines, strict=True)] == [True] * 3


def test_what_is_there_stays_and_the_same_runs_make_the_same_files(store: Store, table: Table, tmp_path: Path):
    keep(store, run(3), result(3), TOLD)
    table.add(store)
    before = {path.name: path.read_bytes() for path in table.root.iterdir()}
    other = Store(root=tmp_path / "other")
    keep(other, run(3), Result(rows=[{"value": -1}]), TOLD)
    assert table.add(other) == 0
    assert {path.name: path.read_bytes() for path in table.root.iterdir()} == before
    keep(other, run(5), result(5), TOLD)
    assert table.add(other) == 1
    again = Table(tmp_path / "again")
    keep(store, run(5), result(5), TOLD)
    again.add(store)
    assert [path.read_bytes() for path in sorted(again.root.iterdir())] == [
        path.read_bytes() for path in sorted(table.root.iterdir())
    ]


def test_another_version_is_another_run(store: Store, table: Table):
    keep(store, run(3), result(3), TOLD)
    table.add(store)
    assert table.read(run(3, kind=replace(SQUARE, version=2))) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"key": 1}', "nan"])
def test_a_damaged_line_is_named(store: Store, table: Table, text: str):
    keep(store, run(3), result(3), TOLD)
    table.add(store)
    path = table.root / "square.jsonl"
    path.write_text(path.read_text() + text + "\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*square\.jsonl is damaged"):
        Table(table.root).read(run(3))


def test_the_evidence_of_a_checkout_is_results():
    assert committed_table().root.parts[-2:] in (("results", "paper"), ("svrl", "committed"))


def test_every_committed_run_is_asked_for():
    asked = {run.id for experiment in load_all() for b in experiment.budgets.values() for run in b.runs}
    kept = committed_table().keys()
    assert kept
    assert kept <= asked
