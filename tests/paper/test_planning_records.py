"""What the settings of committed planning runs lead to, as digests.

If a test here fails, the same settings lead to another result than when the committed runs were computed: a default
of a method or of an estimator has changed. Raise the version of the Kind that it names; its committed runs must then
be computed again. Change the constant only together with that. The code behind a method is not pinned here.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from svrl.matrix import SoftImpute
from svrl.paper.experiments.control import OPTIMUM, PLANNED, method_of
from svrl.paper.experiments.control_discretisation import EXPERIMENT as DISCRETISATION
from svrl.paper.experiments.control_low_rank_policy import KIND as LOW_RANK
from svrl.paper.experiments.control_svp import EXPERIMENT as SVP
from svrl.paper.experiments.noisy_simulator import EXPERIMENT as NOISY
from svrl.paper.experiments.noisy_simulator import KIND as NOISY_PLAN
from svrl.paper.experiments.noisy_simulator import method_of as noisy_method_of
from svrl.paper.experiments.toy_rank import KIND as TOY
from svrl.planning.policy import low_rank_policy
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.svp import paper_svp
from svrl.planning.value_iteration import ValueIteration

VERSIONS = {OPTIMUM.name: 1, PLANNED.name: 1, LOW_RANK.name: 1, NOISY_PLAN.name: 1, TOY.name: 1}
"""Of the kinds when the digests below were taken."""
PLANNED_METHODS = {
    "async": "955441487c1cadf8",
    "coarse": "3aa8fec92ce29a1d",
    "cross": "b3d4545202102490",
    "incumbent": "4173cec644d1e13a",
    "paper-svp": "80792f837d4dbf74",
    "row-mean-update": "7fcfeffb4a895cf8",
    "sampled-max": "2ccfc4da5544f7e7",
    "svp": "f91f8624d5faf716",
}
NOISY_METHODS = {
    "averaged": "19c5221aeba34110",
    "averaged-svp": "7cb811a25608e06e",
    "averaged-svp, fixed rank": "29c048ef576f4651",
    "incumbent": "4d65e05e8bfe553f",
    "value-iteration": "e2b256a8624ff4c4",
}
OTHERS = {
    "vanilla": "5b1b98b1ca7a5eb7",
    "exact": "5b67e42dd138b56e",
    "toy": "334b66d26c2f4cb0",
    "low-rank policy": "85dd575543cc9277",
}
ESTIMATOR = SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill")
"""Of policies from a part of Q*."""


def digest(method: Any) -> str:
    return hashlib.sha256(repr(method).encode()).hexdigest()[:16]


def test_digests_are_of_these_versions() -> None:
    assert {kind.name: kind.version for kind in (OPTIMUM, PLANNED, LOW_RANK, NOISY_PLAN, TOY)} == VERSIONS


def test_methods_of_control_plans() -> None:
    runs = [
        run for experiment in (SVP, DISCRETISATION) for budget in experiment.budgets.values() for run in budget.runs
    ]
    names = {run.settings["method"] for run in runs if run.kind is PLANNED}
    assert {name: digest(method_of(name, 0.2, 7)) for name in sorted(names)} == PLANNED_METHODS


def test_methods_of_noisy_plans() -> None:
    runs = [run for budget in NOISY.budgets.values() for run in budget.runs]
    found = {}
    for name, fixed in sorted({(run.settings["method"], run.settings["rank"] is not None) for run in runs}):
        settings = {"samples": 1, "p": 0.5, "challengers": 3, "rank": 5 if fixed else None, "iterations": 7}
        found[f"{name}, fixed rank" if fixed else name] = digest(noisy_method_of({**settings, "method": name}))
    assert found == NOISY_METHODS


def test_methods_of_optima_and_of_the_toy() -> None:
    found = {
        "vanilla": digest(ValueIteration(stop="authors")),
        "exact": digest(ModifiedPolicyIteration(tolerance=1e-6)),
        "toy": digest(paper_svp(p=0.5, max_iterations=40)),
        "low-rank policy": digest(ESTIMATOR),
    }
    assert found == OTHERS


def test_the_estimator_of_policies_from_a_part_of_q() -> None:
    q = torch.rand(30, 20, generator=torch.Generator().manual_seed(0))
    found, expected = (
        low_rank_policy(q, torch.Generator().manual_seed(1), p=0.5, estimator=estimator).q
        for estimator in (None, ESTIMATOR)
    )
    assert torch.equal(found, expected)
