from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from svrl.runtime.run_directory import RunDirectory, differences, finite

CONFIG = {"task": "toy", "observe": 0.2, "seed": 0, "shape": (3, 4), "rank": None}


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def test_a_new_run_writes_its_config_and_a_finished_one_drops_its_checkpoint(tmp_path: Path):
    directory = RunDirectory.begin(tmp_path / "deep" / "run", CONFIG)
    assert json.loads((directory.path / "config.json").read_text()) == {**CONFIG, "shape": [3, 4]}
    directory.checkpoint.write_bytes(b"state")
    directory.write_rows([{"iteration": 1, "residual": 0.5}, {"iteration": 2, "residual": 0.25}])
    directory.finish({"loss": 0.1})
    assert names(directory.path) == ["config.json", "result.json", "rows.jsonl"]
    lines = (directory.path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2]


def test_an_empty_folder_is_taken(tmp_path: Path):
    assert RunDirectory.begin(tmp_path, CONFIG).path == tmp_path


def test_a_finished_run_is_neither_written_over_nor_resumed(tmp_path: Path):
    RunDirectory.begin(tmp_path, CONFIG).finish({"loss": 0.1})
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for open_run in (RunDirectory.begin, RunDirectory.resume):
        with pytest.raises(ValueError, match="finished run"):
            open_run(tmp_path, {**CONFIG, "seed": 1})
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_unfinished_run_must_be_resumed(tmp_path: Path):
    RunDirectory.begin(tmp_path, CONFIG)
    with pytest.raises(ValueError, match="--resume"):
        RunDirectory.begin(tmp_path, CONFIG)
    assert RunDirectory.resume(tmp_path, CONFIG).path == tmp_path


def test_another_config_is_refused_by_the_name_of_the_difference(tmp_path: Path):
    RunDirectory.begin(tmp_path, CONFIG)
    with pytest.raises(ValueError, match=r"observe was 0\.2 and is 0\.3; rank was not given and is 5"):
        RunDirectory.resume(tmp_path, {**CONFIG, "observe": 0.3, "rank": 5})


def test_folders_of_other_things_are_left_alone(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="not of a run"):
        RunDirectory.begin(tmp_path, CONFIG)
    with pytest.raises(ValueError, match="is a file"):
        RunDirectory.begin(tmp_path / "thesis.txt", CONFIG)
    with pytest.raises(ValueError, match="no run to resume"):
        RunDirectory.resume(tmp_path, CONFIG)
    assert names(tmp_path) == ["thesis.txt"]


def test_a_run_that_was_killed_before_its_config_was_whole_can_be_started_again(tmp_path: Path):
    (tmp_path / ".config-abcd_123.json").touch()
    RunDirectory.begin(tmp_path, CONFIG)
    assert names(tmp_path) == ["config.json"]


@pytest.mark.parametrize(
    "text", ['{"task": ', "[]", "[" * 200_000, '{"steps": "many"}', '{"steps": NaN}', '{"steps": 1e999}', "\xff"]
)
def test_a_damaged_config_is_said_to_be_so(tmp_path: Path, text: str):
    RunDirectory.begin(tmp_path, CONFIG)
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        RunDirectory.resume(tmp_path, CONFIG)


def test_only_regular_files_are_read(tmp_path: Path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(ValueError, match=r"config\.json is not a regular file"):
        RunDirectory.resume(tmp_path, CONFIG)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    directory = RunDirectory.begin(tmp_path, CONFIG)
    directory.write_json("a.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        directory.write_json("a.json", {"x": math.nan})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert names(tmp_path) == ["a.json", "config.json"]


def test_numbers_that_json_cannot_hold_say_what_they_were():
    assert finite({"a": math.inf, "b": 1.0, "c": None}) == {
        "a": None,
        "a_reason": "not finite: inf",
        "b": 1.0,
        "c": None,
    }


def test_differences_look_at_both_sides():
    assert differences({"a": 1, "b": 2}, {"b": 2, "new_one": 3}) == [
        "a was 1 and is not given",
        "new-one was not given and is 3",
    ]


def test_a_run_that_failed_at_once_is_taken_back(tmp_path: Path):
    RunDirectory.begin(tmp_path / "new", CONFIG).take_back()
    assert names(tmp_path) == []
    directory = RunDirectory.begin(tmp_path / "begun", CONFIG)
    directory.checkpoint.write_bytes(b"state")
    directory.take_back()
    assert names(tmp_path / "begun") == ["checkpoint.pt", "config.json"]
