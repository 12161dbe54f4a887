from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svrl.mdp.tabular import TabularMDP

from .tables import brute, csr, kinds, random_table, torch_csr, values


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.filterwarnings("error")
def test_every_kind_of_input_gives_the_backups_of_a_double_loop(kind: str):
    p, r = random_table(1)
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.9)
    v = values(2, 7)
    expected = brute(p, r, 0.9, v.numpy())
    assert np.abs(mdp.backup(v).numpy() - expected).max() < 1e-12
    states, actions = torch.tensor([3, 0, 6, 3]), torch.tensor([1, 2, 0, 1])
    assert np.abs(mdp.backup_at(v, states, actions).numpy() - expected[states, actions]).max() < 1e-12
    assert np.abs(mdp.backup_rows(v, states).numpy() - expected[states]).max() < 1e-12
    assert np.abs(mdp.backup_columns(v, torch.tensor([2, 0])).numpy() - expected[:, [2, 0]]).max() < 1e-12
    best, action = mdp.improve(v)
    assert np.abs(best.numpy() - expected.max(1)).max() < 1e-12
    assert action.tolist() == expected.argmax(1).tolist()
    assert mdp.reward_range == pytest.approx(((p * r).sum(2).min(), (p * r).sum(2).max()), abs=1e-12)


def test_a_transition_without_a_stored_reward_pays_nothing():
    p, r = random_table(2, share=0.9)
    r *= np.random.default_rng(0).random(r.shape) < 0.3
    sparse = TabularMDP(transitions=csr(p), rewards=csr(r), gamma=0.9)
    assert csr(r).nnz < csr(p).nnz
    assert np.abs(sparse.backup(values(2, 7)).numpy() - brute(p, r, 0.9, values(2, 7).numpy())).max() < 1e-12


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_scipy_and_torch_matrices_are_shared(index: type, number: type):
    p, r = random_table(3)
    matrix = csr(p, index).astype(number)
    for source in (matrix, torch_csr(matrix)):
        mdp = TabularMDP(transitions=source, rewards=r, gamma=0.9)
        for ours, theirs in zip(mdp._csr, (matrix.indptr, matrix.indices, matrix.data), strict=True):
            assert np.shares_memory(ours.numpy(), theirs)


def test_the_caller_sees_what_is_shared():
    p = np.array([[[0.25, 0.75]], [[0.0, 1.0]]])
    matrix = csr(p)
    mdp = TabularMDP(transitions=matrix, rewards=np.zeros((2, 1)), gamma=0.5)
    matrix.data[:2] = [1.0, 0.0]
    assert float(mdp.backup(torch.tensor([4.0, 0.0]))[0, 0]) == 2.0


def test_whole_numbers_and_float32_are_probabilities_too():
    following = np.array([[1, 0], [1, 1]])
    p = np.eye(2, dtype=np.int64)[following]
    mdps = [
        TabularMDP(transitions=t, rewards=np.array([[1, 2], [3, 4]]), gamma=0.5)
        for t in (p, csr(p), torch_csr(csr(p)), p.astype(np.float32))
    ]
    mdps.append(TabularMDP.deterministic(following=torch.tensor(following), rewards=[[1, 2], [3, 4]], gamma=0.5))
    for mdp in mdps:
        assert mdp.backup(torch.tensor([10.0, 20.0])).tolist() == [[11.0, 7.0], [13.0, 14.0]]


def test_impossible_transitions_may_have_any_reward():
    p, r = random_table(4)
    mdp = TabularMDP(transitions=p, rewards=np.where(p > 0, r, -np.inf), gamma=0.9)
    assert torch.equal(mdp.backup(values(1, 7)), TabularMDP(transitions=p, rewards=r, gamma=0.9).backup(values(1, 7)))


def spoilt(what: str) -> tuple[sp.csr_array, np.ndarray]:
    """A table whose row 5 (state 2, action 1 of 2 actions) is wrong, and row 7 too: only the first is named."""
    p, r = random_table(12, n_states=5, n_actions=2)
    matrix, reward = csr(p), (p * r).sum(2)
    for row in (5, 7):
        at = matrix.indptr[row]
        if what == "bounds":
            matrix.indptr[row] = 99
        elif what == "index":
            matrix.indices[at] = 5
        elif what == "before":
            matrix.indices[at] = -1
        elif what == "reward":
            reward.reshape(-1)[row] = np.inf
        else:
            matrix.data[at] = {"negative": -0.1, "nan": np.nan, "infinite": np.inf, "sum": 1.5}[what]
    return matrix, reward


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("negative", "probability of state 2, action 1 is -0.1"),
        ("nan", "probability of state 2, action 1 is nan"),
        ("infinite", "probability of state 2, action 1 is inf"),
        ("index", "next state of state 2, action 1 is 5, but states are numbered from 0 to 4"),
        ("before", "next state of state 2, action 1 is -1"),
        ("reward", "reward of state 2, action 1 is inf"),
        ("sum", r"state 2, action 1 sum to \d\.\d+, which is not 1 within 1e-06"),
        ("bounds", "bounds of the transitions are broken at state 2, action 0"),  # row 4 ends where row 5 begins
    ],
)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_first_wrong_pair_is_named(what: str, message: str, index: type):
    matrix, reward = spoilt(what)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    with pytest.raises(ValueError, match=message):
        TabularMDP(transitions=matrix, rewards=reward, gamma=0.9)


@pytest.mark.parametrize("form", ["dense", "list", "same CSR", "other CSR"])
def test_the_first_reward_of_a_transition_that_is_not_finite_is_named(form: str):
    p, r = random_table(13, n_states=5, n_actions=2)
    at = np.argwhere(p > 0)
    state, action, following = at[len(at) // 2]
    r[state, action, following] = np.nan
    rewards = {"dense": r, "list": r[p > 0], "same CSR": csr(np.where(p > 0, r, 0.0)), "other CSR": csr(r)}[form]
    with pytest.raises(ValueError, match=f"reward of state {state}, action {action} is nan"):
        TabularMDP(transitions=csr(p), rewards=rewards, gamma=0.9)


def test_sums_may_be_off_by_a_millionth_and_no_more():
    p = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    for off, ok in ((9e-7, True), (-9e-7, True), (1.1e-6, False), (-1.1e-6, False)):
        p[1, 0, 1] = 0.5 + off
        if ok:
            TabularMDP(transitions=p, rewards=np.zeros((2, 1)), gamma=0.9)
        else:
            with pytest.raises(ValueError, match="state 1, action 0"):
                TabularMDP(transitions=p, rewards=np.zeros((2, 1)), gamma=0.9)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.1, 1.5, float("nan"), "0.9", None, [0.9], 10**400])
def test_a_discount_outside_the_open_interval_is_refused(gamma: object):
    p, r = random_table(1)
    with pytest.raises(ValueError, match="discount between 0 and 1"):
        TabularMDP(transitions=p, rewards=r, gamma=gamma)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": np.full((7, 3), 1e308)}, "none may be above 1e\\+30. Rescale the reward"),
        ({"device": "gpu"}, "no device 'gpu'"),
        ({"transitions": np.ones((2, 3))}, r"\(S, A, S\), with S and A not 0, got \(2, 3\)"),
        ({"transitions": np.ones((2, 3, 4))}, r"got \(2, 3, 4\)"),
        ({"transitions": sp.csr_array((7, 3))}, r"\(S \* A, S\), with S and A not 0, got \(7, 3\)"),
        ({"transitions": np.ones((1, 1, 1), complex)}, "real numbers, got complex128"),
        ({"transitions": torch.eye(2).to_sparse_coo()}, "must be CSR"),
        ({"rewards": np.ones(7)}, r"\(7, 3\), \(7, 3, 7\) or"),
        ({"rewards": np.ones((3, 7))}, r"got \(3, 7\)"),
        ({"rewards": sp.csr_array((7, 7))}, r"shape of the transitions, \(21, 7\)"),
        ({"terminal": np.zeros(6, bool)}, r"terminal needs one bool for each state, that is \(7,\)"),
        ({"terminal": np.array([1, 2])}, "terminal needs one bool"),
        ({"done": np.zeros(3, bool)}, "done needs one bool for each stored transition"),
    ],
)
def test_wrong_shapes_are_refused(change: dict[str, Any], message: str):
    p, r = random_table(1)
    with pytest.raises(ValueError, match=message):
        TabularMDP(**{"transitions": csr(p), "rewards": r, "gamma": 0.9, **change})


def test_next_states_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match=r"whole numbers \(S, A\), got torch.float32 \(1, 1\)"):
        TabularMDP.deterministic(following=[[0.5]], rewards=[[1.0]], gamma=0.9)


def test_wrong_questions_are_refused():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    v, one = values(1, 7), torch.tensor([0])
    questions: list[tuple[Callable[[], object], str]] = [
        (lambda: mdp.backup(v[:6]), "7 values in float32 or float64"),
        (lambda: mdp.backup(v.half()), "got .*float16"),
        (lambda: mdp.backup_rows(v, torch.tensor([7])), "no state 7: they go from 0 to 6"),
        (lambda: mdp.backup_rows(v, torch.tensor([-1])), "no state -1"),
        (lambda: mdp.backup_columns(v, torch.tensor([3])), "no action 3"),
        (lambda: mdp.backup_columns(v, torch.tensor([True])), "whole numbers"),
        (lambda: mdp.backup_at(v, one, torch.tensor([0, 1])), "one action for each state"),
        (lambda: mdp.backup_at(v, one[None], one[None]), "one axis"),
        (lambda: mdp.policy_chain(one), "7 states"),
        (lambda: mdp.policy_chain(torch.full((7,), 3)), "no action 3"),
    ]
    for question, message in questions:
        with pytest.raises(ValueError, match=message):
            question()
