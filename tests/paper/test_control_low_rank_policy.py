from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.paper.planning_cells import at_laptop, check_experiment, hand_made, kept, smoke_evidence, verdict_of

from svrl.paper.cell import Work
from svrl.paper.claim import Evidence
from svrl.paper.experiments.control import OPTIMUM, TASKS, judged_q, problem_of
from svrl.paper.experiments.control_low_rank_policy import EXPERIMENT, KIND, compute


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return smoke_evidence(EXPERIMENT, tmp_path_factory.mktemp("low-rank"))


def test_all_of_q_gives_the_optimal_policy(tmp_path: Path) -> None:
    settings = {**EXPERIMENT.budgets["smoke"].cells[1].settings, "observe": 1.0}
    row = compute(settings, Work(folder=tmp_path)).rows[0]
    assert row["policy_loss_relative"] < 1e-6
    assert row["mse"] < 1e-8


def test_the_judge_reads_the_q_that_it_is_given() -> None:
    problem = problem_of(EXPERIMENT.budgets["smoke"].cells[0].settings, "cpu")
    worst = -problem.q
    row, _ = judged_q(problem, worst, worst.argmax(1))
    assert row["policy_loss_relative"] > 0.05
    assert row["mse"] == pytest.approx(float((2 * problem.q).square().mean()))
    assert torch.equal(problem.judge.optimum.policy, problem.q.argmax(1))


def test_figures_words_and_claims(evidence: Evidence, tmp_path: Path) -> None:
    series = check_experiment(EXPERIMENT, evidence, tmp_path)
    assert series["fig8"] == {"low-rank-policy", "optimum"}
    assert series["fig9"] == {"optimum", "from-p-0-5-of-q"}
    for claim in EXPERIMENT.claims:
        assert claim.judged(at_laptop(evidence)).interval is not None


def made(**changes: Any) -> Evidence:
    best = {"metric": 1.0, "metric_name": "norm_rad"}
    row = {"metric": 1.05, "policy_loss_relative": 0.001, "same_end": 0.95, "input_gap": 0.01} | changes
    cells = [kept(OPTIMUM, [best], task=task) for task in TASKS]
    cells += [kept(KIND, [row], task=task, observe=0.5, seed=seed) for task in TASKS for seed in range(3)]
    return hand_made(cells)


@pytest.mark.parametrize(
    ("part", "bad"),
    [
        ("policy", {"policy_loss_relative": 0.02}),
        ("map", {"input_gap": 0.06}),
        ("metric", {"metric": 1.4}),
        ("ends", {"same_end": 0.5}),
    ],
)
def test_verdicts_go_both_ways(part: str, bad: dict[str, Any]) -> None:
    for task in TASKS:
        assert verdict_of(EXPERIMENT, f"{task}-low-rank-{part}", made()) == "reproduced"
        assert verdict_of(EXPERIMENT, f"{task}-low-rank-{part}", made(**bad)) == "not reproduced"
