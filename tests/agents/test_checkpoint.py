"""Checkpoints: what is saved comes back, whatever happens to the process, the disk or the files."""

from __future__ import annotations

import itertools
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.agents import checkpoint as checkpoint_module
from svrl.agents.checkpoint import Checkpoints
from svrl.agents.replay import Replay
from svrl.runtime.arrays import read_arrays, write_arrays

from .replay_oracle import Counting, all_of, spec_of


class Rig:
    """A replay buffer that grows, and its checkpoints. The state is the number of steps."""

    def __init__(self, folder: Path, *, stack: int = 4, n_envs: int = 2, capacity: int = 40, end: float = 0.1) -> None:
        self.spec, self.n_envs, self.capacity = spec_of(stack), n_envs, capacity
        self.env = Counting(self.spec, n_envs, 0, end)
        self.replay = self.empty()
        self.replay.begin(self.env.reset())
        self.checkpoints = Checkpoints(folder)

    def empty(self) -> Replay:
        return Replay(self.spec, n_envs=self.n_envs, capacity=self.capacity)

    def step(self, count: int, *others: Replay) -> None:
        for _ in range(count):
            actions, step = self.env.step()
            for memory in (self.replay, *others):
                memory.append(actions, step)

    def save(self) -> None:
        self.checkpoints.save({"steps": self.replay.made}, self.replay)


def assert_equal_memories(one: Replay, other: Replay) -> None:
    assert len(one) == len(other)
    assert all_of(one) == all_of(other)
    if len(one):
        drawn = [memory.sample(40, torch.Generator().manual_seed(7)) for memory in (one, other)]
        parts = [[part for part in batch if isinstance(part, torch.Tensor)] for batch in drawn]
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(*parts, strict=True))


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def listed(path: Path) -> list[str]:
    return [entry["name"] for entry in read_arrays(path)["segments"]]


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = data.index(b"\x93NUMPY") + 128  # where the numbers of the first entry begin
    data[middle] ^= 0xFF
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


@settings(max_examples=25, deadline=None)
@given(
    stack=st.sampled_from([1, 4]),
    n_envs=st.integers(1, 3),
    capacity=st.integers(3, 50),
    end=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    pauses=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    interrupted=st.booleans(),
    piece=st.sampled_from([1, 60, 1 << 28]),
)
def test_a_loaded_memory_draws_and_goes_on_as_the_saved_one(
    tmp_path_factory, stack, n_envs, capacity, end, pauses, interrupted, piece
):
    folder = tmp_path_factory.mktemp("run")
    rig = Rig(folder, stack=stack, n_envs=n_envs, capacity=capacity, end=end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_module, "PIECE_BYTES", piece)
        for pause in pauses:
            rig.step(pause)
            rig.save()
    loaded = rig.empty()
    found = Checkpoints(folder).load(loaded)
    assert found is not None
    assert (found.state, found.note) == ({"steps": rig.replay.made}, None)
    assert_equal_memories(rig.replay, loaded)
    if interrupted:
        start = rig.env.reset()
        rig.replay.begin(start)
        loaded.begin(start)
    for count in (1, 3, 2 * capacity):
        rig.step(count, loaded)
        assert_equal_memories(rig.replay, loaded)


@settings(max_examples=15, deadline=None)
@given(pauses=st.lists(st.integers(0, 30), min_size=2, max_size=6), end=st.sampled_from([0.05, 0.5]))
def test_saves_after_a_resume_build_on_the_segments_before_it(tmp_path_factory, pauses, end):
    folder = tmp_path_factory.mktemp("run")
    rig = Rig(folder, end=end)
    for pause in pauses:
        rig.step(pause)
        rig.save()
        rig.replay, rig.checkpoints = rig.empty(), Checkpoints(folder)
        rig.checkpoints.load(rig.replay)
    whole = Rig(folder / "again", end=end)
    whole.step(sum(pauses))
    assert_equal_memories(rig.replay, whole.replay)


def test_nothing_saved_is_none(tmp_path: Path):
    rig = Rig(tmp_path)
    assert rig.checkpoints.load(rig.replay) is None


def test_a_memory_without_a_step_can_be_saved(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.checkpoints.save(None, rig.empty())
    rig.save()
    loaded = rig.empty()
    Checkpoints(tmp_path).load(loaded)
    rig.step(5, loaded)
    assert_equal_memories(rig.replay, loaded)


def test_segments_are_written_once_and_leave_with_the_ring(tmp_path: Path):
    rig = Rig(tmp_path, end=0.0)
    contents: dict[str, bytes] = {}
    for number in range(1, 16):
        rig.step(5)
        rig.save()
        files = {path.name: path.read_bytes() for path in (tmp_path / "replay").iterdir()}
        assert all(contents.get(name, data) == data for name, data in files.items())
        assert f"segment-{number:06d}.npz" in files
        assert (
            len(files) <= 7
        )  # 26 slots of an environment in segments of 5, begun and ended anywhere, and one save before
        contents |= files
        checkpoints = sorted((tmp_path / "checkpoints").iterdir())
        assert [path.name for path in checkpoints] == [f"{n:09d}.npz" for n in (number - 1, number) if n]
        assert {name for path in checkpoints for name in listed(path)} == set(files)


def test_the_state_alone_can_be_read(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.step(9)
    rig.save()
    shutil.rmtree(tmp_path / "replay")
    found = Checkpoints(tmp_path).load(None)
    assert found is not None
    assert found.state == {"steps": 9}


def test_a_full_disk_leaves_the_checkpoint_before_it(tmp_path: Path):
    rig = Rig(tmp_path, capacity=4000, end=0.0)
    rig.step(10)
    rig.save()
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    saved = all_of(rig.replay)
    rig.step(1500)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for limit, state in ((10_000, 0), (60_000, np.zeros(20_000))):  # the segment, or the checkpoint, is too large
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(OSError, match="too large"):
                rig.checkpoints.save({"steps": state}, rig.replay)
            assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    loaded = rig.empty()
    assert Checkpoints(tmp_path).load(loaded).state == {"steps": 10}
    assert all_of(loaded) == saved
    rig.save()
    assert Checkpoints(tmp_path).load(loaded).state == {"steps": 1510}
    assert_equal_memories(rig.replay, loaded)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"capacity": 60}, "per_env was 20 and is 30"),
        ({"n_envs": 4}, "n_envs was 2 and is 4"),
        ({"stack": 1}, "stack was 4 and is 1"),
    ],
)
def test_another_memory_is_refused(tmp_path: Path, change: dict[str, int], sentence: str):
    rig = Rig(tmp_path)
    rig.step(5)
    rig.save()
    other = Rig(tmp_path, **change)
    with pytest.raises(ValueError, match=sentence):
        other.checkpoints.load(other.replay)
    assert len(other.replay) == 0


def test_another_version_is_refused(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.step(5)
    rig.save()
    path = tmp_path / "checkpoints" / "000000001.npz"
    write_arrays(path, {**read_arrays(path), "format": 99})
    with pytest.raises(ValueError, match="another version of svrl"):
        rig.checkpoints.load(rig.empty())


@pytest.mark.parametrize("name", ["heads", "tails", "made", "open_ages"])
def test_numbers_that_would_lead_astray_are_refused(tmp_path: Path, name: str):
    rig = Rig(tmp_path)
    rig.step(5)
    rig.save()
    path = tmp_path / "checkpoints" / "000000001.npz"
    tree = read_arrays(path)
    tree["replay"][name] = tree["replay"][name] * 0 + (-99 if name != "open_ages" else 99)
    write_arrays(path, tree)
    with pytest.raises(ValueError, match="contradicts itself"):
        rig.checkpoints.load(rig.empty())


@pytest.mark.parametrize("harm", [delete, truncate, garble, empty])
def test_any_combination_of_damaged_files(tmp_path: Path, harm: Any):
    rig = Rig(tmp_path / "whole")
    memories, needs = {}, {}
    for steps in (12, 25):
        rig.step(steps - rig.replay.made)
        rig.save()
        memories[steps] = all_of(rig.replay)
        needs[steps] = {f"checkpoints/{len(memories):09d}.npz"}
        needs[steps] |= {f"replay/{name}" for name in listed(tmp_path / "whole" / min(needs[steps]))}
    files = names(tmp_path / "whole")
    assert len(files) == 4
    for bad in itertools.chain.from_iterable(itertools.combinations(files, n) for n in range(5)):
        folder = tmp_path / "harmed"
        shutil.copytree(tmp_path / "whole", folder)
        for name in bad:
            harm(folder / name)
        usable = [steps for steps in (25, 12) if not needs[steps] & set(bad)]
        loaded = rig.empty()
        if usable:
            found = Checkpoints(folder).load(loaded)
            assert found is not None
            assert found.state["steps"] == usable[0]
            assert all_of(loaded) == memories[usable[0]]
            gone = harm is delete and "checkpoints/000000002.npz" in bad
            assert (found.note is None) == (usable[0] == 25 or gone)
        elif any((folder / "checkpoints").iterdir()):
            with pytest.raises(ValueError, match=r"No checkpoint in .* can be used. Start a new run"):
                Checkpoints(folder).load(loaded)
            assert len(loaded) == 0
        shutil.rmtree(folder)


def test_going_on_after_a_damaged_checkpoint(tmp_path: Path):
    rig = Rig(tmp_path, end=0.0)
    for _ in range(3):
        rig.step(5)
        rig.save()
    garble(tmp_path / "checkpoints" / "000000003.npz")
    rig.replay, rig.checkpoints = rig.empty(), Checkpoints(tmp_path)
    found = rig.checkpoints.load(rig.replay)
    assert found is not None
    assert found.state["steps"] == 10
    assert found.note is not None
    assert "000000003.npz is damaged" in found.note
    assert found.note.endswith("Used the checkpoint before it, 000000002.npz.")
    rig.replay.begin(rig.env.reset())
    rig.step(4)
    rig.save()
    assert [name for name in names(tmp_path) if "checkpoints" in name] == [
        "checkpoints/000000002.npz",
        "checkpoints/000000004.npz",
    ]
    loaded = rig.empty()
    assert Checkpoints(tmp_path).load(loaded).state["steps"] == 14
    assert_equal_memories(rig.replay, loaded)


class Killed(BaseException):
    """What nobody catches."""


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_process_killed_between_two_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int):
    rig = Rig(tmp_path)
    rig.step(10)
    rig.save()
    saved = all_of(rig.replay)
    rig.step(10)
    snapshot = tmp_path / "killed"
    left = itertools.count(writes, -1)

    def write_or_die(path: Path, tree: Any) -> None:
        if next(left) == 0:
            for part in ("checkpoints", "replay"):
                shutil.copytree(tmp_path / part, snapshot / part)
            (snapshot / path.parent.name / f".{path.stem}-x.npz").write_bytes(b"half")
            raise Killed
        write_arrays(path, tree)

    monkeypatch.setattr(checkpoint_module, "write_arrays", write_or_die)
    if writes < 2:
        with pytest.raises(Killed):
            rig.save()
        monkeypatch.undo()
        rig.replay, rig.checkpoints = rig.empty(), Checkpoints(snapshot)
        found = rig.checkpoints.load(rig.replay)
        assert found is not None
        assert (found.state, found.note) == ({"steps": 10}, None)
        assert all_of(rig.replay) == saved
        rig.replay.begin(rig.env.reset())
        rig.step(3)
        rig.save()
        assert not [name for name in names(snapshot) if "/." in name]
        checkpoints = sorted((snapshot / "checkpoints").iterdir())
        assert {name for path in checkpoints for name in listed(path)} == {
            path.name for path in (snapshot / "replay").iterdir()
        }
    else:
        rig.save()
        assert not snapshot.exists()


@pytest.mark.parametrize("linked", [False, True])
def test_files_of_others_stay(tmp_path: Path, linked: bool):
    other = tmp_path / "other"
    (other / "replay").mkdir(parents=True)
    rig = Rig(tmp_path / "run")
    rig.step(10)
    rig.save()
    if linked:
        shutil.copytree(tmp_path / "run" / "replay", other / "replay", dirs_exist_ok=True)
        shutil.rmtree(tmp_path / "run" / "replay")
        (tmp_path / "run" / "replay").symlink_to(other / "replay")
    (tmp_path / "run" / "replay" / "mine.npz").write_bytes(b"mine")
    before = set(names(tmp_path / "run" / "replay"))
    for _ in range(4):
        rig.step(30)
        rig.save()
    after = set(names(tmp_path / "run" / "replay"))
    assert "mine.npz" in after
    assert (before <= after) == linked
    assert_equal_memories(rig.replay, _loaded(rig, tmp_path / "run"))


def _loaded(rig: Rig, folder: Path) -> Any:
    Checkpoints(folder).load(memory := rig.empty())
    return memory


def _flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"score": 1', b'"score": 7', 1))


@pytest.mark.parametrize("harm", [delete, truncate, empty, _flip])
@pytest.mark.parametrize("name", ["episodes.jsonl", "evaluations.jsonl", "learning.jsonl", "q_star.jsonl"])
def test_rows_are_verified_as_checkpoints_are(tmp_path: Path, harm: Any, name: str):
    """The older checkpoint, from which lost rows are made again, is used if all of its rows are there."""
    rig, rows = Rig(tmp_path), tmp_path / name
    text = ""
    for steps in (10, 20):
        rig.step(10)
        text += f'{{"steps": {steps}, "score": {steps // 10 - 1}.0}}\n'
        rows.write_text(text)
        rig.save()
    rows.write_text(text + '{"steps": 30}\n')
    found = Checkpoints(tmp_path).load(rig.empty())
    assert found is not None
    assert (found.state["steps"], found.note) == (20, None)
    rows.write_text(text)
    harm(rows)
    found = Checkpoints(tmp_path).load(rig.empty())
    assert found is not None
    assert found.note is not None
    assert f"{rows} is damaged" in found.note
    older_is_whole = harm in (truncate, _flip)  # the first row is still as it was
    assert found.state["steps"] == (10 if older_is_whole else 20)
    assert ("Used the checkpoint before it" in found.note) == older_is_whole


def test_a_checkpoint_from_before_rows_were_verified_is_read(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.step(10)
    rig.save()
    path = tmp_path / "checkpoints" / "000000001.npz"
    tree = read_arrays(path)
    del tree["rows"]
    write_arrays(path, tree)
    (tmp_path / "episodes.jsonl").write_text('{"steps": 3}\n')
    found = Checkpoints(tmp_path).load(rig.empty())
    assert found is not None
    assert (found.state["steps"], found.note) == (10, None)
