from __future__ import annotations

import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.agents import checkpoint as checkpoint_module
from svrl.agents.checkpoint import Checkpoints
from svrl.runtime.arrays import read_arrays, write_arrays

from .checkpoint_rig import Rig, assert_equal_memories, listed, names
from .replay_oracle import all_of


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
