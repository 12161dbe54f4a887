from __future__ import annotations

from pathlib import Path

import pytest

from svrl.runs.atomic import writing


def test_the_new_file_appears_only_at_the_end(tmp_path: Path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with writing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert temporary.suffix == ".txt"
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_an_exception_leaves_the_old_file_and_no_other(tmp_path: Path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail() -> None:
        with writing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_the_file_is_an_ordinary_one(tmp_path: Path):
    (tmp_path / "plain").write_text("")
    with writing(tmp_path / "made") as temporary:
        temporary.write_text("")
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode
