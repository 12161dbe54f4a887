from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.paper.planning_cells import at_laptop, check_experiment, hand_made, kept, smoke_evidence, verdict_of

from svrl.paper.cell import Work
from svrl.paper.claim import Evidence
from svrl.paper.experiments.toy_rank import EXPERIMENT, KIND, ONLINE, VANILLA, compute


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return smoke_evidence(EXPERIMENT, tmp_path_factory.mktemp("toy"))


def test_value_iteration_contracts_by_the_discount_at_every_step(evidence: Evidence) -> None:
    for cell in evidence.where(KIND.name, method=VANILLA):
        errors = [row["mse"] for row in cell.rows if row["t"] is not None]
        assert len(errors) == 41
        # Root mean squares contract like the largest error only up to its spread, which is small here.
        assert all(after < 0.95**2 * 1.05 * before for before, after in pairwise(errors[1:]))


def test_both_methods_start_from_the_same_q(evidence: Evidence) -> None:
    first = [cell.rows[0] for cell in evidence.where(KIND.name, reward="uniform", seed=0)]
    assert len(first) == 2
    assert first[0] == first[1]


def test_reconstruction_counts_half_of_the_pairs(evidence: Evidence) -> None:
    for cell in evidence.where(KIND.name, method=ONLINE):
        share = cell.rows[40]["backups"] / (40 * cell.settings["states"] * cell.settings["actions"])
        assert share == pytest.approx(0.5, abs=0.01)


def test_a_cell_is_the_same_twice(tmp_path: Path) -> None:
    cell = EXPERIMENT.budgets["smoke"].cells[2]
    assert compute(cell.settings, Work(folder=tmp_path)) == compute(cell.settings, Work(folder=tmp_path))


def test_figure_words_and_claims(evidence: Evidence, tmp_path: Path) -> None:
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert {"99-of-the-energy", "n-0-1-rewards"} <= series["fig1"]
    for claim in EXPERIMENT.claims:
        assert claim.judged(at_laptop(evidence)).interval is not None


def made(rank_at: list[int], ours: float, backups: int) -> Evidence:
    """Two seeds of every reward and method; value iteration ends at an error of 1."""
    cells = []
    for reward in ("uniform", "normal"):
        for method in (VANILLA, ONLINE):
            for seed in (0, 1):
                last = 1.0 if method == VANILLA else ours + 0.001 * seed
                counted = 100 if method == VANILLA else backups
                rows: list[dict[str, Any]] = [
                    {"t": t, "rank_99": rank, "rank_99_centred": 9, "mse": last, "backups": counted}
                    for t, rank in enumerate(rank_at)
                ]
                rows.append({"t": None, "rank_99": rank_at[-1], "rank_99_centred": 9, "mse": 0.0, "backups": None})
                cells.append(kept(KIND, rows, reward=reward, method=method, seed=seed))
    return hand_made(cells)


def test_one_high_rank_late_on_the_path_is_enough_against_low_rank() -> None:
    name = "toy-rank-stays-low-under-reconstruction"
    assert verdict_of(EXPERIMENT, name, made([50] * 10 + 31 * [1], 1.5, 50)) == "reproduced"
    assert verdict_of(EXPERIMENT, name, made([50] + 29 * [1] + [50] + 10 * [1], 1.5, 50)) == "not reproduced"


def test_verdicts_go_both_ways() -> None:
    good, bad = made([50, 1] + 39 * [1], 1.5, 50), made([50] + 40 * [50], 3.0, 60)
    for claim in EXPERIMENT.claims:
        assert verdict_of(EXPERIMENT, claim.name, good) == "reproduced"
        assert verdict_of(EXPERIMENT, claim.name, bad) == "not reproduced"
