from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
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
    store_at,
    trainings,
    wait_until,
    written,
)

from svrl.cli.plan_request import PlanRequest
from svrl.runs.stop_signals import ONE_WISH, Signals
from svrl.sweeps.engine import Effort, Summary
from svrl.sweeps.local_engine import _Engine, run_locally
from svrl.sweeps.machine import Machine, Share
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import open_store
from svrl.sweeps.sweep_file import Resources

SMALL = trainings(300, arms=("dqn", "sv-dqn"))
LONG = trainings(1500, arms=("dqn", "sv-dqn"), log_every=500)
OFTEN = Effort(checkpoint_every=0.2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the long runs become if nobody disturbs them."""
    place = tmp_path_factory.mktemp("undisturbed")
    run_locally(LONG, str(place), effort=OFTEN)
    return all_of(place, LONG)


def outcomes(place: Path, spec: RunSpec) -> list[str]:
    return [row["outcome"] for row in store_at(place).attempts(spec.id) if "outcome" in row]


def begun(place: Path, spec: RunSpec) -> int:
    return sum("began" in row for row in store_at(place).attempts(spec.id))


def assert_same(place: Path, undisturbed: dict[str, Any]) -> None:
    assert all_of(place, LONG) == undisturbed
    assert leftovers(place) == []


def test_all_runs_are_done_and_a_second_call_does_nothing(tmp_path):
    specs = [*SMALL, *plans()]
    told = Told()
    found = run_locally(specs, str(tmp_path), listener=told)
    assert found == Summary(states={spec.id: "done" for spec in specs})
    assert told.begun == [spec.id for spec in specs]
    assert sorted(told.ended) == sorted((spec.id, "done", "") for spec in specs)
    assert leftovers(tmp_path) == []
    for spec in specs:
        assert outcomes(tmp_path, spec) == ["done"]
        assert "written: " in "\n".join(store_at(tmp_path).log_tail(spec.id, 3))
        assert not is_there(process_of(tmp_path, spec))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = Told()
    assert run_locally(specs, str(tmp_path), listener=again) == found
    assert (again.begun, again.ended) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


@pytest.mark.slow
def test_sweeps_that_share_runs_do_each_once(tmp_path):
    first, both = trainings(200), trainings(200, seeds=2)
    run_locally(first, str(tmp_path))
    told = Told()
    found = run_locally(both, str(tmp_path), listener=told)
    assert found.count("done") == 2
    assert told.begun == [both[1].id]
    assert [begun(tmp_path, spec) for spec in both] == [1, 1]


def test_processes_stay_on_their_cores(tmp_path):
    seen: dict[int, str] = {}

    def look(told: Told) -> None:
        for process in at_work(tmp_path, LONG):
            status = Path(f"/proc/{process}/status").read_text()
            seen[process] = status.partition("Cpus_allowed_list:")[2].split()[0]

    cores = sorted(os.sched_getaffinity(0))
    run_locally(LONG, str(tmp_path), effort=Effort(jobs=min(2, len(cores))), listener=Told(look))
    assert len(seen) == 2
    assert all(allowed.isdecimal() for allowed in seen.values()), seen
    if len(cores) > 1:
        assert sorted(map(int, seen.values())) == cores[:2]
    config = json.loads((store_at(tmp_path).folder(LONG[0].id) / "run" / "config.json").read_text())
    assert config["threads"] == 1


@pytest.mark.slow
def test_more_processes_than_cores_share_them(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    seen: list[set[int]] = []

    def look(told: Told) -> None:
        seen.extend(os.sched_getaffinity(process) for process in at_work(tmp_path, specs) if is_there(process))

    specs = trainings(600, seeds=len(cores) + 1)
    found = run_locally(specs, str(tmp_path), effort=Effort(jobs=len(cores) + 1), listener=Told(look))
    assert found.count("done") == len(specs)
    assert seen
    assert all(allowed == set(cores) for allowed in seen)


MIXED = ("cpu", "cuda")
QUARTER = Resources(gpus=0.25)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Machine]:
    """Machines of any size, on which no other command is at work."""
    monkeypatch.setattr("svrl.sweeps.core_marks.marks_folder", lambda: tmp_path / "cores")

    def made(cores: int, cards: int, resources: Resources, jobs: int | None = None, memory_gb: float = 64.0) -> Machine:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
        monkeypatch.setattr("svrl.sweeps.machine._memory_gb", lambda: memory_gb)
        named = {f"cuda:{number}": str(number) for number in range(cards)}
        monkeypatch.setattr("svrl.sweeps.machine._cards", lambda devices: dict(named))
        return Machine.of(resources, jobs, MIXED if cards else ("cpu",))

    return made


def taken(machine: Machine, device: str) -> list[Share]:
    """As much as it gives for a device."""
    return list(iter(lambda: machine.take(device), None))


@pytest.mark.parametrize("order", [MIXED, MIXED[::-1]], ids=" before ".join)
def test_runs_without_a_card_take_the_cores_that_those_on_cards_leave(machine, order):
    large = machine(16, 2, QUARTER)
    found = {device: taken(large, device) for device in order}
    assert [(share.card, share.together) for share in found["cuda"]] == [("0", 4), ("1", 4)]
    assert [(share.card, share.together) for share in found["cpu"]] == [(None, 1)] * 8
    cores = [core for shares in found.values() for share in shares for core in share.cores]
    assert sorted(cores) == list(range(16))
    large.give_back(found["cpu"][0])
    assert large.take("cuda") is None
    assert large.take("cpu") == found["cpu"][0]
    large.give_back(found["cuda"][1])
    assert large.take("cpu") is None, "a card does not wait for cores"
    assert large.take("cuda:1") == found["cuda"][1]


def test_two_commands_do_not_take_the_same_cores_while_others_are_free(machine):
    one, other = machine(4, 0, Resources()), machine(4, 0, Resources())
    first, second, third = one.take("cpu"), other.take("cpu"), one.take("cpu")
    assert [share.cores for share in (first, second, third)] == [(0,), (1,), (2,)]
    one.give_back(first)
    assert [share.cores for share in taken(other, "cpu")] == [(0,), (3,), (2,)], "shared where none is free"


def test_runs_without_a_card_have_a_place_where_cards_leave_no_core(machine):
    small = machine(2, 1, QUARTER)
    assert [share.cores for share in taken(small, "cpu")] == [()]
    assert [share.cores for share in taken(small, "cuda")] == [()]


def test_jobs_and_memory_count_runs_on_cores_and_on_cards(machine):
    one = machine(16, 1, QUARTER, jobs=1)
    assert (len(taken(one, "cpu")), len(taken(one, "cuda"))) == (1, 0)
    three = machine(16, 1, QUARTER, jobs=3)
    assert (len(taken(three, "cpu")), len(taken(three, "cuda"))) == (2, 1)
    assert (one.runs_at_a_time, three.runs_at_a_time) == (4, 6)
    tight = machine(16, 1, Resources(gpus=0.25, memory_gb=8.0))
    assert tight.runs_at_a_time == 8
    assert (len(taken(tight, "cpu")), len(taken(tight, "cuda"))) == (4, 1)
    tighter = machine(16, 1, Resources(gpus=0.25, memory_gb=16.0))
    assert tighter.runs_at_a_time == 4, "three on the card and one beside it"
    assert [share.together for share in taken(tighter, "cuda")] == [3]
    assert len(taken(machine(8, 1, QUARTER, jobs=5), "cuda")) == 1, "a process a card"
    assert tight.notes == ["Note: 8 runs at a time, because each may take 8 GB of the machine's 64."]
    assert len(taken(machine(16, 0, QUARTER), "cpu")) == 16


def test_what_was_kept_for_cards_is_given_to_others_when_no_run_on_one_is_left(machine):
    done = machine(8, 1, QUARTER)
    before = taken(done, "cpu")
    done.keep_nothing_for_cards()
    assert (len(before), len(taken(done, "cpu"))) == (4, 4)


def test_a_card_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"asks for device cuda:3, and torch finds cuda:0, cuda:1 here\.$"):
        Machine.of(Resources(), None, ["cuda", "cuda:3"])


def test_a_store_that_cannot_be_read_any_more_lets_runs_save(tmp_path, monkeypatch):
    specs = [*LONG, *trainings(300, seeds=3)[2:]]
    broken = at_first(
        lambda: all(has_checkpoint(tmp_path, spec) for spec in LONG),
        lambda: monkeypatch.setattr("svrl.sweeps.driver.state_of", unreadable),
    )

    def unreadable(store: Any, run: str) -> Any:
        raise OSError(5, "Input/output error", "the store")

    found = run_locally(specs, str(tmp_path), effort=Effort(jobs=2, checkpoint_every=0.2), listener=Told(broken))
    assert found.broken == "the store: Input/output error."
    ends = [store_at(tmp_path).attempts(spec.id)[-1]["outcome"] for spec in LONG]
    assert set(ends) <= {"stopped", "done"}


def test_failures_are_told_and_stop_nobody(tmp_path):
    wrong = runs('[fixed]\npreset = "smoke"\nenv = "Nope-v3"')
    diverging = trainings(400, learning_rate=1e30)
    told = Told()
    found = run_locally([*wrong, *diverging, *SMALL], str(tmp_path), listener=told)
    assert [found.states[spec.id] for spec in SMALL] == ["done", "done"]
    assert set(found.failures) == {wrong[0].id, diverging[0].id}
    assert "There is no environment 'Nope-v3'" in found.failures[wrong[0].id]
    assert "update" in found.failures[diverging[0].id]
    assert "seed 0" in found.failures[diverging[0].id]
    for spec in (wrong[0], diverging[0]):
        last = store_at(tmp_path).attempts(spec.id)[-1]
        assert (last["outcome"], last["reason"]) == ("failed", found.failures[spec.id])
        assert any(found.failures[spec.id] in line for line in last["last_lines"])
    again = Told()
    assert run_locally([*wrong, *diverging], str(tmp_path), listener=again).failures == found.failures
    assert again.begun == []
    store_at(tmp_path).note(wrong[0].id, {"retry": "now"})
    run_locally(wrong, str(tmp_path), listener=again)
    assert again.begun == [wrong[0].id]


@pytest.mark.slow
def test_a_run_that_takes_too_much_memory_fails_alone(tmp_path):
    large = plans(states="3000", actions=3000, iterations=2)
    most = Resources(memory_gb=0.62)
    told = Told()
    found = run_locally([*large, *SMALL], str(tmp_path), resources=most, effort=Effort(jobs=1), listener=told)
    assert [found.states[spec.id] for spec in SMALL] == ["done", "done"], found
    reason = found.failures[large[0].id]
    assert "more than resources.memory_gb = 0.62" in reason
    assert float(reason.split()[3]) > 0.62
    assert outcomes(tmp_path, large[0]) == ["failed"]


def test_a_killed_process_goes_on_from_its_checkpoint(tmp_path, undisturbed):
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
def test_a_run_that_is_killed_too_often_fails(tmp_path):
    def kill(told: Told) -> None:
        for process in at_work(tmp_path, LONG[:1]):
            os.kill(process, signal.SIGKILL)

    found = run_locally(LONG[:1], str(tmp_path), effort=Effort(checkpoint_every=0.2, retries=1), listener=Told(kill))
    assert found.states == {LONG[0].id: "failed"}
    assert "SIGKILL" in found.failures[LONG[0].id]
    assert "That happened 2 times." in found.failures[LONG[0].id]
    assert outcomes(tmp_path, LONG[0]) == ["killed", "failed"]
    assert run_locally(LONG[:1], str(tmp_path)).count("failed") == 1  # whatever number is asked for later


def test_a_process_that_dies_far_from_its_store_is_told_at_once(tmp_path):
    """Its lease is still fresh then, so that it once looked as if somebody else had the run."""
    address = f"file://{tmp_path}"
    told = Told()
    found = run_locally(SMALL[:1], address, resources=Resources(memory_gb=0.05), listener=told)
    (row,) = [row for row in open_store(address).attempts(SMALL[0].id) if "outcome" in row]
    assert (row["outcome"], len(told.begun)) == ("failed", 1)
    assert "more than resources.memory_gb = 0.05" in row["reason"]
    assert found.count("done") == 0


@pytest.mark.slow
def test_a_run_that_somebody_else_tells_to_stop_is_begun_again(tmp_path, undisturbed):
    victim = LONG[1]
    stop = at_first(
        lambda: has_checkpoint(tmp_path, victim), lambda: os.kill(process_of(tmp_path, victim), signal.SIGTERM)
    )
    found = run_locally(LONG, str(tmp_path), effort=OFTEN, listener=Told(stop))
    assert found.count("done") == 2
    assert outcomes(tmp_path, victim) == ["stopped", "done"]
    assert_same(tmp_path, undisturbed)


def test_a_run_that_is_told_to_stop_too_often_is_left(tmp_path):
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
    left = f"Note: {LONG[0].label} was told to stop 2 times and is left. The same command goes on with it."
    assert told.said == [left]


@pytest.mark.slow
def test_runs_go_on_if_the_process_that_forks_them_is_killed(tmp_path, undisturbed):
    def kill_server() -> None:
        status = Path(f"/proc/{process_of(tmp_path, LONG[0])}/status").read_text()
        os.kill(int(status.partition("PPid:")[2].split()[0]), signal.SIGKILL)

    told = Told(at_first(lambda: all(has_checkpoint(tmp_path, spec) for spec in LONG), kill_server))
    found = run_locally(LONG, str(tmp_path), effort=OFTEN, listener=told)
    assert found.count("done") == 2, (found, told.ended)
    assert [begun(tmp_path, spec) for spec in LONG] == [2, 2]
    assert_same(tmp_path, undisturbed)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_saves_and_the_same_call_goes_on(tmp_path, undisturbed, number):
    stop = at_first(lambda: has_checkpoint(tmp_path, LONG[0]), lambda: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    found = run_locally(LONG, str(tmp_path), effort=OFTEN, listener=Told(stop))
    assert found.stopped == number
    assert set(found.states.values()) == {"stopped"}
    assert [outcomes(tmp_path, spec) for spec in LONG] == [["stopped"], ["stopped"]]
    assert not any(is_there(process_of(tmp_path, spec)) for spec in LONG)
    assert signal.getsignal(number) == before
    assert run_locally(LONG, str(tmp_path), effort=OFTEN).count("done") == 2
    assert_same(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(tmp_path, undisturbed):
    def twice(told: Told) -> None:
        if all(has_checkpoint(tmp_path, spec) for spec in LONG):
            processes.extend(process_of(tmp_path, spec) for spec in LONG)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(ONE_WISH)
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
    specs = trainings(100_000, seeds=3)
    found = run_locally(specs, str(tmp_path), effort=Effort(jobs=1, hours=3 / 3600))
    assert found.out_of_time
    assert found.stopped is None
    assert sorted(found.states.values()) == ["stopped", "waiting", "waiting"]
    assert outcomes(tmp_path, specs[0]) == ["stopped"]
    assert has_checkpoint(tmp_path, specs[0])


def test_a_plan_goes_on_with_the_threads_that_it_was_begun_with(tmp_path):
    spec = plans()[0]
    store = store_at(tmp_path)
    store.add(spec)
    folder = store.folder(spec.id) / "run"
    folder.mkdir()
    asked = PlanRequest(**spec.settings).config()
    (folder / "config.json").write_text(json.dumps({**asked, "threads": 3}))  # as killed before a checkpoint
    assert run_locally([spec], str(tmp_path)).failures == {}
    assert json.loads((folder / "config.json").read_text())["threads"] == 3


def everything(process: int) -> list[int]:
    return [*children_of(process), process]


STOPS: dict[str, tuple[Callable[[int], None], int]] = {
    "Ctrl-C in a terminal": (lambda pid: os.killpg(pid, signal.SIGINT), 130),
    "SIGINT to the driver": (lambda pid: os.kill(pid, signal.SIGINT), 130),
    "SIGTERM to the group": (lambda pid: os.killpg(pid, signal.SIGTERM), 143),
    "SIGTERM to everything": (lambda pid: [os.kill(one, signal.SIGTERM) for one in everything(pid)], 143),  # type: ignore
}


SLOWER = ("SIGINT to the driver", "SIGTERM to the group", "SIGTERM to everything")


@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.slow] * (how in SLOWER)) for how in STOPS])
def test_a_driver_that_is_stopped_leaves_no_process_and_goes_on(tmp_path, undisturbed, how):
    stop, code = STOPS[how]
    place, file = tmp_path / "store", written(tmp_path, LONG)
    process = driver(file, place, 0.2)
    wait_until(lambda: all(has_checkpoint(place, spec) for spec in LONG), process)
    processes = everything(process.pid)
    assert len(processes) >= 4
    stop(process.pid)
    out, errors = process.communicate()
    assert process.returncode == code, (out, errors)
    assert errors == ""
    wait_for_end(processes)
    ends = [outcomes(place, spec) for spec in LONG]
    assert all(end in (["stopped"], ["done"]) for end in ends), out  # one may be done just then
    assert ["stopped"] in ends
    assert run_locally(LONG, str(place), effort=OFTEN).count("done") == 2
    assert_same(place, undisturbed)


def wait_for_end(processes: list[int]) -> None:
    """The helpers of multiprocessing end a moment after the driver."""
    while any(is_there(process) for process in processes):
        time.sleep(0.02)


@pytest.mark.slow
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
    assert leftovers(place) == []


@pytest.fixture
def shared_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a card whose runs share a process, two at a time; here on the CPU."""
    take = Machine.take
    monkeypatch.setattr(Machine, "take", lambda self, device: (got := take(self, device)) and replace(got, together=2))


def test_one_process_takes_all_runs_of_a_card_and_each_is_told_when_it_begins_and_ends(
    tmp_path, shared_process, monkeypatch
):
    class InOrder(Told):
        def begins(self, spec: RunSpec) -> None:
            super().begins(spec)
            moments.append(f"begins {spec.id}")

        def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
            super().ends(spec, ended, reason)
            moments.append(f"{ended} {spec.id}")

    moments: list[str] = []
    monkeypatch.setattr("svrl.sweeps.local_engine.INSIDE_EVERY", 0.0)
    specs = trainings(1500, seeds=4)
    summary = run_locally(specs, str(tmp_path), effort=Effort(jobs=1), listener=InOrder())
    assert summary.count("done") == 4, summary.failures
    assert len({process_of(tmp_path, spec) for spec in specs}) == 1
    assert sorted(moments) == sorted(f"{word} {spec.id}" for spec in specs for word in ("begins", "done"))
    assert moments.index(f"done {specs[0].id}") < moments.index(f"begins {specs[3].id}"), "told in its time"


@pytest.mark.slow
def test_a_killed_process_of_several_runs_loses_none_of_them(tmp_path, shared_process):
    specs = trainings(3_000, seeds=4)
    kill = at_first(
        lambda: has_checkpoint(tmp_path, specs[0]), lambda: os.kill(process_of(tmp_path, specs[0]), signal.SIGKILL)
    )
    told = Told(kill)
    summary = run_locally(specs, str(tmp_path), effort=Effort(jobs=1, checkpoint_every=0.2), listener=told)
    assert summary.count("done") == 4, summary.failures
    ends = [[row["outcome"] for row in store_at(tmp_path).attempts(spec.id) if "outcome" in row] for spec in specs]
    assert ends[0] == ["killed", "done"]
    assert len({process_of(tmp_path, spec) for spec in specs}) == 1, "the next process took all that were left"
    assert [end[-1] for end in ends] == ["done"] * 4
    assert sum(one == "done" for end in ends for one in end) == 4
    assert leftovers(tmp_path) == []


def test_an_earlier_process_of_the_same_number_is_another(tmp_path):
    store = store_at(tmp_path)
    store.add(SMALL[0])
    store.note(SMALL[0].id, {"attempt": 1, "host": socket.gethostname(), "pid": 7, "began": "2026-01-01T00:00:00"})
    store.note(SMALL[0].id, {"attempt": 1, "outcome": "killed", "reason": "power cut"})
    job = SimpleNamespace(process=SimpleNamespace(pid=7), since="2026-01-02T00:00:00")
    engine = _Engine(store, Signals())
    assert engine._attempt_of(job, SMALL[0]) == (0, None)
    store.note(SMALL[0].id, {"attempt": 2, "host": socket.gethostname(), "pid": 7, "began": "2026-01-02T00:00:01"})
    assert engine._attempt_of(job, SMALL[0]) == (2, None)


def test_what_another_command_was_quicker_to_do_is_not_told_as_begun_here(tmp_path):
    def elsewhere(told: Told) -> None:
        """Another command does the run after this one has looked, and before its process does."""
        store = store_at(tmp_path)
        folder = store.folder(SMALL[0].id) / "run"
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "config.json").write_text("{}")
            (folder / "result.json").write_text("{}")

    told = Told()
    told.notes = lambda sentence: elsewhere(told)  # type: ignore[method-assign]
    run_locally(SMALL[:1], str(tmp_path), resources=Resources(cores=1_000), listener=told)
    assert told.begun == []
    assert told.ended == [(SMALL[0].id, "done", "by another command")]
