"""A sweep on this machine: each run is done once and becomes what it is undisturbed, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from local_rig import (
    Told,
    all_of,
    at_first,
    at_work,
    children_of,
    driver,
    has_checkpoint,
    is_there,
    leftovers,
    plans,
    process_of,
    runs,
    trainings,
    wait_until,
    written,
)

from svrl.runs import local
from svrl.runs.driver import Summary
from svrl.runs.local import LocalPool, Room, run_locally
from svrl.runs.spec import Effort, Kind, RunSpec
from svrl.runs.store import Store
from svrl.runs.train_run import config_of
from svrl.runs.work import carry_out
from svrl.runtime.stop_signals import ONE_REQUEST, Signals
from svrl.training.session import train_in_directory

SMALL = trainings(300, arms=("dqn", "sv-dqn"))
LONG = trainings(1500, arms=("dqn", "sv-dqn"), log_every=500)
OFTEN = Effort(checkpoint_every=0.2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the long runs become by plain calls, one after another, with as many threads as a worker has."""
    place, threads = tmp_path_factory.mktemp("undisturbed"), torch.get_num_threads()
    torch.set_num_threads(1)
    for spec in LONG:
        folder = Store(place).folder(spec.id) / "run"
        train_in_directory(spec.subject, config_of(spec.settings), folder=folder, seed=spec.seed)
    torch.set_num_threads(threads)
    return all_of(place, LONG)


def outcomes(place: Path, spec: RunSpec) -> list[str]:
    return [row["outcome"] for row in Store(place).attempts(spec.id) if "outcome" in row]


def begun(place: Path, spec: RunSpec) -> int:
    return sum("began" in row for row in Store(place).attempts(spec.id))


def assert_same(place: Path, undisturbed: dict[str, Any]) -> None:
    assert all_of(place, LONG) == undisturbed
    assert leftovers(place) == []


def test_all_runs_are_done_and_a_second_call_does_nothing(tmp_path):
    specs = [*SMALL, *plans()]
    told = Told()
    found = run_locally(specs, str(tmp_path), listener=told)
    assert found == Summary(states={spec.id: "done" for spec in specs})
    assert sorted(told.begun) == sorted(spec.id for spec in specs)
    assert sorted(told.ended) == sorted((spec.id, "done", "") for spec in specs)
    assert leftovers(tmp_path) == []
    for spec in specs:
        assert outcomes(tmp_path, spec) == ["done"]
        assert not is_there(process_of(tmp_path, spec))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = Told()
    assert run_locally(specs, str(tmp_path), listener=again) == found
    assert (again.begun, again.ended) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


@pytest.mark.parametrize(
    ("effort", "gpus", "at_a_time", "note"),
    [
        (Effort(), 0, 16, ""),
        (Effort(cores=4), 0, 4, ""),
        (Effort(cores=32), 0, 1, "runs ask for 32 cores each, and this machine lends 16"),
        (Effort(jobs=3), 0, 3, ""),
        (Effort(memory_gb=16), 0, 4, "4 runs at a time, because each may take 16 GB of the machine's 64"),
        (Effort(), 2, 2, ""),
        (Effort(gpus=0.25), 2, 8, ""),
        (Effort(gpus=0.25, jobs=1), 2, 4, ""),
        (Effort(gpus=0.25, memory_gb=16), 2, 4, "4 runs at a time"),
    ],
)
def test_as_many_runs_at_a_time_as_cores_gpus_and_memory_allow(monkeypatch, effort, gpus, at_a_time, note):
    monkeypatch.setattr(local, "usable_cores", lambda: 16)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 64_000, "SC_PAGE_SIZE": 1_000_000}[name])
    monkeypatch.setattr(local, "_gpus", lambda devices: {f"cuda:{number}": str(number) for number in range(gpus)})
    said: list[str] = []
    assert Room.of(effort, ["cpu"], said.append).at_a_time == at_a_time
    assert note in " ".join(said)
    assert bool(said) == bool(note)


def test_a_gpu_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"asks for device cuda:3, and torch finds cuda:0, cuda:1 here\.$"):
        Room.of(Effort(), ["cuda", "cuda:3"])


def test_failures_are_told_and_stop_nobody(tmp_path):
    wrong = runs('[fixed]\npreset = "smoke"\nenv = "Nope-v3"')
    diverging = trainings(400, learning_rate=1e30)
    damaged = plans()
    store = Store(tmp_path)
    store.add(damaged[0])
    (store.folder(damaged[0].id) / "run").mkdir()
    (store.folder(damaged[0].id) / "run" / "config.json").write_text("{")
    bad = [*wrong, *diverging, *damaged]
    found = run_locally([*bad, *SMALL], str(tmp_path))
    assert [found.states[spec.id] for spec in SMALL] == ["done", "done"]
    assert set(found.failures) == {spec.id for spec in bad}
    assert "There is no environment 'Nope-v3'" in found.failures[wrong[0].id]
    assert "seed 0: the loss is not finite at update" in found.failures[diverging[0].id]
    assert "config.json" in found.failures[damaged[0].id]
    for spec in bad:
        last = store.attempts(spec.id)[-1]
        assert (last["outcome"], last["reason"]) == ("failed", found.failures[spec.id])
        assert any(found.failures[spec.id] in line for line in last["last_lines"])
    again = Told()
    assert run_locally(bad, str(tmp_path), listener=again).failures == found.failures
    assert again.begun == []
    store.note(wrong[0].id, {"retry": "now"})
    run_locally(wrong, str(tmp_path), listener=again)
    assert again.begun == [wrong[0].id]


def test_a_killed_worker_is_replaced_and_its_run_resumes_from_its_checkpoint(tmp_path, undisturbed):
    victim = LONG[0]
    kill = at_first(
        lambda: has_checkpoint(tmp_path, victim), lambda: os.kill(process_of(tmp_path, victim), signal.SIGKILL)
    )
    told = Told(kill)
    found = run_locally(LONG, str(tmp_path), effort=OFTEN, listener=told)
    assert found.count("done") == 2
    assert outcomes(tmp_path, victim) == ["killed", "done"]
    assert "SIGKILL" in next(reason for run, ended, reason in told.ended if ended == "killed")
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_run_whose_worker_is_killed_too_often_fails(tmp_path):
    def kill(told: Told) -> None:
        for process in at_work(tmp_path, LONG[:1]):
            os.kill(process, signal.SIGKILL)

    found = run_locally(LONG[:1], str(tmp_path), effort=Effort(checkpoint_every=0.2, retries=1), listener=Told(kill))
    assert "SIGKILL" in found.failures[LONG[0].id]
    assert "That happened 2 times." in found.failures[LONG[0].id]
    assert outcomes(tmp_path, LONG[0]) == ["killed", "failed"]


@pytest.mark.slow
def test_a_run_that_others_tell_to_stop_is_begun_again_but_not_for_ever(tmp_path, undisturbed):
    stopped: list[int] = []

    def stop(told: Told) -> None:
        for process in at_work(tmp_path, LONG[:1]):
            if has_checkpoint(tmp_path, LONG[0]) and process not in stopped:
                stopped.append(process)
                os.kill(process, signal.SIGTERM)

    told = Told(stop)
    found = run_locally(LONG[:1], str(tmp_path), effort=Effort(checkpoint_every=0.2, retries=1), listener=told)
    assert found.states == {LONG[0].id: "stopped"}
    assert outcomes(tmp_path, LONG[0]) == ["stopped", "stopped"]
    left = "It was stopped from outside 2 times and is left. The same command resumes it."
    assert told.ended == [(LONG[0].id, "stopped", ""), (LONG[0].id, "stopped", left)]
    assert run_locally(LONG, str(tmp_path), effort=OFTEN).count("done") == 2
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(tmp_path, undisturbed):
    def twice(told: Told) -> None:
        if all(has_checkpoint(tmp_path, spec) for spec in LONG):
            processes.extend(process_of(tmp_path, spec) for spec in LONG)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(ONE_REQUEST)
            os.kill(os.getpid(), signal.SIGINT)

    processes: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run_locally(LONG, str(tmp_path), effort=OFTEN, listener=Told(twice))
    assert len(processes) == 2
    assert not any(is_there(process) for process in processes)
    assert run_locally(LONG, str(tmp_path), effort=OFTEN).count("done") == 2
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_no_run_is_begun_after_the_hours_are_over_and_those_at_work_are_saved(tmp_path):
    specs = trainings(1_000_000, seeds=3)
    found = run_locally(specs, str(tmp_path), effort=Effort(jobs=1, hours=40 / 3600))
    assert (found.out_of_time, found.stopped) == (True, None)
    assert sorted(found.states.values()) == ["stopped", "waiting", "waiting"]
    assert outcomes(tmp_path, specs[0]) == ["stopped"]
    assert has_checkpoint(tmp_path, specs[0])


def test_a_plan_resumes_with_the_threads_that_it_was_begun_with(tmp_path):
    spec = plans()[0]
    store = Store(tmp_path)
    store.add(spec)
    folder = store.folder(spec.id) / "run"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({**spec.settings, "device": "cpu", "threads": 3})
    )  # as killed before a checkpoint
    assert run_locally([spec], str(tmp_path)).failures == {}
    assert json.loads((folder / "config.json").read_text())["threads"] == 3


STOPS: dict[str, tuple[Callable[[int], object], int]] = {
    "Ctrl-C in a terminal": (lambda pid: os.killpg(pid, signal.SIGINT), 130),
    "SIGTERM to the driver": (lambda pid: os.kill(pid, signal.SIGTERM), 143),
    "SIGTERM to the group": (lambda pid: os.killpg(pid, signal.SIGTERM), 143),
}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.slow] * how.startswith("SIGTERM")) for how in STOPS]
)
def test_a_driver_that_is_stopped_leaves_no_process_and_the_same_call_resumes(tmp_path, undisturbed, how):
    stop, code = STOPS[how]
    place, file = tmp_path / "store", written(tmp_path, LONG)
    process = driver(file, place, 0.2)
    wait_until(lambda: any(has_checkpoint(place, spec) for spec in LONG), process)
    processes = [*children_of(process.pid), process.pid]
    assert len(processes) >= 3
    stop(process.pid)
    out, errors = process.communicate()
    assert process.returncode == code, (out, errors)
    assert errors == ""
    while any(is_there(process) for process in processes):  # a helper of multiprocessing ends a moment later
        time.sleep(0.02)
    ends = [outcomes(place, spec) for spec in LONG]
    assert all(end in (["stopped"], ["done"], []) for end in ends), out  # one may be done just then, or not begun
    assert ["stopped"] in ends
    assert run_locally(LONG, str(place), effort=OFTEN).count("done") == 2
    assert_same(place, undisturbed)


def test_two_drivers_on_one_store_do_each_run_once(tmp_path):
    specs = trainings(200, seeds=4)
    place, file = tmp_path / "store", written(tmp_path, specs)
    drivers = [driver(file, place) for _ in range(2)]
    told = [process.communicate() for process in drivers]
    assert [process.returncode for process in drivers] == [0, 0], told
    for out, errors in told:
        assert errors == ""
        assert set(json.loads(out.splitlines()[-1].removeprefix("summary "))["states"].values()) == {"done"}
    assert [begun(place, spec) for spec in specs] == [1] * 4
    assert [outcomes(place, spec) for spec in specs] == [["done"]] * 4
    assert leftovers(place) == []


def test_a_process_killed_between_the_result_and_its_row_is_completed(tmp_path):
    (spec,), store = SMALL[:1], Store(tmp_path)
    store.add(spec)
    folder = store.folder(spec.id) / "run"
    train_in_directory(spec.subject, config_of(spec.settings), folder=folder, seed=spec.seed)
    store.note(spec.id, {"attempt": 1, "began": "2026-01-01T00:00:00"})
    (folder / "checkpoints").mkdir()
    assert run_locally([spec], str(tmp_path)).count("done") == 1
    assert outcomes(tmp_path, spec) == ["done"]
    assert leftovers(tmp_path) == []


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs share a process, two at a time, as on a GPU; here on the CPU."""
    monkeypatch.setattr(local, "is_gpu", lambda device: True)
    room = Room(cores=1, jobs=1, gpus={"cpu": ""}, together=2)
    monkeypatch.setattr(local.Room, "of", classmethod(lambda cls, *_: room))
    monkeypatch.setattr(local, "ITS_GPU", "cpu")


@pytest.mark.usefixtures("one_gpu")
def test_runs_of_a_gpu_share_a_process_and_a_failure_is_each_ones_own(tmp_path):
    specs = [*trainings(200, seeds=3), *trainings(200, learning_rate=1e30)]
    found = run_locally(specs, str(tmp_path))
    assert [found.states[spec.id] for spec in specs] == ["done", "done", "done", "failed"]
    assert len({process_of(tmp_path, spec) for spec in specs}) == 1
    began, ended = (
        sorted(Store(tmp_path).attempts(spec.id)[at][name] for spec in specs)
        for at, name in ((0, "began"), (1, "ended"))
    )
    assert began[1] < ended[0] <= began[2], "two beside each other, and the next after one"


@pytest.mark.usefixtures("one_gpu")
def test_a_killed_process_of_several_runs_loses_none_of_them(tmp_path, undisturbed):
    kill = at_first(
        lambda: all(has_checkpoint(tmp_path, spec) for spec in LONG),
        lambda: os.kill(process_of(tmp_path, LONG[0]), signal.SIGKILL),
    )
    found = run_locally(LONG, str(tmp_path), effort=OFTEN, listener=Told(kill))
    assert found.count("done") == 2, found.failures
    assert [outcomes(tmp_path, spec) for spec in LONG] == [["killed", "done"]] * 2
    assert_same(tmp_path, undisturbed)


def test_a_store_that_cannot_be_read_any_more_lets_runs_save(tmp_path, monkeypatch):
    def unreadable(self: Any, *_: Any) -> Any:
        raise OSError(5, "Input/output error", "the store")

    specs = [*LONG, *trainings(300, seeds=3)[2:]]
    broken = at_first(
        lambda: all(has_checkpoint(tmp_path, spec) for spec in LONG),
        lambda: monkeypatch.setattr(LocalPool, "take", unreadable),
    )
    found = run_locally(specs, str(tmp_path), effort=Effort(jobs=2, checkpoint_every=0.2), listener=Told(broken))
    assert found.broken == "the store: Input/output error."
    assert {outcomes(tmp_path, spec)[-1] for spec in LONG} <= {"stopped", "done"}


def test_a_run_that_exits_is_a_failed_run(tmp_path):
    def exits(*_: object) -> None:
        sys.exit(0)

    store, spec = Store(tmp_path), RunSpec(kind=Kind(name="exits", compute=exits), settings={})
    store.add(spec)
    assert carry_out(store, spec, Effort(), Signals()) == ("failed", "SystemExit: 0")
    assert store.attempts(spec.id)[-1]["outcome"] == "failed"
