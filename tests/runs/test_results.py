"""Runs that keep no run directory of their own: what they come to, who waits for whom, and stops in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from local_rig import Told, children_of, is_there

from svrl.agents.config import AgentConfig
from svrl.runs.local import run_locally
from svrl.runs.spec import Effort, Kind, Result, RunSpec, Work
from svrl.runs.store import Store, read_first
from svrl.runs.train_run import TRAIN, training
from svrl.runtime.stop_signals import Signals


def square(settings: Mapping[str, Any], work: Work) -> Result:
    x = settings["x"]
    return Result(rows=[{"value": x**2, "bad": float("nan")}], arrays={"ramp": np.arange(x)} if x % 2 else {})


def broken(settings: Mapping[str, Any], work: Work) -> Result:
    raise ZeroDivisionError("a bug")


def endless(settings: Mapping[str, Any], work: Work) -> Result:
    """Says that it has begun, and goes on until somebody stops it."""
    work.folder.mkdir(parents=True, exist_ok=True)
    (work.folder / "begun").write_text("")
    while True:
        time.sleep(0.1)


def steps_of(settings: Mapping[str, Any], work: Work) -> Result:
    """The rows of a training that it comes after."""
    (folder,) = work.after
    found = json.loads((folder / "result.json").read_text())
    return Result(rows=[{"steps": found["steps"]}], trained={"machine": "another"})


SQUARE, BROKEN, ENDLESS = (Kind(name=made.__name__, compute=made) for made in (square, broken, endless))


SMALL = training("CartPole-v1", AgentConfig.for_env("CartPole-v1", "smoke", steps=100))
STUDY = RunSpec(kind=Kind(name="study", compute=steps_of), settings={"of": "CartPole-v1"}, after=(SMALL,))


def run_of(x: int, kind: Kind = SQUARE) -> RunSpec:
    return RunSpec(kind=kind, settings={"x": x})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.mark.parametrize("here", [True, False])
def test_what_runs_come_to_is_read_again(store, here):
    specs = [run_of(x) for x in (1, 2, 3)]
    threads = torch.get_num_threads()
    told = Told()
    found = run_locally(specs, store.address, here=here, effort=Effort(command="squares 1 2 3"), listener=told)
    assert set(found.states.values()) == {"done"}
    assert sorted(told.begun) == sorted(spec.id for spec in specs)
    assert torch.get_num_threads() == threads
    for spec in specs:
        kept, x = store.read(spec), spec.settings["x"]
        assert kept is not None
        assert (kept.kind, kept.id, kept.settings, kept.source) == ("square", spec.id, {"x": x}, "here")
        assert kept.rows == [{"value": x**2, "bad": None, "bad_reason": "not finite: nan"}]
        assert kept.provenance["command"] == "squares 1 2 3"
        assert kept.provenance["seconds"] >= 0.0
        assert {name: list(array) for name, array in kept.arrays.items()} == ({"ramp": list(range(x))} if x % 2 else {})
    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()}
    assert run_locally(specs, store.address, here=here) == found
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()} == before


def test_a_run_is_its_kind_its_version_and_its_settings():
    newer = replace(SQUARE, version=2)
    others = [run_of(3), run_of(4), RunSpec(kind=newer, settings={"x": 3}), run_of(3, BROKEN)]
    assert len({spec.id for spec in others}) == 4
    same = RunSpec(kind=SQUARE, settings={"x": 3}, device="cuda", minutes=9.0, after=(SMALL,))
    assert same.id == run_of(3).id


def test_the_first_store_that_has_a_run_is_read(store, tmp_path):
    other = Store(tmp_path / "other")
    for one, x in ((store, 3), (other, 3), (other, 4)):
        one.keep(run_of(x), Result(rows=[{"value": str(one.root)}]), {})
    found = [read_first(run_of(x), (store, other)) for x in (3, 4, 5)]
    assert [kept and kept.rows[0]["value"] for kept in found] == [str(store.root), str(other.root), None]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("result.json", "{", "is damaged"),
        ("result.json", '{"settings": {"x": 4}, "rows": []}', "does not hold what its name says. Delete it"),
        ("arrays.npz", None, "arrays.npz is missing. Delete result.json beside it"),
    ],
)
def test_what_is_damaged_is_named(store, name, text, words):
    run_locally([run_of(3)], store.address, here=True)
    path = store.folder(run_of(3).id) / "run" / name
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ValueError, match=words):
        store.read(run_of(3))


@pytest.mark.parametrize("here", [True, False])
def test_a_failure_is_the_runs_own_and_a_retry_does_it_again(store, here):
    specs = [run_of(1, BROKEN), run_of(2)]
    found = run_locally(specs, store.address, here=here)
    assert list(found.states.values()) == ["failed", "done"]
    assert found.failures == {specs[0].id: "ZeroDivisionError: a bug"}
    assert run_locally(specs, store.address, here=here) == found
    assert sum("began" in row for row in store.attempts(specs[0].id)) == 1
    store.retry(specs[0].id)
    run_locally(specs, store.address, here=here)
    assert sum("began" in row for row in store.attempts(specs[0].id)) == 2


@pytest.mark.parametrize("here", [True, False])
def test_a_run_waits_for_those_that_it_comes_after(store, here):
    told = Told()
    found = run_locally([STUDY], store.address, here=here, listener=told)
    assert set(found.states.values()) == {"done"}
    assert told.begun == [SMALL.id, STUDY.id]
    kept = store.read(STUDY)
    assert kept is not None
    assert kept.rows == [{"steps": 100}]
    assert kept.provenance["trained"] == {"machine": "another"}


def test_a_run_whose_forerunner_fails_stays_waiting(store):
    bad = replace(STUDY, after=(run_of(1, BROKEN),))
    found = run_locally([bad, run_of(2)], store.address, here=True)
    assert list(found.states.values()) == ["failed", "waiting", "done"]


def test_a_training_that_one_list_has_done_is_found_by_another(store):
    run_locally([SMALL], store.address)
    told = Told()
    run_locally([SMALL, STUDY], store.address, here=True, listener=told)
    assert told.begun == [STUDY.id]
    assert SMALL.kind is TRAIN


DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {rig!r}]
from test_results import ENDLESS, run_of
from svrl.runs.spec import Effort
from svrl.runs.local import run_locally

if __name__ == "__main__":
    found = run_locally([run_of(x, ENDLESS) for x in range(4)], "store", effort=Effort(jobs=2), here={here})
    print(found.stopped, sorted(found.states.values()))
"""


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_runs_that_cannot_resume_stop_at_once_and_leave_nothing(tmp_path, number, here):
    tests = str(Path(__file__).parent)
    (tmp_path / "driver.py").write_text(DRIVER.format(tests=tests, rig=tests, here=here))
    process = subprocess.Popen(
        [sys.executable, "driver.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(list(tmp_path.rglob("begun"))) < (1 if here else 2):
        assert process.poll() is None
        time.sleep(0.1)
    workers = children_of(process.pid)
    # A terminal tells Ctrl-C to everybody; whoever ends a job tells its first process, and timeout(1) tells it twice.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
        time.sleep(0.01)
        os.kill(process.pid, number)
    stopped = 1 if here else 2
    states = ["stopped"] * stopped + ["waiting"] * (4 - stopped)
    assert process.communicate()[0] == f"{int(number)} {states}\n"
    assert list(tmp_path.rglob("result.json")) == []
    while any(is_there(worker) for worker in workers):  # a helper of multiprocessing ends a moment later
        time.sleep(0.02)


def test_a_signal_that_came_before_begins_nothing(store):
    signals = Signals()
    signals.came = signal.SIGTERM
    found = run_locally([run_of(1)], store.address, here=True, signals=signals)
    assert (found.stopped, list(found.states.values())) == (signal.SIGTERM, ["waiting"])
