"""An MDP that was written and read answers bit for bit as before; whatever else is in a file gets a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.integrations.sparse_files import load_csr, load_mdp, save_csr, save_mdp
from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.toy import toy_mdp
from svrl.planning.evaluation import solve_exactly

S, A = 11, 3


def random_mdp(seed: int, *, dtype: type = np.float64, index: type = np.int32, **options: Any) -> TabularMDP:
    rng = np.random.default_rng(seed)
    p = rng.random((S * A, S)) * (rng.random((S * A, S)) < 0.4)
    p[:, 0] += 0.1
    rows = scipy.sparse.csr_array((p / p.sum(axis=1, keepdims=True)).astype(dtype))
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    if options.pop("done", False):
        options["done"] = rng.random(len(rows.data)) < 0.3
    if options.pop("full rows done", False):
        rows = scipy.sparse.csr_array(np.full((S * A, S), 1 / S))
        options["done"] = np.arange(len(rows.data)) % S == 0
    return TabularMDP(transitions=rows, rewards=rng.normal(size=(S, A)), discount=0.93, **options)


def repeated_columns() -> TabularMDP:
    """Columns twice in a row, and out of order."""
    indices = np.tile([4, 1, 4, 0], S * A)
    data = np.tile([0.1, 0.2, 0.3, 0.4], S * A)
    rows = scipy.sparse.csr_array((data, indices, np.arange(0, 4 * S * A + 1, 4)), shape=(S * A, S))
    return TabularMDP(transitions=rows, rewards=np.arange(S * A).reshape(S, A), discount=0.5)


PROBLEMS = {
    "plain": random_mdp(0, name="mine", label={"seed": 3, "note": "ä"}),
    "float32": random_mdp(1, dtype=np.float32),
    "int64": random_mdp(2, index=np.int64),
    "terminal": random_mdp(3, terminal=np.arange(S) % 3 == 0),
    "done": random_mdp(4, done=True),
    "both": random_mdp(5, done=True, terminal=np.arange(S) % 4 == 0),
    "full rows": random_mdp(6, **{"full rows done": True}),
    "repeated": repeated_columns(),
    "toy": toy_mdp(0, n_states=S, n_actions=A),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_what_is_read_answers_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model = PROBLEMS[kind]
    save_mdp(model, tmp_path / "mdp.npz")
    back = load_mdp(tmp_path / "mdp.npz")
    assert back.describe() == model.describe()
    assert (back.reward_range, back.largest_row_sum) == (model.reward_range, model.largest_row_sum)
    for dtype in (torch.float32, torch.float64):
        v = torch.randn(S, generator=torch.Generator().manual_seed(0), dtype=dtype)
        assert torch.equal(back.backup(v), model.backup(v))
    policy = torch.arange(S) % A
    for part in ("reward", "transitions"):
        ours, theirs = (getattr(one.under(policy), part) for one in (model, back))
        assert torch.equal(ours.to_dense(), theirs.to_dense())
    save_mdp(back, tmp_path / "again.npz")
    with np.load(tmp_path / "mdp.npz") as one, np.load(tmp_path / "again.npz") as other:
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])


def test_the_file_is_plain_numpy(tmp_path: Path) -> None:
    model = PROBLEMS["both"]
    save_mdp(model, tmp_path / "mdp.npz")
    with np.load(tmp_path / "mdp.npz", allow_pickle=False) as entries:
        rows = scipy.sparse.csr_array(tuple(entries[name] for name in ("data", "indices", "indptr")), shape=(S * A, S))
        going_on = ~np.repeat(entries["terminal"], A)
        np.testing.assert_allclose(rows.sum(axis=1)[going_on], 1.0, atol=1e-12)
        assert entries["done"].any()
        assert rows.has_sorted_indices
        assert (str(entries["format"]), int(entries["version"])) == ("svrl-mdp", 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "mdp.npz"]


def test_ends_of_probability_0_are_not_forgotten(tmp_path: Path) -> None:
    rows = scipy.sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    model = TabularMDP(transitions=rows, rewards=[[1.0]], discount=0.5, done=np.array([False, True]))
    save_mdp(model, tmp_path / "mdp.npz")
    assert load_mdp(tmp_path / "mdp.npz").describe() == {**model.describe(), "transitions": 1}
    assert model.describe()["episodic"]


def test_a_grid_is_written_as_a_table(tmp_path: Path) -> None:
    grid = GridMDP(make_task("mountain-car", states=(6, 5), actions=4))
    save_mdp(grid, tmp_path / "grid.npz")
    back = load_mdp(tmp_path / "grid.npz")
    assert (back.name, back.n_states, back.n_actions, back.discount) == ("mountain-car", 30, 4, grid.discount)
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
    np.savez(bad, a=np.ones(3))
    with pytest.raises(ValueError, match="is damaged, or was not written by save_mdp"):
        load_mdp(bad)
    with np.load(good) as entries:
        parts = dict(entries)
    for change, sentence in (
        ({"version": np.array(2)}, "is svrl-mdp of version 2, and svrl-mdp 1 can be read"),
        ({"format": np.array(["pickled"], dtype=object)}, "is damaged"),
        ({"indptr": parts["indptr"] + 1}, "no CSR matrix"),
        ({"data": parts["data"] * 2}, "sum to 2"),
        ({"rewards": parts["rewards"] * np.nan}, "Make its rewards finite"),
        ({"discount": np.array(1.5)}, "discount between 0 and 1"),
    ):
        np.savez(bad, **(parts | change))
        with pytest.raises(ValueError, match=sentence):
            load_mdp(bad)
    with pytest.raises(FileNotFoundError):
        load_mdp(tmp_path / "none.npz")


@pytest.mark.parametrize("name", ["mdp", "mdp.npy", "mdp.npz.gz"])
def test_other_endings_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"ends in \.npz, got '{name}'"):
        save_mdp(PROBLEMS["plain"], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "mdp.npz"
    save_mdp(PROBLEMS["plain"], path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Only a model"):
        save_mdp(object(), path)  # type: ignore[arg-type]
    assert path.read_bytes() == before


def test_files_of_scipy_and_numpy(tmp_path: Path) -> None:
    files = tmp_path / "transitions.npz", tmp_path / "rewards.npy"
    model = PROBLEMS["plain"]
    save_csr(model, *files)
    v = torch.randn(S, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    back = load_csr(*files, 0.93)
    assert torch.equal(back.backup(v), model.backup(v))
    assert back.name == "transitions"
    rows = scipy.sparse.load_npz(files[0])
    scipy.sparse.save_npz(files[0], scipy.sparse.coo_matrix(rows))
    np.save(files[1], np.load(files[1]).astype(np.float32))
    assert float((load_csr(*files, 0.93).backup(v) - model.backup(v)).abs().max()) < 1e-6


def test_ends_are_a_state_for_other_programs(tmp_path: Path) -> None:
    files = tmp_path / "transitions.npz", tmp_path / "rewards.npy"
    save_csr(PROBLEMS["both"], *files)
    back = load_csr(*files, 0.93)
    assert back.n_states == S + 1
    np.testing.assert_allclose(solve_exactly(back)[0][:S], solve_exactly(PROBLEMS["both"])[0], atol=1e-8)


def test_other_files_than_these_get_one_sentence(tmp_path: Path) -> None:
    files = tmp_path / "transitions.npz", tmp_path / "rewards.npy"
    save_csr(PROBLEMS["plain"], *files)
    with pytest.raises(ValueError, match=r"was not written by scipy\.sparse\.save_npz"):
        load_csr(files[1], files[1], 0.9)
    with pytest.raises(ValueError, match="holds several arrays"):
        load_csr(files[0], files[0], 0.9)
    np.save(files[1], np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"was not written by numpy\.save"):
        load_csr(*files, 0.9)
    np.save(files[1], np.ones(5))
    with pytest.raises(ValueError, match="Rewards of 11 states"):
        load_csr(*files, 0.9)
