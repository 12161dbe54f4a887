from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal

import numpy as np
import pytest

from svrl.cli.train import TrainProgress
from svrl.runs.settings import spec_of
from svrl.runtime.rows import read_rows


@pytest.fixture
def folder(tmp_path, trained, svrl, svrl_json, monkeypatch):
    """A finished, an interrupted and a damaged run, a plan, and things that are no runs."""
    monkeypatch.setattr("svrl.runs.plan_run._write_figures", lambda *_: None)
    shutil.copytree(trained, tmp_path / "deep" / "er" / "finished")
    calls = iter(range(10**6))
    with monkeypatch.context() as patch:
        stop = lambda _: os.kill(os.getpid(), signal.SIGINT) if next(calls) == 250 else None  # noqa: E731
        patch.setattr(TrainProgress, "__call__", stop)
        options = ("--preset", "smoke", "--hidden", 32, "--structured", "--seed", 7, "--threads", 1, "--device", "cpu")
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
    assert (broken["env"], broken["arm"], broken["seed"], broken["steps_wanted"]) == (
        "CartPole-v1",
        "sv-dqn-network",
        7,
        400,
    )
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
    monkeypatch.chdir(tmp_path)
    result = svrl("runs")  # nobody has run anything yet, which is no mistake
    assert (result.exit_code, result.stdout) == (0, "No runs in runs.\n")
    (tmp_path / "runs").touch()
    assert "runs is not a folder" in svrl("runs").stderr


def _but(name, **fields):
    def change(run):
        found = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({**found, **fields}))

    return change


def _flip(run):
    content = bytearray((run / "agent.npz").read_bytes())
    content[300] ^= 1  # in the first weights; what a zip file says twice, or pads with, may change without harm
    (run / "agent.npz").write_bytes(content)


def _pipe(run):
    (run / "config.json").unlink()
    os.mkfifo(run / "config.json")


def _rows(run):
    (run / "result.json").unlink()
    (run / "episodes.jsonl").write_text('{"steps": 5, "score": "many"}\n')


def _checkpoints(run):
    (run / "result.json").unlink()
    (run / "checkpoints").mkdir()
    for number in range(2):
        (run / "checkpoints" / f"{number:09d}.npz").write_bytes((run / "agent.npz").read_bytes()[:-100])


def _planning(run):
    (run / "result.json").unlink()
    (run / "config.json").write_text('{"task": "toy"}')
    (run / "checkpoint.pt").write_bytes(b"half")


BAD = {
    "checkpoints": (_checkpoints, "No checkpoint can be used. The newest: "),
    "planning": (_planning, "checkpoint.pt is damaged"),
    "brackets": (lambda run: (run / "config.json").write_text("[" * 200_000), "config.json is damaged"),
    "words": (_but("config.json", steps="many"), "Its files hold what no run writes"),
    "nan": (_but("result.json", steps_per_second=float("nan")), "NaN is no number of JSON"),
    "agent": (_flip, "agent.npz is damaged"),
    "no agent": (lambda run: (run / "agent.npz").unlink(), "agent.npz"),
    "pipe": (_pipe, "config.json is not a regular file"),
    "rows": (_rows, "Its files hold what no run writes"),
}


def test_no_run_hides_the_others(svrl, svrl_json, tmp_path, trained):
    shutil.copytree(trained, tmp_path / "good")
    for name, (harm, _) in BAD.items():
        harm(shutil.copytree(trained, tmp_path / name))
    shutil.copytree(trained, tmp_path / "sweep" / "run")
    (tmp_path / "sweep" / "spec.json").write_text("[" * 200_000)
    found = {os.path.basename(row["run"]): row for row in svrl_json("runs", tmp_path)}
    assert {found[name]["state"] for name in ("good", "run")} == {"finished"}
    shown = svrl("runs", tmp_path)
    assert shown.exit_code == 0, shown.exception
    table, *_ = shown.stdout.partition(" is damaged: ")
    assert max(map(len, table.splitlines()[:-1])) < 150, "what is wrong with one run does not widen the table"
    for name, (_, words) in BAD.items():
        assert found[name]["state"] == "damaged", name
        assert words in found[name]["reason"], name
        assert f"{name} is damaged: {found[name]['reason']}\n" in shown.stdout, name


def test_names_do_not_steer_the_terminal(svrl, tmp_path, trained):
    run = shutil.copytree(trained, tmp_path / "\x1b[2Jrun")
    _but("config.json", env="\x1b]0;title\x07")(run)
    for shown in (svrl("runs", tmp_path).stdout, svrl("eval", tmp_path / "\x1b[2Jnone").stderr):
        assert "\x1b" not in shown
        assert "\\x1b[2J" in shown
