"""svrl sweep from a user's side: real runs, small ones."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from svrl.runs.driver import Summary

SWEEP = """
[fixed]
preset = "smoke"
hidden = [16]

[axes]
env = ["CartPole-v1", "nowhere:NoSuchGame-v7"]
arm = ["dqn", "sv-dqn"]
p = [0.5, 0.9]

[[exclude]]
env = "nowhere:NoSuchGame-v7"
structured = true

[[exclude]]
arm = "sv-dqn"
p = 0.5

[budget]
steps = 100
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "small.toml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def swept(file: Path) -> tuple[Path, Path, int]:
    """The file, a store in which it was run, and the exit code."""
    from typer.testing import CliRunner

    from svrl.cli.main import app

    store = file.parent / "store"
    result = CliRunner().invoke(app, ["sweep", "run", str(file), "--store", str(store)])
    return file, store, result.exit_code


def test_a_plan_says_what_there_is_to_do_and_begins_nothing(svrl_json, svrl, file, tmp_path):
    found = svrl_json("sweep", "plan", file, "--store", tmp_path / "none")
    labels = [row["label"] for row in found["runs"]]
    assert labels == [
        "CartPole-v1 dqn hidden=16 steps=100 seed 0",
        "CartPole-v1 sv-dqn hidden=16 steps=100 p=0.9 seed 0",
        "nowhere:NoSuchGame-v7 dqn hidden=16 steps=100 seed 0",
    ]
    assert (found["left"], found["steps"], found["seconds"]) == (3, 300, None)
    assert not (tmp_path / "none").exists()
    assert "3 runs, 3 to be done, 300 agent steps" in svrl("sweep", "plan", file).stdout


def test_a_run_that_fails_does_not_stop_the_others(swept, svrl_json, svrl):
    file, store, code = swept
    assert code == 1
    found = svrl_json("sweep", "status", file, "--store", store)
    assert [row["state"] for row in found["runs"]] == ["done", "done", "failed"]
    assert found["runs"][2]["reason"].startswith("nowhere:NoSuchGame-v7 could not be created: ModuleNotFoundError(")
    shown = svrl("sweep", "status", file, "--store", store).stdout
    assert "2 done" in shown
    assert "nowhere:NoSuchGame-v7" in shown
    assert svrl_json("sweep", "status", "--store", store)[0]["failed"] == 1


EXTRAS = """
[fixed]
preset = "smoke"

[axes]
env = ["atari/pong", "minatar/breakout", "minatar/freeway", "CartPole-v1"]
seeds = 2
"""


@pytest.fixture
def extras(tmp_path, monkeypatch) -> Path:
    """A sweep on a machine that has neither ale-py nor minatar."""
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.setitem(sys.modules, "minatar", None)
    path = tmp_path / "extras.toml"
    path.write_text(EXTRAS)
    return path


ATARI = '2 runs cannot be made here: Atari needs ale-py, which is not installed. Run: pip install "svrl[atari]".'
MINATAR = '4 runs cannot be made here: MinAtar needs minatar, which is not installed. Run: pip install "svrl[minatar]".'


def test_missing_extras_are_told_once_before_anything_begins(svrl, extras, tmp_path):
    result = svrl("sweep", "run", extras, "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert result.stderr == f"Error: {ATARI} {MINATAR} Or leave them out by --where. Nothing was begun.\n"
    assert not (tmp_path / "store").exists()


def test_a_plan_notes_missing_extras(svrl, svrl_json, extras, tmp_path):
    found = svrl_json("sweep", "plan", extras, "--store", tmp_path / "store")
    assert found["notes"][-2:] == [f"Note: {ATARI}", f"Note: {MINATAR}"]
    shown = " ".join(svrl("sweep", "plan", extras, "--store", tmp_path / "store").stdout.split())
    assert ATARI in shown
    some = svrl_json("sweep", "plan", extras, "--store", tmp_path, "--where", "env=CartPole-v1")
    assert not any("pip install" in note for note in some["notes"])


def test_on_a_cluster_a_missing_extra_is_a_note(svrl, extras, tmp_path, monkeypatch):
    """The machine of the command may lack what the nodes have."""
    given = []

    def run_on_ray(specs, address, **_):
        given.extend(specs)
        return Summary(states={spec.id: "waiting" for spec in specs})

    monkeypatch.setattr("svrl.runs.ray_pool.run_on_ray", run_on_ray)
    result = svrl("sweep", "run", extras, "--store", tmp_path / "store", "--on", "ray")
    assert len(given) == 8
    for sentence in (ATARI, MINATAR):
        assert f"Note: {sentence} On a cluster its nodes need it, and this machine does not.\n" in result.stderr
    assert "Error" not in result.stderr


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["seed=[0, 99]"], 3),
        (["seed=0", "--where", "seed=99"], 3),
        (["seed=0,99", "--where", "arm=sv-dqn,double"], 1),
    ],
)
def test_a_value_of_where_that_matches_nothing_is_noted(svrl, file, tmp_path, where, found):
    result = svrl("sweep", "status", file, "--store", tmp_path, "--where", *where, "--json")
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["runs"]) == found
    notes = [line for line in result.stderr.splitlines() if line.startswith("Note: none of these")]
    assert any("has seed=99. seed is 0." in note for note in notes)
    assert len(notes) == 1 + ("double" in where[-1])


def test_widths_are_one_value_of_where(svrl_json, tmp_path):
    path = tmp_path / "widths.toml"
    path.write_text('[axes]\nenv = "CartPole-v1"\nhidden = [[8, 4], [8], [4]]\n')
    for widths in ("8,4", "8x4", "[8, 4]"):
        found = svrl_json("sweep", "status", path, "--store", tmp_path, "--where", f"hidden={widths}")
        assert [run["label"] for run in found["runs"]] == ["CartPole-v1 dqn hidden=8x4 seed 0"]


def times_of(store: Path) -> dict[Path, int]:
    """When the files of all runs were written."""
    return {path: path.stat().st_mtime_ns for path in store.glob("*/*/**/*") if path.is_file()}


def test_what_is_done_is_not_done_again(swept, svrl):
    file, store, _ = swept
    before = times_of(store)
    again = svrl("sweep", "run", file, "--store", store)
    assert again.exit_code == 1
    assert "1 of 3 runs failed" in again.stderr
    assert "begun" not in again.stderr
    assert f"svrl sweep retry {file} --store {store} --failed" in again.stderr
    assert times_of(store) == before
    some = svrl("sweep", "run", file, "--store", store, "--where", "env=CartPole-v1")
    assert some.exit_code == 0


def test_finished_runs_tell_how_long_the_next_will_take(swept, svrl_json, tmp_path):
    file, store, _ = swept
    more = tmp_path / "more.toml"
    more.write_text(file.read_text().replace("[axes]", "[axes]\nseeds = 2"))
    found = svrl_json("sweep", "plan", more, "--store", store, "--where", "env=CartPole-v1", "--jobs", 1)
    assert (len(found["runs"]), found["left"]) == (4, 2)  # seed 0 of both is done: the same runs
    assert found["seconds"] > 0


def test_retry_is_for_those_that_failed(swept, svrl, svrl_json):
    file, store, _ = swept
    assert svrl_json("sweep", "retry", file, "--failed", "--store", store) == {
        "retried": ["nowhere:NoSuchGame-v7 dqn hidden=16 steps=100 seed 0"]
    }
    states = [row["state"] for row in svrl_json("sweep", "status", file, "--store", store)["runs"]]
    assert states == ["done", "done", "waiting"]
    again = svrl("sweep", "run", file, "--store", store)
    assert again.exit_code == 1
    attempts = next(path for path in store.glob("*/*/attempts.jsonl") if "retry" in path.read_text())
    assert [json.loads(line).get("attempt") for line in attempts.read_text().splitlines()] == [1, 1, None, 2, 2]


def test_rows_are_exported_as_one_table(swept, svrl_json, svrl, tmp_path):
    file, store, _ = swept
    done = svrl_json("sweep", "export", file, "--store", store, "--out", tmp_path / "rows.csv")
    assert (done["rows"], done["runs"], done["left_out"]) == (2, 2, {"failed": 1})
    said = svrl("sweep", "export", file, "--store", store, "--out", tmp_path / "rows.csv").stderr
    assert said == "Note: 1 of 3 runs are left out: 1 failed.\n"
    whole = ("--where", "env=CartPole-v1", "--out", tmp_path / "whole.csv")
    assert svrl("sweep", "export", file, "--store", store, *whole).stderr == ""
    with (tmp_path / "rows.csv").open() as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["env"], row["arm"], row["steps"]) for row in rows] == [
        ("CartPole-v1", "dqn", "100"),
        ("CartPole-v1", "sv-dqn", "100"),
    ]
    games = svrl_json("sweep", "export", file, "--store", store, "--rows", "episodes", "--out", tmp_path / "games.csv")
    assert games["rows"] == sum(int(row["episodes"]) for row in rows)
    assert svrl("sweep", "export", file, "--store", store, "--out", tmp_path / "rows.xls").exit_code == 2


def test_ctrl_c_before_the_first_run_has_begun_is_as_quiet_as_later(file, tmp_path):
    """A terminal tells all processes of a command; the one that prepares the others once died with a traceback."""
    command = [sys.executable, "-m", "svrl", "sweep", "run", str(file), "--store", str(tmp_path / "store")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (tmp_path / "store" / "sweeps" / "small.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    out, said = process.communicate()
    assert "Traceback" not in out + said
    assert process.returncode == 130
    assert f"Resume with: svrl sweep run {file}" in said
