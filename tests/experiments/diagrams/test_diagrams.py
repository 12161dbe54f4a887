from __future__ import annotations

from pathlib import Path

import pytest
from tests.experiments.planning_cells import check_experiment, hand_made, kept, smoke_evidence, verdict_of

from svrl.experiments.diagrams import EXPERIMENT
from svrl.experiments.diagrams.run import BACKUPS, DROP_IN
from svrl.experiments.diagrams.settings import SHARES
from svrl.experiments.paper.evidence import Evidence


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return smoke_evidence(EXPERIMENT, tmp_path_factory.mktemp("diagrams"))


def test_figures_and_words(evidence: Evidence, tmp_path: Path) -> None:
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert series["fig2"] == {"whole-matrix", "observed", "backups", "matrix-estimation"}
    assert series["fig5"] == {"value-based-rl", "sv-rl", "matrix-estimation"}


def test_every_claim_is_judged_and_holds_at_smoke(evidence: Evidence) -> None:
    for claim in EXPERIMENT.claims:
        assert claim.judged(evidence).verdict == "reproduced"


def test_weights_move_when_something_is_left_out(evidence: Evidence) -> None:
    for row in evidence.rows(DROP_IN.name):
        assert row["identical"] == (row["observe"] == 1.0)
        assert (row["largest_difference"] == 0.0) == row["identical"]
        assert row["weights"] > 100


def test_wrong_counts_and_other_weights_are_not_reproduced() -> None:
    counts = [
        kept(BACKUPS, [{"iteration": t, "share": share + 0.05 + 0.001 * t} for t in range(5)], observe=share, seed=0)
        for share in SHARES
    ]
    other = [
        kept(DROP_IN, [{"identical": False, "largest_difference": 1.0, "weights": 9}], observe=share, steps=3)
        for share in (1.0, 0.9)
    ]
    evidence = hand_made([*counts, *other])
    for claim in EXPERIMENT.claims:
        assert verdict_of(EXPERIMENT, claim.name, evidence) == "not reproduced"
