from __future__ import annotations

from pathlib import Path

import pytest
from tests.paper.planning_cells import at_laptop, check_experiment, hand_made, kept, smoke_evidence, verdict_of

from svrl.paper.cell import Work
from svrl.paper.claim import Evidence
from svrl.paper.experiments.noisy_simulator import EXPERIMENT, KIND, compute, method_of

COMMON = {"samples": 1, "observe": 1.0, "challengers": None, "rank": None}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return smoke_evidence(EXPERIMENT, tmp_path_factory.mktemp("noise"))


def test_without_noise_the_average_finds_the_optimum(tmp_path: Path) -> None:
    settings = {
        **COMMON,
        "states": [9, 9],
        "levels": 3,
        "iterations": 400,
        "method": "averaged",
        "sigma": 0.0,
        "seed": 0,
    }
    assert compute(settings, Work(folder=tmp_path)).rows[0]["loss"] < 0.02


def test_all_methods_draw_equally_many_samples(evidence: Evidence) -> None:
    for row in evidence.rows(KIND.name, observe=1.0):
        # The incumbent averages whole numbers of samples of its few pairs: at most one action's worth is left over.
        # averaged-svp makes whole iterations, and of 12 at 27 actions 10 are paid for.
        assert row["iterations"] * 0.8 <= row["sweep_equivalents"] <= row["iterations"] * 1.0001


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="no noisy method 'svp'"):
        method_of({"method": "svp", "iterations": 3})


def test_figure_words_and_claims(evidence: Evidence, tmp_path: Path) -> None:
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert {"structured-average-ours", "plain-average", "incumbent-3", "noise-0-3"} <= series["noise"]
    for claim in EXPERIMENT.claims:
        assert claim.judged(at_laptop(evidence)).interval is not None


def made(ours: float) -> Evidence:
    cells = []
    for sigma in (0.1, 0.3, 1.0):
        for seed in (0, 1, 2):
            for method, loss in (("averaged-svp", ours), ("averaged", 0.1), ("value-iteration", 0.3)):
                settings = {**COMMON, "sigma": sigma, "seed": seed, "method": method}
                cells.append(kept(KIND, [{"loss": loss * (1 + 0.01 * seed)}], **settings))
    return hand_made(cells)


def test_verdicts_go_both_ways() -> None:
    for claim in EXPERIMENT.claims:
        assert verdict_of(EXPERIMENT, claim.name, made(0.02)) == "reproduced"
        assert claim.judged(made(0.02)).ours.startswith("5.0 times")
        assert verdict_of(EXPERIMENT, claim.name, made(0.12)) == "not reproduced"
