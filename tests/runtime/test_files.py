from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from svrl.runtime.files import writing


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


def test_the_file_is_on_the_disk_before_it_takes_the_place_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "a.txt"
    target.write_text("old")
    flushed: list[tuple[str, str]] = []
    really = os.fsync

    def watched(handle: int) -> None:
        about = os.fstat(handle)
        kind = "folder" if stat.S_ISDIR(about.st_mode) else f"file of {about.st_size}"
        flushed.append((kind, target.read_text()))
        really(handle)

    monkeypatch.setattr(os, "fsync", watched)
    with writing(target) as temporary:
        temporary.write_text("new one")
    assert flushed == [("file of 7", "old"), ("folder", "new one")]


def test_a_disk_that_cannot_keep_it_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught, writing(target) as temporary:
        temporary.write_text("new")
    assert caught.value.filename == str(target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_cannot_be_synchronised_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    really = os.fsync

    def files_only(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        really(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    with writing(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"
