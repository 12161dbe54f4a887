"""Tables: backups against loops and torch, forms of input, and solutions against closed forms and peers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.mdp.model import MarkovRewardProcess, Model
from svrl.mdp.tabular import TabularMDP, toy_mdp

from .tables import brute, by_products, csr, kinds, random_table, solve, torch_csr, values


def assert_same_answers(one: TabularMDP, other: TabularMDP, v: torch.Tensor, room: float) -> None:
    """Two models answer alike, whatever their devices."""
    n_states, n_actions = one.n_states, one.n_actions
    w, states, actions = v.to(other.device), torch.arange(0, n_states, 3), torch.arange((n_states + 2) // 3) % n_actions
    lists = states.to(other.device), actions.to(other.device)
    policy = one.improve(v)[1]
    pairs = [
        (one.backup(v), other.backup(w)),
        (one.backup_at(v, states, actions), other.backup_at(w, *lists)),
        (one.backup_rows(v, states), other.backup_rows(w, lists[0])),
        (one.backup_columns(v, actions), other.backup_columns(w, lists[1])),
        (one.improve(v)[0], other.improve(w)[0]),
        (one.policy_chain(policy).backup(v.double()), other.policy_chain(other.improve(w)[1]).backup(w.double())),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        assert theirs.device == other.device
        assert ours.shape == theirs.shape
        assert float((ours - theirs.cpu()).abs().max()) < room
    assert torch.equal(policy, other.improve(w)[1].cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns"])
@pytest.mark.parametrize("ends", [False, True])
def test_the_kernels_and_their_reference_agree(dtype: torch.dtype, kind: str, ends: bool):
    p, r = random_table(5, n_states=40, n_actions=6, share=0.1)
    terminal = np.arange(40) % 7 == 0 if ends else None
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.97, terminal=terminal)
    assert_same_answers(mdp, by_products(mdp), values(6, 40, dtype), 1e-12 if dtype == torch.float64 else 1e-6)


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
    for model in (mdp, by_products(mdp)):
        assert model.backup_at(v, none, none).shape == (0,)
        assert model.backup_rows(v, none).shape == (0, 3)
        assert model.backup_columns(v, none).shape == (7, 0)


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
    assert mdp.improve(v)[0].tolist() == by_products(mdp).improve(v)[0].tolist() == [5.0]
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


# The toy MDP.


def test_the_toy_mdp_has_the_papers_size_and_one_next_state_for_each_pair():
    wanted = {"states": 1000, "actions": 100, "gamma": 0.95, "reward": "uniform", "seed": 0, "transitions": 100_000}
    assert wanted.items() <= toy_mdp(0).describe().items()
    mdp = toy_mdp(1, n_states=50, n_actions=400)
    assert set(mdp.entries.data.tolist()) == {1.0}
    # Pearson's chi-square over 50 states with 20,000 draws: 49 degrees of freedom, 6 standard deviations.
    counts = torch.bincount(mdp.entries.indices, minlength=50).double()
    assert float(((counts - 400) ** 2 / 400).sum()) < 49 + 6 * math.sqrt(98)


@pytest.mark.parametrize(("reward", "mean", "variance"), [("uniform", 0.5, 1 / 12), ("normal", 0.0, 1.0)])
def test_toy_rewards_have_the_moments_of_their_distribution(reward: str, mean: float, variance: float):
    found = toy_mdp(2, n_states=200, n_actions=200, reward=reward).entries.reward
    assert float(found.mean()) == pytest.approx(mean, abs=6 * math.sqrt(variance / 40_000))
    assert float(found.var()) == pytest.approx(variance, rel=0.05)
    assert (0.0 <= float(found.min()) < float(found.max()) < 1.0) == (reward == "uniform")


def test_a_seed_is_a_toy_mdp_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(3)
    sources: list[Any] = [3, 3, 4, generator, generator]
    one, same, other, drawn, next_drawn = (toy_mdp(source, n_states=20, n_actions=5) for source in sources)
    v = torch.linspace(0, 1, 20)
    assert torch.equal(one.backup(v), same.backup(v))
    assert torch.equal(one.backup(v), drawn.backup(v))
    assert not torch.equal(one.backup(v), other.backup(v))
    assert not torch.equal(drawn.backup(v), next_drawn.backup(v))
    assert torch.equal(before, torch.get_rng_state())
    assert "seed" not in drawn.describe()


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
    assert_same_answers(here, there, values(6, 50), 1e-12)
    assert there.backup(values(6, 50).float().cuda()).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_matrix_on_cuda_is_shared():
    p, r = random_table(15)
    matrix = torch_csr(csr(p)).cuda()
    mdp = TabularMDP(transitions=matrix, rewards=r, gamma=0.9, device="cuda")
    assert mdp._csr.data.data_ptr() == matrix.values().data_ptr()
