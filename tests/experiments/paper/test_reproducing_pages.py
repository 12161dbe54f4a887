"""docs/reproducing says what the committed cells say: `make reproducing` writes it again."""

from __future__ import annotations

from pathlib import Path

from svrl.experiments.paper.catalogue import load_all
from svrl.experiments.paper.judging import Library
from svrl.experiments.paper.table import committed_table

PAGES = Path(__file__).parents[3] / "docs" / "reproducing"
LIBRARY = Library(tuple(load_all()), (committed_table(),))


def test_every_experiment_has_a_page():
    assert {path.stem for path in PAGES.glob("*.md")} == {found.name for found in LIBRARY.experiments} | {"index"}


def test_verdicts_on_the_pages_are_those_of_the_committed_cells():
    text = {path.stem: path.read_text() for path in PAGES.glob("*.md")}
    for found in LIBRARY.judge("full"):
        _, _, part = text[found.experiment].partition(f"### {found.claim.name}\n")
        assert f"**{found.finding.verdict}**" in part.split("###")[0], found.claim.name


def test_every_committed_cell_is_asked_for():
    asked = {cell.key for experiment in LIBRARY.experiments for b in experiment.budgets.values() for cell in b.cells}
    kept = committed_table().keys()
    assert kept
    assert kept <= asked


def test_the_index_says_which_claims_come_from_smaller_budgets():
    found = [one for one in LIBRARY.judge("full") if one.evidence and one.finding.ours]
    (told,) = [line for line in (PAGES / "index.md").read_text().splitlines() if line.startswith("Where not all of")]
    for scale in ("laptop", "short"):
        count = sum(one.scale == scale for one in found)
        assert count
        assert f"{count} at {scale} scale" in told
    assert "full" not in told
