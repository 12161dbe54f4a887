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

SWEEP = """
[fixed]
preset = "smoke"
hidden = [16]

[axes]
env = ["CartPole-v1", "NoSuchGame-v7"]
arm = ["dqn", "sv-dqn"]
p = [0.5, 0.9]

[[exclude]]
env = "NoSuchGame-v7"
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
    found = svrl_json("sweep", "plan", file, "--store", tmp_path / "none", "--no-tries")
    labels = [row["label"] for row in found["runs"]]
    assert labels == [
        "CartPole-v1 dqn hidden=16 steps=100 seed 0",
        "CartPole-v1 sv-dqn hidden=16 steps=100 observe=0.9 seed 0",
        "NoSuchGame-v7 dqn hidden=16 steps=100 seed 0",
    ]
    assert (found["left"], found["steps"], found["seconds"]) == (3, 300, None)
    assert not (tmp_path / "none").exists()
    assert "3 runs, 3 to be done, 300 agent steps" in svrl("sweep", "plan", file, "--no-tries").stdout


def test_a_run_that_fails_does_not_stop_the_others(swept, svrl_json, svrl):
    file, store, code = swept
    assert code == 1
    found = svrl_json("sweep", "status", file, "--store", store)
    assert [row["state"] for row in found["runs"]] == ["done", "done", "failed"]
    assert found["runs"][2]["reason"].startswith("There is no environment 'NoSuchGame-v7'.")
    shown = svrl("sweep", "status", file, "--store", store).stdout
    assert "2 done" in shown
    assert "NoSuchGame-v7" in shown
    assert svrl_json("sweep", "status", "--store", store)[0]["failed"] == 1


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
    assert f"svrl sweep retry {file} --failed --store {store}" in again.stderr
    assert times_of(store) == before
    some = svrl("sweep", "run", file, "--store", store, "--where", "env=CartPole-v1")
    assert some.exit_code == 0


def test_a_finished_run_tells_how_fast_the_next_will_be(swept, svrl_json, tmp_path):
    file, store, _ = swept
    more = tmp_path / "more.toml"
    more.write_text(file.read_text().replace("[axes]", "[axes]\nseeds = 2"))
    found = svrl_json("sweep", "plan", more, "--store", store, "--where", "env=CartPole-v1", "--no-tries")
    assert (len(found["runs"]), found["left"]) == (4, 2)  # seed 0 of both is done: the same runs
    assert [row["source"] for row in found["sorts"]] == ["finished runs", "finished runs"]
    assert found["seconds"] > 0


def test_a_short_try_tells_it_too(svrl_json, file, tmp_path):
    found = svrl_json("sweep", "plan", file, "--store", tmp_path, "--where", "env=CartPole-v1", "--where", "arm=dqn")
    (sort,) = found["sorts"]
    assert sort["source"] == "a short try"
    assert found["seconds"] == pytest.approx(sort["steps"] / sort["steps_per_second"])  # one run is not shared out
    assert list(tmp_path.iterdir()) == []


def test_retry_is_for_those_that_failed(swept, svrl, svrl_json):
    file, store, _ = swept
    assert svrl("sweep", "retry", file, "--store", store).exit_code == 2
    assert svrl_json("sweep", "retry", file, "--failed", "--store", store) == {
        "retried": ["NoSuchGame-v7 dqn hidden=16 steps=100 seed 0"]
    }
    states = [row["state"] for row in svrl_json("sweep", "status", file, "--store", store)["runs"]]
    assert states == ["done", "done", "waiting"]
    again = svrl("sweep", "run", file, "--store", store)
    assert again.exit_code == 1
    attempts = next(path for path in store.glob("*/*/attempts.jsonl") if "retry" in path.read_text())
    assert [json.loads(line).get("attempt") for line in attempts.read_text().splitlines()] == [1, 1, None, 2, 2]


def test_runs_of_another_code_are_found_by_its_name(swept, svrl, svrl_json):
    file, store, _ = swept
    code = svrl_json("sweep", "status", "--store", store)[0]["code"]
    found = svrl_json("sweep", "status", file, "--store", store, "--code", code, "--where", "env=CartPole-v1")
    assert [run["state"] for run in found["runs"]] == ["done", "done"]
    other = svrl("sweep", "status", file, "--store", store, "--code", "0.0.1-none")
    assert other.exit_code == 2
    assert f"has no runs of small by the code 0.0.1-none. It has those of {code}." in other.stderr
    assert svrl("sweep", "status", file, "--store", store, "--code", code, "--set", "steps=1").exit_code == 2


def test_rows_are_exported_as_one_table(swept, svrl_json, svrl, tmp_path):
    file, store, _ = swept
    done = svrl_json("sweep", "export", file, "--store", store, "--out", tmp_path / "rows.csv")
    assert (done["rows"], done["runs"]) == (2, 2)
    with (tmp_path / "rows.csv").open() as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["env"], row["arm"], row["steps"]) for row in rows] == [
        ("CartPole-v1", "dqn", "100"),
        ("CartPole-v1", "sv-dqn", "100"),
    ]
    games = svrl_json("sweep", "export", file, "--store", store, "--rows", "episodes", "--out", tmp_path / "games.csv")
    assert games["rows"] == sum(int(row["episodes"]) for row in rows)
    assert svrl("sweep", "export", file, "--store", store, "--out", tmp_path / "rows.xls").exit_code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "paper-75"), "There is no sweep 'paper-75'. Did you mean paper-57?"),
        (("run", "FILE", "--set", "stpes=3"), "svrl train has no option 'stpes'. Did you mean steps?"),
        (("run", "FILE", "--set", "steps"), "--set is NAME=VALUE, as in --set seed=0; got 'steps'."),
        (("run", "FILE", "--set", "steps=many"), "steps is a whole number, got 'many'."),
        (("run", "FILE", "--where", "seed=9"), "has no run with seed=9."),
        (("run", "FILE", "--on", "rays"), "There is no engine 'rays'. Did you mean ray?"),
        (("run", "FILE", "--address", "here:1"), "--address is of a Ray cluster: add --on ray."),
        (("run", "FILE", "--set", "device=cuda"), "torch finds no CUDA device here"),
        (("run", "paper-control", "--set", "observe=2", "--where", "method=svp"), "(0, 1]"),
        (("run", "FILE", "--checkpoint-every", "0"), "more than 0 seconds"),
        (("run", "FILE", "--hours", "0"), "hours must be more than 0, got 0."),
        (("export", "FILE", "--rows", "games", "--out", "x.csv"), "There is no table 'games'."),
        (("watch", "FILE", "--page", "--host", "203.0.113.7"), "The page cannot listen on 203.0.113.7 port 0"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(svrl, file, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    result = svrl("sweep", *(file if word == "FILE" else word for word in words))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


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
    assert f"Go on with: svrl sweep run {file}" in said
