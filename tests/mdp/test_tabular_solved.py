from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svrl.mdp.tabular import TabularMDP

from .tables import csr, random_table, solve, values

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


def test_a_machine_is_replaced_when_repair_is_cheap_enough():
    # A good machine earns 10 and breaks with probability .3; a broken one earns nothing. Repairing takes the
    # period and costs c. Kept good: vg = 10 + g (.7 vg + .3 vb), vb = -c + g vg; let broken: vb = 0.
    g = 0.9
    p = np.array([[[0.7, 0.3], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    for cost, repaired in ((20.0, True), (50.0, False)):
        mdp = TabularMDP(transitions=p, rewards=[[10.0, 10.0 - cost], [0.0, -cost]], gamma=g)
        v, policy = solve(mdp)
        good = (10 - 0.3 * g * cost) / (1 - 0.7 * g - 0.3 * g * g) if repaired else 10 / (1 - 0.7 * g)
        assert v.tolist() == pytest.approx([good, -cost + g * good if repaired else 0.0], abs=1e-8)
        assert policy.tolist() == [0, int(repaired)]


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


def test_frozen_lake_without_slipping_is_a_shortest_path():
    # From each square the prize is discounted by the steps to it, less one.
    table = toy_text("FrozenLake-v1", is_slippery=False)
    v, policy = solve(TabularMDP.from_toy_text(table, 0.9))
    lake = ["SFFF", "FHFH", "FFFH", "HFFG"]
    holes = {4 * i + j for i in range(4) for j in range(4) if lake[i][j] == "H"}
    steps = {15: 0}
    for _ in range(16):
        for s in set(range(15)) - holes:
            near = [steps[j] for j in (s - 4, s + 4, s - 1 if s % 4 else -1, s + 1 if s % 4 < 3 else -1) if j in steps]
            if near:
                steps[s] = min(steps.get(s, 99), 1 + min(near))
    expected = [0.9 ** (steps[s] - 1) if s in steps and s != 15 else 0.0 for s in range(16)]
    assert v.tolist() == pytest.approx(expected, abs=1e-9)
    state, path = 0, [0]
    while state != 15:
        state = table[state][int(policy[state])][0][1]
        path.append(state)
    assert len(path) == 7


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
def test_a_peer_finds_the_same_values_where_states_are_terminal(peer: str):
    p, r = random_table(23, n_states=60, n_actions=4, share=0.05)
    terminal = np.arange(60) % 9 == 0
    found = solve(TabularMDP(transitions=p, rewards=r, gamma=0.95, terminal=terminal))[0].numpy()
    absorbing, expected = p.copy(), (p * r).sum(2)
    absorbing[terminal] = np.eye(60)[terminal][:, None]
    expected[terminal] = 0.0
    assert np.abs(found - PEERS[peer](absorbing, expected, 0.95)).max() < 1e-8


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", TOY_TEXT)
def test_a_peer_finds_the_same_values_of_toy_text(peer: str, name: str):
    table = toy_text(name)
    found = solve(TabularMDP.from_toy_text(table, 0.95))[0].numpy()
    assert np.abs(found - PEERS[peer](*with_sink(table), 0.95)[:-1]).max() < 1e-8
