from __future__ import annotations

import fcntl
import json
import math
import os
from pathlib import Path

import pytest

from svrl.runtime import run_directory as files
from svrl.runtime.files import write_json
from svrl.runtime.run_directory import (
    RunDirectory,
    is_finished,
    is_running,
    locked,
    refuse_other_settings,
)

PLAN = {"task": "toy", "p": 0.2, "seed": 0, "shape": (3, 4), "rank": None}
TRAINING = {"env": "CartPole-v1", "seed": 0, "steps": 100, "hidden": (8, 8), "begun": "then", "versions": {"svrl": "1"}}
LONGER = {**TRAINING, "steps": 200, "begun": "now", "versions": {"svrl": "2"}}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def with_state(path: Path) -> None:
    for name in files.STATE:
        (path / name).mkdir()
    (path / "checkpoints" / "000000001.npz").write_bytes(b"state")


def finished_training(path: Path, *, keep_state: bool) -> None:
    run = RunDirectory.begin(path, TRAINING)
    with_state(path)
    (path / files.EPISODES).write_text('{"steps": 5}\n')
    for name in (files.AGENT, files.CURVE):
        (path / name).write_bytes(b"x")
    run.finish({"steps": 100}, keep_state=keep_state)


# Plans.


def test_a_new_run_writes_its_config_and_a_finished_one_drops_its_checkpoint(tmp_path: Path):
    directory = RunDirectory.begin(tmp_path / "deep" / "run", PLAN)
    assert json.loads((directory.path / "config.json").read_text()) == {**PLAN, "shape": [3, 4]}
    (directory.path / files.CHECKPOINT).write_bytes(b"state")
    directory.write_rows([{"iteration": 1, "residual": 0.5}, {"iteration": 2, "residual": 0.25}])
    directory.finish({"loss": 0.1})
    assert set(contents(directory.path)) == {"config.json", "result.json", "rows.jsonl"}
    lines = (directory.path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2]


def test_an_empty_folder_and_one_left_before_its_config_was_whole_are_taken(tmp_path: Path):
    (tmp_path / ".config-abcd_123.json").touch()
    RunDirectory.begin(tmp_path, PLAN)
    assert RunDirectory.resume(tmp_path, PLAN).path == tmp_path


def test_what_cannot_be_begun_or_resumed_is_left_as_it_was(tmp_path: Path):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "thesis.txt").write_text("mine")
    RunDirectory.begin(tmp_path / "unfinished", PLAN)
    RunDirectory.begin(tmp_path / "plan", PLAN).finish({"loss": 0.1})
    finished_training(tmp_path / "kept", keep_state=True)
    finished_training(tmp_path / "dropped", keep_state=False)
    leftover = tmp_path / "leftover"
    finished_training(leftover, keep_state=True)
    (leftover / "checkpoints" / "000000001.npz").rename(leftover / "checkpoints" / ".000000001.npz")
    begun = RunDirectory.begin(tmp_path / "begun", TRAINING).path
    before = contents(tmp_path)
    for act, name, config, sentence in (
        (RunDirectory.begin, "others", PLAN, "not of a run"),
        (RunDirectory.begin, "others/thesis.txt", PLAN, "is a file"),
        (RunDirectory.begin, "unfinished", PLAN, "--resume"),
        (RunDirectory.begin, "plan", PLAN, "holds a finished run, which"),
        (RunDirectory.resume, "others", PLAN, "no run to resume"),
        (RunDirectory.resume, "plan", PLAN, "holds a finished run, which"),
        (
            RunDirectory.resume,
            "unfinished",
            {**PLAN, "p": 0.3, "rank": 5},
            r"p was 0\.2 and is 0\.3; rank was",
        ),
        (RunDirectory.resume, "kept", TRAINING, "finished run of 100 steps"),
        (RunDirectory.resume, "kept", {**LONGER, "seed": 1}, "seed was 0 and is 1"),
        (RunDirectory.resume, "dropped", LONGER, "without --keep-replay"),
        (RunDirectory.resume, "leftover", LONGER, "without --keep-replay"),
        (
            RunDirectory.resume,
            "dropped",
            {**TRAINING, "env": "Acrobot-v1", "seed": 1},
            "on CartPole-v1, and Acrobot-v1",
        ),
        (RunDirectory.resume, "begun", {**TRAINING, "steps": 50}, "steps was 100 and is 50"),
        (refuse_other_settings, "begun", LONGER, "steps was 100 and is 200"),
    ):
        with pytest.raises(ValueError, match=sentence):
            act(tmp_path / name, config)
        assert contents(tmp_path) == before
    refuse_other_settings(begun, {**TRAINING, "versions": {}, "begun": "later"})
    refuse_other_settings(begun, LONGER, but=("steps",))


@pytest.mark.parametrize(
    "text", ['{"task": ', "[]", "[" * 200_000, '{"steps": "many"}', '{"steps": NaN}', '{"steps": 1e999}', "\xff"]
)
def test_a_damaged_config_is_said_to_be_so(tmp_path: Path, text: str):
    RunDirectory.begin(tmp_path, PLAN)
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        RunDirectory.resume(tmp_path, PLAN)


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path: Path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": math.nan})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert set(contents(tmp_path)) == {"a.json"}


# Trainings.


def test_asking_for_more_steps_writes_nothing_until_the_run_is_opened_again(tmp_path: Path):
    finished_training(tmp_path, keep_state=True)
    before = contents(tmp_path)
    run = RunDirectory.resume(tmp_path, LONGER)
    assert contents(tmp_path) == before
    assert (run.grows, run.earlier_steps) == (True, 100)
    run.reopen()
    assert set(contents(tmp_path)) == {"config.json", files.EPISODES, "checkpoints/000000001.npz"}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {**TRAINING, "hidden": [8, 8], "steps": 200}
    assert not is_finished(tmp_path)


def test_a_run_that_came_to_nothing_is_taken_back_with_all_it_wrote(tmp_path: Path):
    path = tmp_path / "run"
    run = RunDirectory.begin(path, TRAINING)
    for name in files.ROWS:
        (path / name).write_text("{}\n")
    for name in (*files.STATE, files.TENSORBOARD, "wandb"):
        (path / name).mkdir()
    (path / files.TENSORBOARD / "events").write_text("x")
    run.take_back()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_taken_back(tmp_path: Path):
    plan, saved, earlier, mixed = (tmp_path / name for name in ("plan", "saved", "earlier", "mixed"))
    run = RunDirectory.begin(plan, PLAN)
    (run.path / files.CHECKPOINT).write_bytes(b"state")
    run.take_back()
    assert set(contents(plan)) == {"checkpoint.pt", "config.json"}
    run = RunDirectory.begin(saved, TRAINING)
    with_state(saved)
    before = contents(saved)
    run.take_back()
    assert contents(saved) == before
    RunDirectory.begin(earlier, TRAINING)
    RunDirectory.resume(earlier, TRAINING).take_back()
    assert set(contents(earlier)) == {"config.json"}
    run = RunDirectory.begin(mixed, TRAINING)
    (mixed / "thesis.txt").write_text("mine")
    run.take_back()
    assert contents(mixed) == {"thesis.txt": b"mine"}


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
    run = RunDirectory.begin(tmp_path / "run", TRAINING)
    with_state(run.path)
    (run.path / "replay").rmdir()
    (run.path / "replay").symlink_to(mine)
    for name in ("segment-000001.npz", "mine.npz"):
        (mine / name).write_bytes(b"x")
    (run.path / "checkpoints" / "mine.npz").write_bytes(b"x")
    run.finish({"steps": 100})
    assert set(contents(mine)) == {"segment-000001.npz", "mine.npz"}
    assert set(contents(run.path / "checkpoints")) == {"mine.npz"}
