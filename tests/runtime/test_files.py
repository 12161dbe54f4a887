from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from svrl.runtime.files import writing


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("old")
    return path


def test_the_new_file_appears_only_at_the_end_and_is_an_ordinary_one(target: Path):
    mode = target.stat().st_mode
    with writing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert temporary.suffix == ".txt"
    assert target.read_text() == "new"
    assert target.stat().st_mode == mode
    assert list(target.parent.iterdir()) == [target]


def test_an_exception_leaves_the_old_file_and_no_other(target: Path):
    def fail() -> None:
        with writing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_the_file_is_on_the_disk_before_it_takes_the_place_and_the_folder_after(target: Path, monkeypatch):
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


@pytest.mark.parametrize(("full", "left"), [(stat.S_ISREG, "old"), (stat.S_ISDIR, "new")], ids=["file", "folder"])
def test_a_failed_flush_of_the_file_raises_and_one_of_the_folder_does_no_harm(target: Path, monkeypatch, full, left):
    really = os.fsync

    def fsync(handle: int) -> None:
        if full(os.fstat(handle).st_mode):
            raise OSError(errno.ENOSPC, "No space left on device")
        really(handle)

    def write() -> None:
        with writing(target) as temporary:
            temporary.write_text("new")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left") if left == "old" else nullcontext() as caught:
        write()
    assert caught is None or caught.value.filename == str(target)
    assert target.read_text() == left
    assert list(target.parent.iterdir()) == [target]
