"""Tables for other libraries keep every value, whatever ends an episode and whatever a state cannot do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.integrations.model_table import closed, mdp_from_pairs, table_of
from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.planning.evaluation import solve_exactly


def random_parts(seed: int, n_states: int = 9, n_actions: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Transitions (S, A, S), about half of them 0, and rewards (S, A)."""
    rng = np.random.default_rng(seed)
    size = (n_states, n_actions, n_states)
    p = rng.random(size) * (rng.random(size) < 0.5) + 1e-3 * np.eye(n_states)[:, None]
    return p / p.sum(axis=2, keepdims=True), rng.normal(size=size[:2])


def episodic(seed: int, *, terminal: bool, done: bool) -> TabularMDP:
    p, r = random_parts(seed)
    rows = scipy.sparse.csr_array(p.reshape(-1, p.shape[2]))
    ends = np.random.default_rng(seed + 1).random(len(rows.data)) < 0.2
    return TabularMDP(
        transitions=rows,
        rewards=r,
        discount=0.9,
        terminal=np.arange(len(p)) % 4 == 1 if terminal else None,
        done=ends if done else None,
    )


def values_by_loops(rows: np.ndarray, rewards: np.ndarray, discount: float) -> np.ndarray:
    """V* (S,) by 2000 sweeps in plain NumPy."""
    n_states, n_actions = rewards.shape
    v = np.zeros(n_states)
    for _ in range(2000):
        v = (rewards + discount * (rows @ v).reshape(n_states, n_actions)).max(axis=1)
    return v


def test_a_table_without_ends_is_the_model_itself() -> None:
    p, r = random_parts(0)
    model = TabularMDP(transitions=p, rewards=r, discount=0.9)
    for table in (table_of(model), closed(model)):
        np.testing.assert_array_equal(table.transitions.toarray().reshape(p.shape), p)
        np.testing.assert_array_equal(table.rewards, r)
        assert not table.terminal.any()
        assert not table.missing.any()
        assert not table.ends


@pytest.mark.parametrize(("terminal", "done"), [(True, False), (False, True), (True, True)])
def test_closing_keeps_all_values(terminal: bool, done: bool) -> None:
    model = episodic(3, terminal=terminal, done=done)
    table = closed(model)
    assert table.n_states == model.n_states + done
    np.testing.assert_allclose(table.transitions.sum(axis=1), 1.0, atol=1e-14)
    found = values_by_loops(table.transitions.toarray(), table.rewards, 0.9)
    best, _ = solve_exactly(model, 1e-11)
    np.testing.assert_allclose(found[: model.n_states], best, atol=1e-10)
    assert not found[model.n_states :].any()


@pytest.mark.parametrize("noise_nodes", [1, 3])
def test_a_grid_is_written_out_as_it_backs_up(noise_nodes: int) -> None:
    grid = GridMDP(make_task("inverted-pendulum", states=(7, 6), actions=5), noise_nodes=noise_nodes)
    table = closed(grid)
    assert table.n_states == grid.n_states
    v = torch.randn(grid.n_states, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = table.rewards + table.discount * (table.transitions @ v.numpy()).reshape(table.rewards.shape)
    np.testing.assert_allclose(ours, grid.backup(v), atol=1e-6)


def test_something_else_has_no_table() -> None:
    with pytest.raises(ValueError, match="Only a model has a table of transitions, got int"):
        table_of(3)  # type: ignore[arg-type]


def test_missing_pairs_change_no_value_and_are_never_best() -> None:
    p, r = random_parts(5)
    there = np.random.default_rng(6).random(r.shape) < 0.6
    there[np.arange(len(r)), np.arange(len(r)) % 4] = True
    states, actions = np.nonzero(there)
    shuffled = np.random.default_rng(7).permutation(len(states))
    states, actions = states[shuffled], actions[shuffled]
    model = mdp_from_pairs(
        states=states,
        actions=actions,
        transitions=p[states, actions],
        rewards=r[states, actions],
        discount=0.95,
        name="x",
    )
    assert model.describe()["infeasible_pairs"] == (~there).sum() > 0
    v = np.zeros(len(r))
    for _ in range(3000):
        v = np.where(there, r + 0.95 * (p @ v), -np.inf).max(axis=1)
    best, policy = solve_exactly(model, 1e-10)
    np.testing.assert_allclose(best, v, atol=1e-9)
    assert there[np.arange(len(r)), policy.numpy()].all()
    gap = best[:, None] - model.backup(best)
    assert float(gap[torch.from_numpy(~there)].min()) >= r[there].max() - r[there].min() - 1e-9


def test_no_missing_pair_counts_as_0() -> None:
    p, r = random_parts(5)
    states, actions = np.indices(r.shape).reshape(2, -1)
    rows = p.reshape(r.size, -1)
    model = mdp_from_pairs(
        states=states, actions=actions, transitions=rows, rewards=r.reshape(-1), discount=0.95, name="x"
    )
    assert model.describe()["infeasible_pairs"] == 0


def test_equal_rewards_leave_room_below_them() -> None:
    model = mdp_from_pairs(
        states=np.array([0, 0, 1]),
        actions=np.array([0, 1, 1]),
        transitions=np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]),
        rewards=np.zeros(3),
        discount=0.5,
        name="x",
    )
    best, policy = solve_exactly(model)
    assert best.tolist() == [0.0, 0.0]
    assert policy.tolist()[1] == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"states": np.array([0, 0, 1, 1]), "actions": np.array([0, 1, 0, 0])}, "state 1 and action 0 is listed twice"),
        ({"rewards": np.array([1.0, 2.0, -np.inf, -np.inf])}, "State 1 has no action with a finite reward"),
        ({"states": np.array([0, 0, 1, 2])}, "states 0 to 1 and actions from 0"),
        ({"rewards": np.ones(3)}, r"got \(4,\), \(4,\), \(3,\)"),
        ({"rewards": np.array([1.0, np.nan, 0.0, 0.0])}, "state 0, action 1 is nan"),
    ],
)
def test_pairs_that_are_no_problem_are_refused(change: dict[str, np.ndarray], sentence: str) -> None:
    whole = {
        "states": np.array([0, 0, 1, 1]),
        "actions": np.array([0, 1, 0, 1]),
        "transitions": np.tile([0.5, 0.5], (4, 1)),
        "rewards": np.arange(4.0),
    }
    with pytest.raises(ValueError, match=sentence):
        mdp_from_pairs(**(whole | change), discount=0.9, name="x")
