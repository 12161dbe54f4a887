from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from local_rig import Told, all_of, at_first, has_checkpoint, leftovers, plans, trainings

from svrl.runs.local import run_locally
from svrl.runs.spec import Effort
from svrl.runs.store import Store

MIB = 1 << 20
SPECS = trainings(1500, arms=("dqn", "sv-dqn"), log_every=500)
OFTEN = Effort(checkpoint_every=0.2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk needs the right to mount one")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Take all room but so many bytes."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    with suppress(OSError):  # somebody else may be quicker to take what there is
        ballast.write_bytes(b"0" * (room.f_bavail * room.f_frsize - left))
    return ballast


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle_stops_the_sweep_and_loses_nothing(tmp_path, small_disk):
    store, straight = small_disk / "store", tmp_path / "straight"
    first = trainings(6000, arms=("dqn", "sv-dqn"), log_every=500)  # so long that they cannot end before it is full
    specs = [*first, *trainings(1500, seeds=3)[2:]]
    told = Told(at_first(lambda: all(has_checkpoint(store, spec) for spec in first), lambda: fill(small_disk)))
    found = run_locally(specs, str(store), effort=Effort(checkpoint_every=0.2, jobs=2), listener=told)
    assert found.broken.count("No space left on device") == 1, found
    assert str(store) in found.broken
    assert "\n" not in found.broken
    assert found.failures == {}
    assert [found.states[spec.id] for spec in specs] == ["stopped", "stopped", "waiting"]
    assert told.begun == [spec.id for spec in first], "no other run was begun"
    assert {ended for _, ended, _ in told.ended} == {"stopped"}
    (small_disk / "ballast").unlink()
    assert run_locally(specs, str(store), effort=OFTEN).count("done") == 3
    run_locally(specs, str(straight), effort=OFTEN)
    assert all_of(store, specs) == all_of(straight, specs)
    assert leftovers(store) == []


@pytest.mark.parametrize("left", [16, 48], ids=["its checkpoint", "its figures"])
@pytest.mark.slow
def test_a_disk_that_is_too_small_for_a_plan_is_told_and_no_run_fails(small_disk, left):
    store = small_disk / "store"
    specs = plans(seeds=2)
    for spec in specs:
        Store(store).add(spec)
    ballast = fill(small_disk, left=left * 1024)
    found = run_locally(specs, str(store), effort=Effort(jobs=1))
    assert "No space left on device" in found.broken, found
    assert str(store) in found.broken
    assert found.failures == {}
    assert found.count("waiting") + found.count("stopped") == 2
    ballast.unlink()
    assert run_locally(specs, str(store)).count("done") == 2
    assert leftovers(store) == []


def test_a_disk_that_is_full_from_the_beginning_is_told_before_anything_begins(small_disk):
    store = small_disk / "store"
    ballast = fill(small_disk)
    told = Told()
    with pytest.raises(OSError, match="No space left on device") as raised:
        run_locally(SPECS, str(store), listener=told)
    assert str(raised.value.filename).startswith(str(store))
    assert told.begun == []
    assert leftovers(small_disk) == []
    ballast.unlink()
    assert run_locally(trainings(200), str(store)).count("done") == 1


@pytest.mark.slow
def test_a_store_that_becomes_read_only_stops_the_sweep(small_disk):
    store = small_disk / "store"

    def read_only() -> None:
        # The kernel refuses while files are open for writing; a read-only bind over the same place does not wait.
        subprocess.run(["mount", "--bind", str(small_disk), str(small_disk)], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(small_disk)], check=True)

    told = Told(at_first(lambda: all(has_checkpoint(store, spec) for spec in SPECS), read_only))
    found = run_locally(SPECS, str(store), effort=OFTEN, listener=told)
    try:
        assert "Read-only file system" in found.broken, found
        assert found.failures == {}
        assert set(found.states.values()) == {"stopped"}
        again = Told()
        found = run_locally(SPECS, str(store), effort=OFTEN, listener=again)
        assert "Read-only file system" in found.broken, found
        assert set(found.states.values()) == {"stopped"}
        with pytest.raises(OSError, match="Read-only file system"):
            run_locally(trainings(200, seeds=2), str(store))
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)
    assert run_locally(SPECS, str(store), effort=OFTEN).count("done") == 2
    assert leftovers(store) == []


def test_a_store_that_is_a_file_is_told_before_anything_begins(tmp_path):
    (tmp_path / "store").write_text("mine")
    with pytest.raises(ValueError, match="is a file, and a store is a folder"):
        run_locally(SPECS, str(tmp_path / "store"))
    assert (tmp_path / "store").read_text() == "mine"


def test_a_cut_off_row_about_an_attempt_is_forgotten(tmp_path):
    spec = trainings(200)[0]
    store = Store(tmp_path)
    store.add(spec)
    (store.folder(spec.id) / "attempts.jsonl").write_bytes(
        b'{"attempt": 1, "pid": 1, "began": "x"}\n{"attempt": 1, "en'
    )
    assert run_locally([spec], str(tmp_path)).count("done") == 1
    assert [row["attempt"] for row in store.attempts(spec.id)] == [1, 2, 2]
