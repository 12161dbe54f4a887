"""A plan's Q in three kinds of files, with an error that holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from svrl.integrations.plan_files import load_q, save_q
from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.mdp.toy import toy_mdp
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import evaluate_policy, solve_exactly
from svrl.planning.plan import Plan, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.structured import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration

MODEL = GridMDP(make_task("double-integrator", states=(9, 9), actions=8))
ENDINGS = ("npy", "npz", "safetensors")
METHODS = {
    "dense": StructuredValueIteration(observe=0.7, max_iterations=15),
    "factors": CrossValueIteration(rank=4, max_iterations=15),
    "values": ValueIteration(tolerance=1e-2),
}


@pytest.fixture(scope="module", params=METHODS)
def found(request: pytest.FixtureRequest) -> Plan:
    return plan(MODEL, METHODS[request.param], seed=3)


def whole(found: Plan) -> np.ndarray:
    """Its Q (S, A), by hand."""
    if found.factors is not None:
        return (found.factors[0] @ found.factors[1]).numpy()
    return (MODEL.backup(found.v) if found.q is None else found.q).numpy()


def rounding(found: Plan) -> np.ndarray | float:
    """How far two products of its factors (S, A) may be apart; nothing where it kept no factors.

    A file's factors are multiplied by NumPy and a plan's by torch. Each brings its own BLAS, and on some CPUs the two
    sum in another order: each is off by at most rank units in the last place of the sum of absolute terms.
    """
    if found.factors is None:
        return 0.0
    left, right = (part.abs().numpy() for part in found.factors)
    return right.shape[0] * np.finfo(left.dtype).eps * (left @ right)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_round_trip_is_exact(found: Plan, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"q.{ending}"
    save_q(found, path, model=MODEL)
    back = load_q(path)
    assert bool((np.abs(back.matrix - whole(found)) <= rounding(found)).all())
    assert back.matrix.dtype == whole(found).dtype
    assert list(tmp_path.iterdir()) == [path]
    if ending == "npy":
        np.testing.assert_array_equal(np.load(path), back.matrix)
        assert back.v is back.policy is back.outcome is back.discount is None
        return
    assert (back.factors is None) == (found.factors is None)
    for kept, given in zip(back.factors or (), found.factors or (), strict=True):
        np.testing.assert_array_equal(kept, given)
    assert back.v is not None
    assert back.policy is not None
    np.testing.assert_array_equal(back.v, found.v)
    np.testing.assert_array_equal(back.policy, found.policy)
    assert (back.method, back.outcome, back.discount) == (found.method, found.outcome, MODEL.discount)


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_the_certified_error_holds(found: Plan, ending: str, tmp_path: Path) -> None:
    save_q(found, tmp_path / f"q.{ending}", model=MODEL)
    back = load_q(tmp_path / f"q.{ending}")
    best, _ = solve_exactly(MODEL)
    error = np.abs(back.matrix - MODEL.backup(best).numpy()).max()
    assert back.certified_error is not None
    assert error <= back.certified_error + 1e-9
    assert back.loss_bound is not None
    lost = float((best - evaluate_policy(MODEL, found.policy)).max())
    assert lost <= back.loss_bound + 1e-8


def test_the_certified_error_is_close_where_the_plan_is(tmp_path: Path) -> None:
    exact = plan(MODEL, ModifiedPolicyIteration(tolerance=1e-9))
    save_q(exact, tmp_path / "q.npz", model=MODEL)
    assert (load_q(tmp_path / "q.npz").certified_error or 1.0) < 1e-6


def test_without_the_model_nothing_is_certified(tmp_path: Path) -> None:
    dense = plan(MODEL, METHODS["dense"])
    save_q(dense, tmp_path / "q.npz")
    assert load_q(tmp_path / "q.npz").certified_error is None
    with pytest.raises(ValueError, match="kept values only"):
        save_q(plan(MODEL, METHODS["values"]), tmp_path / "v.npz")
    dense.q[0, 0] = np.nan  # type: ignore[index]
    save_q(dense, tmp_path / "q.npz", model=MODEL)
    back = load_q(tmp_path / "q.npz")
    assert back.certified_error is None
    assert back.loss_bound is not None


def test_what_is_no_plan_gets_one_sentence(tmp_path: Path) -> None:
    dense = plan(MODEL, METHODS["dense"])
    with pytest.raises(ValueError, match="the plan first and then the file"):
        save_q(str(tmp_path / "q.npy"), dense)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"writes a Plan, got Tensor\. Save a matrix of your own with numpy\.save"):
        save_q(dense.q, tmp_path / "q.npy")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = toy_mdp(0, n_states=20, n_actions=6)
    made = plan(model, CrossValueIteration(rank=3, max_iterations=3))
    save_q(made, tmp_path / "q.safetensors")
    tensors = safetensors.load_file(tmp_path / "q.safetensors")
    assert sorted(tensors) == ["left", "policy", "right", "v"]
    assert made.factors is not None
    assert torch.equal(tensors["right"], made.factors[1])
    safetensors.save_file({"q": torch.ones(3, 2)}, tmp_path / "theirs.safetensors")
    back = load_q(tmp_path / "theirs.safetensors")
    assert back.matrix.tolist() == [[1.0, 1.0]] * 3
    assert back.outcome is None


def test_files_that_hold_no_q_get_one_sentence(tmp_path: Path) -> None:
    dense = plan(MODEL, METHODS["dense"])
    for ending in ENDINGS:
        path = tmp_path / f"q.{ending}"
        save_q(dense, path)
        content = path.read_bytes()
        for broken in (b"", content[: len(content) // 2], b"something else"):
            path.write_bytes(broken)
            with pytest.raises(ValueError, match=rf"is damaged, or no \.{ending} file"):
                load_q(path)
    np.savez(tmp_path / "q.npz", left=np.ones((2, 2)))
    with pytest.raises(ValueError, match="holds left, and no matrix q"):
        load_q(tmp_path / "q.npz")
    np.save(tmp_path / "q.npy", np.ones(3))
    with pytest.raises(ValueError, match="no matrix q"):
        load_q(tmp_path / "q.npy")
    np.save(tmp_path / "q.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="is damaged"):
        load_q(tmp_path / "q.npy")
    for call in (lambda: save_q(dense, tmp_path / "q.csv"), lambda: load_q(tmp_path / "q.csv")):
        with pytest.raises(ValueError, match=r"ends in \.npy, \.npz, \.safetensors, got 'q\.csv'"):
            call()
    with pytest.raises(FileNotFoundError):
        load_q(tmp_path / "none.npz")
