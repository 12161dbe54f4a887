from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from svrl.agents import checkpoint as checkpoint_module
from svrl.agents.checkpoint import Checkpoints
from svrl.runtime.arrays import read_arrays, write_arrays

from .checkpoint_rig import Rig, assert_equal_memories, delete, empty, garble, listed, names, truncate
from .replay_oracle import all_of


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
