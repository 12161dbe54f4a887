from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from svrl.runtime import training_run as files
from svrl.runtime.training_run import TrainingRun, is_finished, is_running, locked, refuse_other_settings

CONFIG = {"env": "CartPole-v1", "seed": 0, "steps": 100, "hidden": (8, 8), "begun": "then", "versions": {"svrl": "1"}}
LONGER = {**CONFIG, "steps": 200, "begun": "now", "versions": {"svrl": "2"}}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def with_state(path: Path) -> None:
    for name in files.STATE:
        (path / name).mkdir()
    (path / "checkpoints" / "000000001.npz").write_bytes(b"state")


def finished(path: Path, *, keep_state: bool) -> TrainingRun:
    run = TrainingRun.begin(path, CONFIG)
    with_state(path)
    (path / files.EPISODES).write_text('{"steps": 5}\n')
    for name in (files.AGENT, files.CURVE):
        (path / name).write_bytes(b"x")
    run.finish({"steps": 100}, keep_state=keep_state)
    return run


def test_asking_for_more_steps_writes_nothing_until_the_run_is_opened_again(tmp_path: Path):
    finished(tmp_path, keep_state=True)
    before = contents(tmp_path)
    run = TrainingRun.resume(tmp_path, LONGER)
    assert contents(tmp_path) == before
    assert run.grows
    assert not run.is_new
    assert run.earlier_steps == 100
    run.reopen()
    assert set(contents(tmp_path)) == {"config.json", files.EPISODES, "checkpoints/000000001.npz"}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {**CONFIG, "hidden": [8, 8], "steps": 200}
    assert not is_finished(tmp_path)


def test_an_unfinished_run_is_opened_as_it_is(tmp_path: Path):
    TrainingRun.begin(tmp_path, CONFIG)
    before = contents(tmp_path)
    run = TrainingRun.resume(tmp_path, {**CONFIG, "begun": "later"})
    run.reopen()
    assert not run.grows
    assert contents(tmp_path) == before


def test_what_cannot_be_gone_on_with(tmp_path: Path):
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    finished(kept, keep_state=True)
    finished(dropped, keep_state=False)
    for path, config, words in (
        (kept, CONFIG, "finished run of 100 steps"),
        (dropped, LONGER, "without --keep-replay"),
        (kept, {**LONGER, "seed": 1}, "seed was 0 and is 1"),
        (tmp_path, CONFIG, "no run to resume"),
    ):
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=words):
            TrainingRun.resume(path, config)
        assert contents(tmp_path) == before
    (kept / "result.json").unlink()
    with pytest.raises(ValueError, match="steps was 100 and is 50"):
        TrainingRun.resume(kept, {**CONFIG, "steps": 50})


def test_leftovers_of_a_write_are_no_state(tmp_path: Path):
    finished(tmp_path, keep_state=True)
    (tmp_path / "checkpoints" / "000000001.npz").rename(tmp_path / "checkpoints" / ".000000001.npz")
    with pytest.raises(ValueError, match="without --keep-replay"):
        TrainingRun.resume(tmp_path, LONGER)


def test_a_run_that_came_to_nothing_is_taken_back_with_all_it_wrote(tmp_path: Path):
    path = tmp_path / "run"
    run = TrainingRun.begin(path, CONFIG)
    for name in (files.EPISODES, files.LEARNING, files.EVALUATIONS, files.Q_STAR):
        (path / name).write_text("{}\n")
    for name in (*files.STATE, files.TENSORBOARD, "wandb"):
        (path / name).mkdir()
    (path / files.TENSORBOARD / "events").write_text("x")
    run.take_back()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_taken_back(tmp_path: Path):
    saved, earlier, mixed = (tmp_path / name for name in ("saved", "earlier", "mixed"))
    run = TrainingRun.begin(saved, CONFIG)
    with_state(saved)
    before = contents(saved)
    run.take_back()
    assert contents(saved) == before
    TrainingRun.begin(earlier, CONFIG)
    TrainingRun.resume(earlier, CONFIG).take_back()
    assert set(contents(earlier)) == {"config.json"}
    run = TrainingRun.begin(mixed, CONFIG)
    (mixed / "thesis.txt").write_text("mine")
    run.take_back()
    assert contents(mixed) == {"thesis.txt": b"mine"}


def test_settings_are_compared_but_for_versions(tmp_path: Path):
    TrainingRun.begin(tmp_path, CONFIG)
    refuse_other_settings(tmp_path, {**CONFIG, "versions": {}, "begun": "later"})
    refuse_other_settings(tmp_path, LONGER, but=("steps",))
    with pytest.raises(ValueError, match="steps was 100 and is 200"):
        refuse_other_settings(tmp_path, LONGER)


def test_a_lock_keeps_others_out_and_lookers_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "_PATIENCE", 0.0)
    assert not is_running(tmp_path)
    with locked(tmp_path):
        assert is_running(tmp_path)
        with pytest.raises(ValueError, match="another process"), locked(tmp_path):
            pytest.fail("two at work")
    assert not is_running(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH)
        assert not is_running(tmp_path)
    finally:
        os.close(folder)


def test_what_others_have_put_into_a_run_stays(tmp_path: Path):
    mine = tmp_path / "mine"
    mine.mkdir()
    run = TrainingRun.begin(tmp_path / "run", CONFIG)
    with_state(run.path)
    (run.path / "replay").rmdir()
    (run.path / "replay").symlink_to(mine)
    for name in ("segment-000001.npz", "mine.npz"):
        (mine / name).write_bytes(b"x")
    (run.path / "checkpoints" / "mine.npz").write_bytes(b"x")
    run.finish({"steps": 100}, keep_state=False)
    assert set(contents(mine)) == {"segment-000001.npz", "mine.npz"}
    assert set(contents(run.path / "checkpoints")) == {"mine.npz"}


def test_another_environment_is_said_before_all_else(tmp_path: Path):
    finished(tmp_path, keep_state=False)
    with pytest.raises(ValueError, match="holds a run on CartPole-v1, and Acrobot-v1 was asked for"):
        TrainingRun.resume(tmp_path, {**CONFIG, "env": "Acrobot-v1", "seed": 1})
