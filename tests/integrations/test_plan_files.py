"""A plan's Q in a file, with an error that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from svrl.integrations.plan_files import load_q, save_q
from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import evaluate_policy, solve_exactly
from svrl.planning.plan import Plan, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.structured import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration

MODEL = GridMDP(make_task("double-integrator", states=(9, 9), actions=8))
METHODS = {
    "dense": StructuredValueIteration(observe=0.7, max_iterations=15),
    "factors": CrossValueIteration(rank=4, max_iterations=15),
    "values": ValueIteration(tolerance=1e-2),
}


@pytest.fixture(scope="module", params=METHODS)
def found(request: pytest.FixtureRequest) -> Plan:
    return plan(MODEL, METHODS[request.param], seed=3)


def test_a_round_trip_is_exact_and_its_certified_error_holds(found: Plan, tmp_path: Path) -> None:
    path = tmp_path / "q.npz"
    save_q(found, path, model=MODEL)
    assert list(tmp_path.iterdir()) == [path]
    back = load_q(path)
    if found.factors is None:
        np.testing.assert_array_equal(back.matrix, MODEL.backup(found.v) if found.q is None else found.q)
    else:
        for kept, given in zip(back.factors or (), found.factors, strict=True):
            np.testing.assert_array_equal(kept, given)
        np.testing.assert_array_equal(back.matrix, back.factors[0] @ back.factors[1])  # type: ignore[index]
    np.testing.assert_array_equal(back.v, found.v)  # type: ignore[arg-type]
    np.testing.assert_array_equal(back.policy, found.policy)  # type: ignore[arg-type]
    assert (back.method, back.outcome, back.discount) == (found.method, found.outcome, MODEL.discount)
    best, _ = solve_exactly(MODEL)
    assert back.certified_error is not None
    assert np.abs(back.matrix - MODEL.backup(best).numpy()).max() <= back.certified_error + 1e-9
    assert back.loss_bound is not None
    assert float((best - evaluate_policy(MODEL, found.policy)).max()) <= back.loss_bound + 1e-8


def test_the_certified_error_is_close_where_the_plan_is(tmp_path: Path) -> None:
    exact = plan(MODEL, ModifiedPolicyIteration(tolerance=1e-9))
    save_q(exact, tmp_path / "q.npz", model=MODEL)
    assert (load_q(tmp_path / "q.npz").certified_error or 1.0) < 1e-6


def test_without_the_model_nothing_is_certified(tmp_path: Path) -> None:
    dense = plan(MODEL, METHODS["dense"])
    save_q(dense, tmp_path / "q.npz")
    assert load_q(tmp_path / "q.npz").certified_error is None
    dense.q[0, 0] = np.nan  # type: ignore[index]
    save_q(dense, tmp_path / "q.npz", model=MODEL)
    back = load_q(tmp_path / "q.npz")
    assert back.certified_error is None
    assert back.loss_bound is not None


def test_what_is_no_plan_and_no_file_of_q_gets_one_sentence(tmp_path: Path) -> None:
    dense, path = plan(MODEL, METHODS["dense"]), tmp_path / "q.npz"
    for call, sentence in (
        (lambda: save_q(dense.q, path), "writes a Plan, got Tensor"),  # type: ignore[arg-type]
        (lambda: save_q(plan(MODEL, METHODS["values"]), path), "kept values only"),
        (lambda: save_q(dense, tmp_path / "q.csv"), r"ends in \.npz, got 'q\.csv'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert list(tmp_path.iterdir()) == []
    for arrays, sentence in (({"q": np.ones(3)}, "holds q, and was not written"), ({"q": np.array([{}])}, "damaged")):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=sentence):
            load_q(path)
