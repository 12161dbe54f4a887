from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal

import numpy as np
import pytest

from svrl.cli.train_progress import TrainProgress
from svrl.runs.rows import read_rows
from svrl.sweeps.grid import runs_of
from svrl.sweeps.settings import spec_of
from svrl.sweeps.store import Store
from svrl.sweeps.sweep_file import parse_sweep


@pytest.fixture
def folder(tmp_path, trained, svrl, svrl_json, monkeypatch):
    """A finished, an interrupted and a damaged run, a plan, and things that are no runs."""
    monkeypatch.setattr("svrl.cli.plan_files._write_figures", lambda *_: None)
    shutil.copytree(trained, tmp_path / "deep" / "er" / "finished")
    calls = iter(range(10**6))
    with monkeypatch.context() as patch:
        stop = lambda _: os.kill(os.getpid(), signal.SIGINT) if next(calls) == 250 else None  # noqa: E731
        patch.setattr(TrainProgress, "__call__", stop)
        options = ("--preset", "smoke", "--hidden", 32, "--structured", "--seed", 7, "--threads", 1)
        assert svrl("train", "CartPole-v1", *options, "--out", tmp_path / "broken").exit_code == 130
    plan = ("--method", "value-iteration", "--iterations", 3, "--states", 50, "--actions", 10, "--threads", 1)
    svrl_json("plan", "toy", *plan, "--out", tmp_path / "plan")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text('{"env": ')
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("mine")
    return tmp_path


def test_every_run_and_its_state(svrl, svrl_json, folder, trained):
    rows = {os.path.relpath(row["run"], folder): row for row in svrl_json("runs", folder)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "broken": "interrupted",
        "deep/er/finished": "finished",
        "plan": "finished",
        "torn": "damaged",
    }
    result = json.loads((trained / "result.json").read_text())
    finished = rows["deep/er/finished"]
    for name in ("steps", "episodes", "evaluation", "score_last_100"):
        assert finished[name] == result[name]
    broken = rows["broken"]
    assert (broken["env"], broken["arm"], broken["seed"], broken["steps_wanted"]) == ("CartPole-v1", "sv-dqn", 7, 400)
    scores = [row["score"] for row in read_rows(folder / "broken" / "episodes.jsonl")]
    assert broken["score_last_100"] == pytest.approx(np.mean(scores[-100:]))
    assert 200 <= broken["steps"] <= 251
    assert rows["plan"]["kind"] == "plan"
    assert rows["plan"]["task"] == "toy"
    shown = svrl("runs", folder)
    for word in ("deep/er/finished", "interrupted", "damaged", "value-iteration", "of 400", "loss"):
        assert word in shown.stdout


def test_a_run_of_a_sweep_has_its_name_and_one_beside_a_strange_file_has_none(svrl, svrl_json, tmp_path, trained):
    spec = spec_of("train", {"env": "control/inverted-pendulum", "actions": 5, "batch_size": 16, "seed": 3})
    places = {"good": spec.id, "moved": "0123456789abcdef", "torn": "torn", "none": "none"}
    for name in places.values():
        shutil.copytree(trained, tmp_path / "sweeps" / "runs" / name / "run")
    for name in ("good", "moved"):
        (tmp_path / "sweeps" / "runs" / places[name] / "spec.json").write_text(json.dumps(spec.as_json()))
    (tmp_path / "sweeps" / "runs" / "torn" / "spec.json").write_text('{"id": "to')
    rows = {os.path.basename(os.path.dirname(row["run"])): row for row in svrl_json("runs", tmp_path)}
    label = "control/inverted-pendulum dqn actions=5 batch_size=16 seed 3"
    assert {name: row.get("label") for name, row in rows.items()} == {
        spec.id: label,
        "0123456789abcdef": None,  # not what lies there
        "torn": None,
        "none": None,
    }
    shown = svrl("runs", tmp_path).stdout.splitlines()
    at = next(at for at, line in enumerate(shown) if label in line)
    assert "finished" in shown[at]
    assert shown[at + 1].split() == [f"sweeps/runs/{spec.id}/run"]
    assert "…" not in "".join(shown)


def test_a_run_that_somebody_is_at_work_in(svrl_json, folder):
    lock = os.open(folder / "broken", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {os.path.basename(row["run"]): row["state"] for row in svrl_json("runs", folder)}
    finally:
        os.close(lock)
    assert rows["broken"] == "running"
    rows = {os.path.basename(row["run"]): row["state"] for row in svrl_json("runs", folder)}
    assert rows["broken"] == "interrupted"


def test_a_folder_without_runs(svrl, svrl_json, tmp_path, monkeypatch):
    assert svrl_json("runs", tmp_path) == []
    assert "No runs in" in svrl("runs", tmp_path).stdout
    result = svrl("runs", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr
    monkeypatch.chdir(tmp_path)
    result = svrl("runs")  # nobody has run anything yet, which is no mistake
    assert (result.exit_code, result.stdout) == (0, "No runs in runs.\n")
    (tmp_path / "runs").touch()
    assert "runs is not a folder" in svrl("runs").stderr


def test_runs_of_a_sweep_stand_in_the_order_of_their_names(svrl_json, tmp_path, trained):
    seeds = (10, 9, 2)
    text = 'kind = "train"\n[fixed]\nenv = "CartPole-v1"\npreset = "smoke"\n[axes]\nseed = [10, 9, 2]\n'
    specs = dict(zip(seeds, runs_of(parse_sweep(text, "test")), strict=True))
    store = Store(tmp_path / "sweep")
    for spec in specs.values():
        store.add(spec)
        shutil.copytree(trained, store.folder(spec.id) / "run")
    for name in ("alone", "zoo"):
        shutil.copytree(trained, tmp_path / name)
    wanted = [tmp_path / "alone", *(store.folder(specs[seed].id) / "run" for seed in sorted(seeds)), tmp_path / "zoo"]
    assert [row["run"] for row in svrl_json("runs", tmp_path)] == [str(path) for path in wanted]
