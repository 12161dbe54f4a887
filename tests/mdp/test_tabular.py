"""Tables: backups against loops and torch, forms of input, and solutions against closed forms and peers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.mdp.model import MarkovRewardProcess, Model, sparse_rows
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tabular_kernel import Products

from .tables import brute, csr, kinds, random_table, solve, torch_csr, values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns"])
@pytest.mark.parametrize("ends", [False, True])
def test_the_kernels_and_their_reference_agree(dtype: torch.dtype, kind: str, ends: bool):
    p, r = random_table(5, n_states=40, n_actions=6, share=0.1)
    terminal = np.arange(40) % 7 == 0 if ends else None
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.97, terminal=terminal)
    plain, v = Products(mdp.entries), mdp._values(values(6, 40, dtype))
    states, actions = torch.arange(0, 40, 3), torch.arange(14) % 6
    pairs = [
        (mdp.backup(v), plain.block(v)),
        (mdp.backup_at(v, states, actions), plain.pairs(v, states, actions)),
        (mdp.backup_rows(v, states), plain.block(v, states=states)),
        (mdp.backup_columns(v, actions), plain.block(v, actions=actions)),
        (mdp.improve(v)[0], plain.improve(v)[0]),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype == dtype
        assert ours.shape == theirs.shape
        assert float((ours - theirs).abs().max()) < (1e-12 if dtype == torch.float64 else 1e-6)
    assert torch.equal(mdp.improve(v)[1], plain.improve(v)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_values_and_are_rounded_once(dtype: torch.dtype):
    p, r = random_table(7)
    v = values(8, 7, dtype)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    expected = torch.from_numpy(brute(p, r, 0.9, v.double().numpy()))
    assert mdp.backup(v).dtype == mdp.improve(v)[0].dtype == dtype
    assert mdp.improve(v)[1].dtype == torch.int64
    assert float((mdp.backup(v) - expected).abs().max()) <= torch.finfo(dtype).eps * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_first_of_equal_actions_is_taken(dtype: torch.dtype):
    p = np.full((1, 4, 1), 1.0)
    tied = TabularMDP(transitions=p, rewards=[[0.0, 1.0, 1.0, 0.5]], gamma=0.5)
    assert tied.improve(torch.zeros(1, dtype=dtype))[1].tolist() == [1]
    # A difference that float32 cannot hold is a tie there.
    near = TabularMDP(transitions=p, rewards=[[0.0, 1.0, 1.0 + 1e-12, 0.5]], gamma=0.5)
    best, action = near.improve(torch.zeros(1, dtype=dtype))
    assert action.tolist() == near.backup(torch.zeros(1, dtype=dtype)).argmax(1).tolist()
    assert action.tolist() == [1 if dtype == torch.float32 else 2]
    assert best.tolist() == near.backup(torch.zeros(1, dtype=dtype)).amax(1).tolist()


def test_nan_is_passed_on():
    mdp = TabularMDP.deterministic(following=torch.tensor([[0, 1, 0], [0, 0, 0]]), rewards=np.ones((2, 3)), gamma=0.5)
    best, action = mdp.improve(torch.tensor([0.0, torch.nan]))
    assert best.isnan().tolist() == [True, False]
    assert action.tolist() == [1, 0]


def test_many_entries_are_worked_on_by_several_threads(monkeypatch: pytest.MonkeyPatch):
    following = torch.randint(2000, (2000, 60), generator=torch.Generator().manual_seed(0))
    mdp = TabularMDP.deterministic(following=following, rewards=torch.rand(2000, 60), gamma=0.9)
    v, states, actions = values(1, 2000), torch.arange(2000).flip(0).repeat(60), torch.arange(120_000) % 60
    found = {}
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found[threads] = [mdp.backup(v), *mdp.improve(v), mdp.backup_at(v, states, actions), mdp.backup_rows(v, states)]
    assert all(torch.equal(one, other) for one, other in zip(found[1], found[3], strict=True))
    assert torch.allclose(found[1][0], mdp.entries.reward + 0.9 * v[following], rtol=0, atol=1e-15)


def test_empty_lists_give_empty_backups():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    none, v = torch.tensor([], dtype=torch.int64), values(1, 7)
    for engine in (mdp._engine, Products(mdp.entries)):
        assert engine.pairs(v, none, none).shape == (0,)
        assert engine.block(v, states=none).shape == (0, 3)
        assert engine.block(v, actions=none).shape == (7, 0)


def test_values_with_a_gradient_or_a_stride_are_read_as_they_are():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    wide = torch.stack([values(1, 7), values(2, 7)], 1).requires_grad_()
    assert torch.equal(mdp.backup(wide[:, 1]), mdp.backup(values(2, 7)))


@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns", "torch CSR"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_policys_chain_backs_up_like_its_pairs(kind: str, ends: bool):
    p, r = random_table(10)
    terminal = np.array([0, 0, 1, 0, 0, 1, 0], bool) if ends else None
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.9, terminal=terminal)
    policy = torch.tensor([0, 2, 1, 1, 0, 2, 2])
    chain, v = mdp.policy_chain(policy), values(3, 7)
    assert isinstance(chain, MarkovRewardProcess)
    assert chain.transitions.layout == torch.sparse_csr
    assert chain.transitions.dtype == chain.reward.dtype == torch.float64
    assert torch.allclose(chain.backup(v), mdp.backup_at(v, torch.arange(7), policy), rtol=0, atol=1e-12)
    dense = p[np.arange(7), policy]
    if terminal is not None:
        dense = dense * ~terminal[:, None] * ~terminal
    assert np.abs(chain.transitions.to_dense().numpy() - dense).max() < 1e-15
    # Each column once and in order, which torch checks if asked.
    parts = (chain.transitions.crow_indices(), chain.transitions.col_indices(), chain.transitions.values())
    torch.sparse_csr_tensor(*parts, (7, 7), check_invariants=True)


def test_terminal_states_are_worth_nothing_whatever_the_values_say():
    p, r = random_table(11)
    terminal = np.array([0, 1, 0, 0, 1, 0, 0], bool)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9, terminal=torch.from_numpy(terminal))
    v = values(4, 7)
    expected = brute(p, r, 0.9, v.numpy(), terminal)
    assert np.abs(mdp.backup(v).numpy() - expected).max() < 1e-12
    assert np.abs(mdp.improve(v)[0].numpy() - expected.max(1)).max() < 1e-12
    assert mdp.improve(v)[1][torch.from_numpy(terminal)].tolist() == [0, 0]
    assert v.abs().min() > 0  # the caller's are left alone


def test_terminal_rows_may_be_empty():
    p = np.zeros((2, 1, 2))
    p[0, 0, 1] = 1.0
    mdp = TabularMDP(transitions=p, rewards=[[3.0], [0.0]], gamma=0.9, terminal=np.array([False, True]))
    assert solve(mdp)[0].tolist() == [3.0, 0.0]
    with pytest.raises(ValueError, match=r"state 1, action 0 sum to 0,"):
        TabularMDP(transitions=p, rewards=[[3.0], [0.0]], gamma=0.9)


def test_a_transition_that_is_done_pays_and_ends():
    # Half of the time state 0 ends with reward 6; otherwise it stays, for nothing: v = 3 + .9 / 2 v.
    mdp = TabularMDP.from_toy_text({0: {0: [(0.5, 0, 6.0, True), (0.5, 0, 0.0, False)]}}, 0.9)
    assert float(solve(mdp)[0]) == pytest.approx(3 / (1 - 0.45), abs=1e-9)
    assert float(mdp.policy_chain(torch.tensor([0])).transitions.to_dense()) == 0.5


def test_a_problem_of_one_step_has_no_transitions_left():
    mdp = TabularMDP.from_toy_text({0: {0: [(1.0, 0, 2.0, True)], 1: [(1.0, 0, 5.0, True)]}}, 0.9)
    v = torch.tensor([100.0], dtype=torch.float64)
    assert mdp.improve(v)[0].tolist() == Products(mdp.entries).improve(v)[0].tolist() == [5.0]
    assert mdp.policy_chain(torch.tensor([1])).backup(v).tolist() == [5.0]


def test_the_range_of_rewards_bounds_every_value_also_where_episodes_end():
    mdp = TabularMDP.from_toy_text({0: {0: [(1.0, 0, -1.0, True)]}}, 0.9)
    assert mdp.reward_range == (-1.0, 0.0)
    p = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    mdp = TabularMDP(transitions=p, rewards=[[2.0], [7.0]], gamma=0.9, terminal=np.array([False, True]))
    assert mdp.reward_range == (0.0, 2.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    n_states=st.integers(1, 9),
    n_actions=st.integers(1, 4),
    share=st.floats(0.0, 1.0),
    gamma=st.floats(0.01, 0.999),
    ending=st.floats(0.0, 1.0),
)
def test_backups_are_monotone_and_contract(
    seed: int, n_states: int, n_actions: int, share: float, gamma: float, ending: float
):
    p, r = random_table(seed, n_states, n_actions, share)
    rng = np.random.default_rng(seed)
    mdp = TabularMDP(transitions=csr(p), rewards=r, gamma=gamma, terminal=rng.random(n_states) < ending)
    v, w = (torch.from_numpy(rng.normal(size=n_states)) for _ in range(2))
    gap = float((v - w).abs().max())
    assert float((mdp.backup(v) - mdp.backup(w)).abs().max()) <= gamma * gap + 1e-12
    assert float((mdp.improve(v)[0] - mdp.improve(w)[0]).abs().max()) <= gamma * gap + 1e-12
    above = torch.maximum(v, w)
    assert float((mdp.backup(above) - mdp.backup(v)).min()) >= -1e-12
    low, high = mdp.reward_range
    bounded = mdp.improve(torch.full((n_states,), high / (1 - gamma), dtype=torch.float64))[0]
    assert float(bounded.max()) <= high / (1 - gamma) + 1e-9 * (1 + abs(high)) / (1 - gamma)
    bounded = mdp.improve(torch.full((n_states,), low / (1 - gamma), dtype=torch.float64))[0]
    assert float(bounded.min()) >= low / (1 - gamma) - 1e-9 * (1 + abs(low)) / (1 - gamma)


def test_it_is_a_model_and_describes_itself():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9, name="lottery", label={"variant": "small"})
    assert isinstance(mdp, Model)
    found = json.loads(json.dumps(mdp.describe()))
    assert found == {
        "task": "lottery",
        "variant": "small",
        "states": 7,
        "actions": 3,
        "transitions": int((p > 0).sum()),
        "episodic": False,
        "rows_sum_to_one": True,
        "gamma": 0.9,
        "device": "cpu",
    }


# What a table may be given as.


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


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_discount_outside_the_open_interval_is_refused(gamma: float):
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
        ({"transitions": sparse_rows(torch.arange(2), torch.arange(1), torch.ones(1), (4, 2))}, "need 5 row bounds"),
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


# Solutions.


TOY_TEXT = ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1"]


def toy_text(name: str, **options: Any) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    gymnasium = pytest.importorskip("gymnasium")
    return gymnasium.make(name, **options).unwrapped.P


def with_sink(table: dict[int, dict[int, list[tuple[float, int, float, bool]]]]) -> tuple[np.ndarray, np.ndarray]:
    """The same problem without ends, dense: what is done leads to one more state, which pays nothing and stays."""
    n_states, n_actions = len(table), len(table[0])
    p, r = np.zeros((n_states + 1, n_actions, n_states + 1)), np.zeros((n_states + 1, n_actions))
    p[n_states, :, n_states] = 1.0
    for s in range(n_states):
        for a in range(n_actions):
            for probability, following, reward, done in table[s][a]:
                p[s, a, n_states if done else following] += probability
                r[s, a] += probability * reward
    return p, r


def test_a_walk_to_the_right_is_a_geometric_sequence():
    # States 0..9, steps left and right; the last state pays 1 for ever: v(s) = g^(9 - s) / (1 - g).
    states = torch.arange(10)
    following = torch.stack([(states - 1).clamp(min=0), (states + 1).clamp(max=9)], 1)
    rewards = torch.zeros(10, 2)
    rewards[9, 1] = 1.0
    mdp = TabularMDP.deterministic(following=following, rewards=rewards, gamma=0.8)
    v, policy = solve(mdp)
    assert torch.allclose(v, 0.8 ** (9 - states).double() / 0.2, rtol=0, atol=1e-9)
    assert policy.tolist() == [1] * 10


@pytest.mark.parametrize("name", TOY_TEXT)
def test_toy_text_problems_load(name: str):
    table = toy_text(name)
    mdp = TabularMDP.from_toy_text(table, 0.95, name=name)
    p, r = with_sink(table)
    v = values(1, mdp.n_states)
    expected = r[:-1] + 0.95 * p[:-1, :, :-1] @ v.numpy()
    assert mdp.backup(v).shape == (len(table), len(table[0]))
    assert np.abs(mdp.backup(v).numpy() - expected).max() < 1e-12
    assert mdp.describe()["episodic"] is True


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({0: {0: [(1.0, 0, 0.0, False)]}, 2: {0: [(1.0, 0, 0.0, False)]}}, "State 1 of 2 has no entry"),
        ({0: {0: [(1.0, 0, 0.0, False)]}, 1: {1: [(1.0, 0, 0.0, False)]}}, r"State 1 of 2 has actions \[1\]"),
        ({0: {0: [(1.0, 0, 0.0, False)]}, 1: {0: [(1.0, 2, 0.0, True)]}}, "next state of state 1, action 0 is 2"),
        ({0: {0: [(1.0, 0, 0.0, False)], 1: [(0.9, 0, 0.0, True)]}}, "state 0, action 1 sum to 0.9,"),
        ({0: {0: [(1.0, 0, 0.0, False)], 1: []}}, "state 0, action 1 sum to 0,"),
        ({0: {0: [(1.0, 0, float("nan"), True)]}}, "reward of state 0, action 0 is nan"),
        ({}, "S and A not 0"),
    ],
)
def test_a_wrong_toy_text_table_is_named(table: Any, message: str):
    with pytest.raises(ValueError, match=message):
        TabularMDP.from_toy_text(table, 0.9)


def quantecon_values(p: np.ndarray, r: np.ndarray, gamma: float) -> np.ndarray:
    markov = pytest.importorskip("quantecon").markov
    n_states, n_actions, _ = p.shape
    states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
    problem = markov.DiscreteDP(r.reshape(-1), sp.csr_matrix(csr(p)), gamma, states, actions)
    return problem.solve(method="policy_iteration").v


def mdpsolver_values(p: np.ndarray, r: np.ndarray, gamma: float) -> np.ndarray:
    solver = pytest.importorskip("mdpsolver").model()
    columns = [[np.flatnonzero(row).tolist() for row in state] for state in p]
    probabilities = [[row[row > 0].tolist() for row in state] for state in p]
    solver.mdp(discount=gamma, rewards=r.tolist(), tranMatProbs=probabilities, tranMatColumns=columns)
    # Each value is off by at most the tolerance; its default of 1e-3 would show.
    solver.solve(algorithm="vi", tolerance=1e-10, parallel=False)
    return np.array(solver.getValueVector())


PEERS = {"QuantEcon": quantecon_values, "mdpsolver": mdpsolver_values}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(("seed", "gamma"), [(20, 0.5), (21, 0.9), (22, 0.99)])
def test_a_peer_finds_the_same_values_of_random_problems(peer: str, seed: int, gamma: float):
    p, r = random_table(seed, n_states=80, n_actions=5, share=0.05)
    mdp = TabularMDP(transitions=csr(p), rewards=csr(r), gamma=gamma)
    assert np.abs(solve(mdp)[0].numpy() - PEERS[peer](p, (p * r).sum(2), gamma)).max() < 1e-8


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", TOY_TEXT)
def test_a_peer_finds_the_same_values_of_toy_text(peer: str, name: str):
    table = toy_text(name)
    found = solve(TabularMDP.from_toy_text(table, 0.95))[0].numpy()
    assert np.abs(found - PEERS[peer](*with_sink(table), 0.95)[:-1]).max() < 1e-8


# On a GPU.


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns", "torch CSR"])
@pytest.mark.parametrize("ends", [False, True])
def test_cuda_agrees_with_the_cpu(kind: str, ends: bool):
    p, r = random_table(14, n_states=50, n_actions=6, share=0.1)
    options: dict[str, Any] = {"gamma": 0.97, "terminal": np.arange(50) % 7 == 0 if ends else None}
    here = TabularMDP(**kinds()[kind](p, r), **options)
    there = TabularMDP(**kinds()[kind](p, r), **options, device="cuda")
    v, states, actions = values(6, 50), torch.arange(0, 50, 3), torch.arange(17) % 6
    w, cuda_states, cuda_actions = v.cuda(), states.cuda(), actions.cuda()
    pairs = [
        (here.backup(v), there.backup(w)),
        (here.backup_at(v, states, actions), there.backup_at(w, cuda_states, cuda_actions)),
        (here.backup_rows(v, states), there.backup_rows(w, cuda_states)),
        (here.backup_columns(v, actions), there.backup_columns(w, cuda_actions)),
        (here.improve(v)[0], there.improve(w)[0]),
        (here.policy_chain(here.improve(v)[1]).backup(v), there.policy_chain(there.improve(w)[1]).backup(w)),
    ]
    for ours, theirs in pairs:
        assert theirs.is_cuda
        assert float((ours - theirs.cpu()).abs().max()) < 1e-12
    assert there.backup(w.float()).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_matrix_on_cuda_is_shared():
    p, r = random_table(15)
    matrix = torch_csr(csr(p)).cuda()
    mdp = TabularMDP(transitions=matrix, rewards=r, gamma=0.9, device="cuda")
    assert mdp._csr.data.data_ptr() == matrix.values().data_ptr()
