"""Tables for other libraries keep every value, and a file answers bit for bit like the model that was saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.integrations.model_table import closed, load_mdp, mdp_from_pairs, save_mdp
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP, toy_mdp
from svrl.mdp.tasks import make_task
from svrl.planning.policy_iteration import solve_exactly


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
        gamma=0.9,
        terminal=np.arange(len(p)) % 4 == 1 if terminal else None,
        done=ends if done else None,
    )


def values_by_loops(rows: np.ndarray, rewards: np.ndarray, gamma: float) -> np.ndarray:
    """V* (S,) by 2000 sweeps in plain NumPy."""
    n_states, n_actions = rewards.shape
    v = np.zeros(n_states)
    for _ in range(2000):
        v = (rewards + gamma * (rows @ v).reshape(n_states, n_actions)).max(axis=1)
    return v


@pytest.mark.parametrize(("terminal", "done"), [(True, False), (False, True), (True, True)])
def test_closing_keeps_all_values(terminal: bool, done: bool) -> None:
    model = episodic(3, terminal=terminal, done=done)
    table = closed(model)
    assert len(table.rewards) == model.n_states + done
    np.testing.assert_allclose(table.transitions.sum(axis=1), 1.0, atol=1e-14)
    found = values_by_loops(table.transitions.toarray(), table.rewards, 0.9)
    best, _ = solve_exactly(model, 1e-11)
    np.testing.assert_allclose(found[: model.n_states], best, atol=1e-10)
    assert not found[model.n_states :].any()


def test_a_grid_is_written_out_as_it_backs_up() -> None:
    grid = GridMDP(make_task("inverted-pendulum", states=(7, 6), actions=5))
    table = closed(grid)
    v = torch.randn(grid.n_states, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = table.rewards + table.gamma * (table.transitions @ v.numpy()).reshape(table.rewards.shape)
    np.testing.assert_allclose(ours, grid.backup(v), atol=1e-6)


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
        gamma=0.95,
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
        mdp_from_pairs(**(whole | change), gamma=0.9, name="x")


def full_rows_done() -> TabularMDP:
    """In every row all states follow, and one of these transitions ends the episode."""
    rows = scipy.sparse.csr_array(np.full((36, 9), 1 / 9))
    return TabularMDP(transitions=rows, rewards=random_parts(6)[1], gamma=0.93, done=np.arange(324) % 9 == 0)


PROBLEMS = {
    "plain": TabularMDP(
        **dict(zip(("transitions", "rewards"), random_parts(1), strict=True)),
        gamma=0.93,
        name="mine",
        label={"seed": 3, "note": "ä"},
    ),
    "terminal": episodic(3, terminal=True, done=False),
    "done": episodic(4, terminal=False, done=True),
    "both": episodic(5, terminal=True, done=True),
    "full rows": full_rows_done(),
    "toy": toy_mdp(0, n_states=9, n_actions=4),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_what_is_read_answers_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model = PROBLEMS[kind]
    save_mdp(model, tmp_path / "mdp.npz")
    back = load_mdp(tmp_path / "mdp.npz")
    assert back.describe() == model.describe()
    assert (back.reward_range, back.largest_row_sum) == (model.reward_range, model.largest_row_sum)
    for dtype in (torch.float32, torch.float64):
        v = torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=dtype)
        assert torch.equal(back.backup(v), model.backup(v))
    policy = torch.arange(9) % 4
    for part in ("reward", "transitions"):
        ours, theirs = (getattr(one.policy_chain(policy), part) for one in (model, back))
        assert torch.equal(ours.to_dense(), theirs.to_dense())


def test_a_grid_is_written_as_a_table(tmp_path: Path) -> None:
    grid = GridMDP(make_task("mountain-car", states=(6, 5), actions=4))
    save_mdp(grid, tmp_path / "grid.npz")
    back = load_mdp(tmp_path / "grid.npz")
    assert (back.name, back.n_states, back.n_actions, back.gamma) == ("mountain-car", 30, 4, grid.gamma)
    assert back.describe()["variant"] == "paper"
    np.testing.assert_allclose(solve_exactly(back)[0], solve_exactly(grid)[0], atol=1e-4)


def test_damaged_and_foreign_files_get_one_sentence(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    save_mdp(PROBLEMS["done"], good)
    whole = good.read_bytes()
    middle = bytearray(whole)
    middle[whole.index(b"rewards.npy") + 200] ^= 0xFF
    for content in (b"", b"not a zip", whole[: len(whole) // 2], bytes(middle)):
        bad.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged, or was not written by save_mdp"):
            load_mdp(bad)
    with np.load(good) as entries:
        parts = dict(entries)
    for change, sentence in (
        ({"version": np.array(1)}, "the format svrl-mdp 1, and svrl-mdp 2 can be read"),
        ({"format": np.array("x")}, "the format x 2, and svrl-mdp 2 can be read"),
        ({"format": np.array(["pickled"], dtype=object)}, "is damaged"),
        ({"indptr": parts["indptr"] + 1}, "index pointer"),
        ({"data": parts["data"] * 2}, "sum to 2"),
        ({"rewards": parts["rewards"] * np.nan}, "Make its rewards finite"),
        ({"gamma": np.array(1.5)}, "discount between 0 and 1"),
    ):
        np.savez(bad, **(parts | change))
        with pytest.raises(ValueError, match=sentence):
            load_mdp(bad)
    with pytest.raises(FileNotFoundError):
        load_mdp(tmp_path / "none.npz")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "mdp.npz"
    save_mdp(PROBLEMS["plain"], path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Only a model"):
        save_mdp(object(), path)  # type: ignore[arg-type]
    for name in ("mdp", "mdp.npy", "mdp.npz.gz"):
        with pytest.raises(ValueError, match=rf"ends in \.npz, got '{name}'"):
            save_mdp(PROBLEMS["plain"], tmp_path / name)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before
