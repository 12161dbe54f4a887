"""A plan's Q in a file, with an error that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from svrl.integrations.plan_files import save_q
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import make_task
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import evaluate_policy
from svrl.planning.plan import Plan, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration, solve_exactly
from svrl.planning.svp import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration

MODEL = GridMDP(make_task("double-integrator", states=(9, 9), actions=8))
METHODS = {
    "dense": StructuredValueIteration(p=0.7, max_iterations=15),
    "factors": CrossValueIteration(rank=4, max_iterations=15),
    "values": ValueIteration(tolerance=1e-2),
}


@pytest.fixture(scope="module", params=METHODS)
def found(request: pytest.FixtureRequest) -> Plan:
    return plan(MODEL, METHODS[request.param], seed=3)


def test_numpy_reads_what_was_planned_and_the_certified_error_holds(found: Plan, tmp_path: Path) -> None:
    save_q(found, tmp_path / "q.npz", model=MODEL)
    back = np.load(tmp_path / "q.npz")
    q = MODEL.backup(found.v) if found.q is None else found.q
    if found.factors is not None:
        for name, factor in zip(("left", "right"), found.factors, strict=True):
            np.testing.assert_array_equal(back[name], factor)
        q = back["left"] @ back["right"].T
    else:
        np.testing.assert_array_equal(back["q"], q)
    np.testing.assert_array_equal(back["v"], found.v)
    np.testing.assert_array_equal(back["policy"], found.policy)
    assert (str(back["method"]), str(back["outcome"])) == (found.method, found.outcome)
    assert back["gamma"] == MODEL.gamma
    best, _ = solve_exactly(MODEL)
    assert np.abs(np.asarray(q) - MODEL.backup(best).numpy()).max() <= back["certified_error"] + 1e-9
    assert float((best - evaluate_policy(MODEL, found.policy)).max()) <= back["loss_bound"] + 1e-8


def test_the_certified_error_is_close_where_the_plan_is(tmp_path: Path) -> None:
    exact = plan(MODEL, ModifiedPolicyIteration(tolerance=1e-9))
    save_q(exact, tmp_path / "q.npz", model=MODEL)
    assert np.load(tmp_path / "q.npz")["certified_error"] < 1e-6


def test_nothing_is_certified_without_a_model_or_of_entries_that_were_never_seen(tmp_path: Path) -> None:
    dense = plan(MODEL, METHODS["dense"])
    save_q(dense, tmp_path / "q.npz")
    assert not {"certified_error", "loss_bound"} & set(np.load(tmp_path / "q.npz"))
    dense.q[0, 0] = np.nan  # type: ignore[index]
    save_q(dense, tmp_path / "q.npz", model=MODEL)
    assert {"certified_error", "loss_bound"} & set(np.load(tmp_path / "q.npz")) == {"loss_bound"}


def test_what_is_no_plan_with_a_q_gets_one_sentence(tmp_path: Path) -> None:
    dense, path = plan(MODEL, METHODS["dense"]), tmp_path / "q.npz"
    for call, sentence in (
        (lambda: save_q(dense.q, path), "writes a Plan, got Tensor"),  # type: ignore[arg-type]
        (lambda: save_q(plan(MODEL, METHODS["values"]), path), "kept values only"),
        (lambda: save_q(dense, tmp_path / "q.csv"), r"ends in \.npz, got 'q\.csv'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert list(tmp_path.iterdir()) == []
