from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.paper.planning_cells import (
    at_laptop,
    check_experiment,
    finding_of,
    hand_made,
    kept,
    smoke_evidence,
    verdict_of,
)

from svrl.paper.claim import Evidence
from svrl.paper.experiments.control import OPTIMUM, PLANNED
from svrl.paper.experiments.control_discretisation import EXPERIMENT, FINE, MIDDLE, PRINTED, STARTS_KIND
from svrl.paper.experiments.control_svp import EXPERIMENT as SVP


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return smoke_evidence(EXPERIMENT, tmp_path_factory.mktemp("grids"))


@pytest.mark.parametrize("scale", ["smoke", "laptop", "full"])
def test_the_middle_grid_is_computed_once_for_both_experiments(scale: str) -> None:
    shared = {cell.key for cell in EXPERIMENT.budgets[scale].cells} & {cell.key for cell in SVP.budgets[scale].cells}
    masks = {"smoke": 2, "laptop": 3, "full": 5}[scale]
    beside = 2 * (1 if scale == "smoke" else masks)
    assert len(shared) == 2 * (1 + masks) + beside


def test_figures_and_words(evidence: Evidence, tmp_path: Path) -> None:
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert series["table1"] == {"ours-paper-s-variant", "ours-authors-variant"}
    for name in ("rank-stays-low-on-every-grid", "svp-is-nearly-optimal-on-every-grid"):
        assert verdict_of(EXPERIMENT, name, at_laptop(evidence)) != "not run at this scale"


def made(*, rank: str = "rank_tight", scale: float = 1.0, degrees: float = 9.0, loss: float = 0.001) -> Evidence:
    """The paper's own numbers, times `scale`, as norms; ranks under the name of one definition."""
    cells = []
    for (points, actions), (ranks, best, svp) in PRINTED.items():
        for variant in ("paper", "authors"):
            where: dict[str, Any] = {"task": "inverted-pendulum", "states": [points, points], "actions": actions}
            row = {"rank_99": 1, "rank_tight": 99, "metric": scale * best, "mean_degrees": degrees * best} | {
                rank: ranks
            }
            cells.append(kept(OPTIMUM, [row], **where, variant=variant))
            sets = [
                {"start_seed": k, "metric": scale * best * near, "mean_degrees": degrees * best * near}
                for k, near in enumerate((0.95, 1.0, 1.05))
            ]
            cells.append(kept(STARTS_KIND, sets, **where, variant=variant))
            plan = {
                "metric": scale * svp,
                "mean_degrees": degrees * svp,
                "policy_loss_relative": loss,
                "input_gap": 0.0,
            }
            cells += [
                kept(PLANNED, [plan], **where, variant=variant, method="paper-svp", seed=seed) for seed in range(3)
            ]
    return hand_made(cells)


def test_the_papers_own_table_is_reproduced_as_norms(tmp_path: Path) -> None:
    evidence = made()
    numbers = [claim for claim in EXPERIMENT.claims if claim.paper[0].isdigit() and "-at-" in claim.name]
    assert len(numbers) == 9
    for claim in numbers:
        assert claim.judged(evidence).verdict == "reproduced under another definition"
    path = tmp_path / "table.svg"
    EXPERIMENT.draw("table1", evidence).savefig(path)
    assert "series--the-paper" in path.read_text()


def test_other_branches() -> None:
    stated, off = made(rank="rank_99", degrees=1.0), made(rank="rank_99_none", scale=2.0, loss=0.1)
    for claim in EXPERIMENT.claims:
        assert claim.judged(stated).verdict == "reproduced"
        if claim.name not in ("rank-stays-low-on-every-grid", "rank-is-similar-on-fine-grids"):
            assert claim.judged(off).verdict == "not reproduced"


def test_the_finest_grid_is_judged_at_full_scale_only() -> None:
    size = f"{FINE[0] ** 2}x{FINE[1]}"
    assert {claim.scales for claim in EXPERIMENT.claims if claim.name.endswith(size)} == {("full",)}


def test_the_first_set_of_starts_is_the_one_of_the_optimum(evidence: Evidence) -> None:
    cells = evidence.where(STARTS_KIND.name)
    assert len(cells) == 4
    for cell in cells:
        where = {name: cell.settings[name] for name in ("variant", "states", "actions")}
        best = evidence.only(OPTIMUM.name, **where).rows[0]
        first, second = cell.rows
        assert (first["metric"], first["mean_degrees"]) == (best["metric"], best["mean_degrees"])
        assert second["metric"] != first["metric"]


def test_the_optimum_has_an_interval_over_sets_of_starts() -> None:
    found = finding_of(EXPERIMENT, "optimum-at-2500x1000", made())
    assert found.value == pytest.approx(0.53)
    half = 4.302653 * 0.05 * 0.53 / 3**0.5
    assert found.interval == pytest.approx((0.53 - half, 0.53 + half), rel=1e-5)


@pytest.mark.parametrize(
    ("paper", "authors", "verdict"),
    [
        (9, 8, "reproduced"),
        (10, 8, "reproduced under another definition"),
        (10, 11, "not reproduced"),
    ],
)
def test_ranks_of_fine_grids_are_compared_in_both_variants(paper: int, authors: int, verdict: str) -> None:
    cells = []
    for (points, actions), ranks in {MIDDLE: (7, 7), FINE: (paper, authors)}.items():
        for variant, rank in zip(("paper", "authors"), ranks, strict=True):
            where = {"task": "inverted-pendulum", "states": [points, points], "actions": actions, "variant": variant}
            cells.append(kept(OPTIMUM, [{"rank_99": 1, "rank_tight": rank}], **where))
    assert verdict_of(EXPERIMENT, "rank-is-similar-on-fine-grids", hand_made(cells)) == verdict
