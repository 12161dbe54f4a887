from __future__ import annotations

from pathlib import Path

from tests.paper.planning_cells import check_experiment

from svrl.paper.experiments.diagrams import EXPERIMENT


def test_diagrams_are_drawn_from_nothing(tmp_path: Path) -> None:
    evidence = EXPERIMENT.evidence("smoke", ())
    assert evidence is not None
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert series["fig2"] == {"whole-matrix", "observed", "backups", "matrix-estimation"}
    assert series["fig5"] == {"value-based-rl", "sv-rl", "matrix-estimation"}
