from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from svrl import __version__
from svrl.cli.run_list import Follower
from svrl.paper.catalogue import FIGURES, load_experiment
from svrl.runs.local import run_locally
from svrl.runs.spec import RunSpec
from svrl.runs.store import Store

ARMS = ["dqn", "sv-dqn"]
"""Of CartPole at smoke scale, one seed each."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The toy at smoke scale, computed once."""
    root = tmp_path_factory.mktemp("paper") / "store"
    run_locally(toy_runs(), str(root), here=True)
    return root


def toy_runs() -> list[RunSpec]:
    return list(load_experiment("toy_rank").budgets["smoke"].runs)


def result_of(root: Path, spec: RunSpec) -> Path:
    return Store(root).folder(spec.id) / "run" / "result.json"


def test_the_list_has_every_figure(svrl, svrl_json, tmp_path):
    rows = svrl_json("paper", "list", "--store", tmp_path)
    assert [row["figure"] for row in rows] == [figure.id for figure in FIGURES]
    for row in rows:
        assert row["minutes"] >= 0
        assert row["kept"] <= row["cells"]
    shown = svrl("paper", "list", "--scale", "laptop", "--store", tmp_path).stdout
    assert "fig30" in shown
    assert "atari_batch_size" in shown


def test_a_figure_is_run_drawn_and_judged(svrl, svrl_json, store, tmp_path):
    found = svrl_json("paper", "run", "fig1", "--store", store, "--out", tmp_path / "figures")
    assert (tmp_path / "figures" / "fig1-smoke.svg").read_text().lstrip().startswith("<?xml")
    assert found["figures"] == {"fig1": str(tmp_path / "figures" / "fig1-smoke.svg")}
    assert {claim["figure"] for claim in found["claims"]} == {"fig1"}
    shown = svrl("paper", "run", "1", "--store", store, "--out", tmp_path, "--format", "pdf")
    assert shown.exit_code == 0
    assert f"written: {tmp_path / 'fig1-smoke.pdf'}" in shown.stdout
    assert (tmp_path / "fig1-smoke.pdf").read_bytes().startswith(b"%PDF")


def test_a_second_call_computes_nothing(svrl, store, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*.json")}
    assert before
    shown = svrl("paper", "run", "toy_rank", "--store", store, "--out", tmp_path)
    assert " runs" not in shown.stderr
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*.json")} == before


def test_only_what_is_missing_is_computed(svrl, store, tmp_path):
    mine = tmp_path / "store"
    shutil.copytree(store, mine)
    result_of(mine, toy_runs()[0]).unlink()
    before = {path: path.stat().st_mtime_ns for path in mine.rglob("result.json")}
    shown = svrl("paper", "run", "fig1", "--store", mine, "--out", tmp_path)
    assert "smoke scale: 1 runs" in shown.stderr
    after = {path: path.stat().st_mtime_ns for path in mine.rglob("result.json")}
    assert len(after) == len(before) + 1
    assert {path: after[path] for path in before} == before


def test_check_is_a_row_for_every_claim(svrl, svrl_json, store):
    rows = svrl_json("paper", "check", "--store", store)
    for name in ("claim", "section", "figure", "paper", "ours", "interval", "verdict", "scale"):
        assert all(name in row for row in rows)
    figures = {row["figure"] for row in rows}
    assert {f"fig{number}" for number in range(1, 31)} - {"fig2", "fig5"} | {"table1"} <= figures
    for row in rows:
        for name, value in row.items():
            assert value is not None or row[f"{name}_reason"], (row["claim"], name)
    shown = svrl("paper", "check", "--store", store)
    ours = sum(row["addition"] for row in rows)
    assert f"{len(rows) - ours} claims of the paper:" in shown.stdout
    assert f"{ours} claims of our additions:" in shown.stdout


def test_a_note_says_if_another_svrl_computed_what_is_kept(svrl, store, tmp_path):
    mine = tmp_path / "store"
    shutil.copytree(store, mine)
    path = Store(mine).folder(toy_runs()[0].id) / "attempts.jsonl"
    path.write_text(path.read_text().replace(f'"svrl": "{__version__}"', '"svrl": "0.0.1"'))
    shown = svrl("paper", "check", "fig1", "--store", mine)
    assert "Note: not all results are of this svrl" in shown.stderr
    assert "1 by svrl 0.0.1" in shown.stderr
    assert "not all results" not in svrl("paper", "check", "fig1", "--store", store).stderr


def test_the_page_is_written(svrl, store, tmp_path, monkeypatch):
    # One experiment draws everything that is looked at here; the whole page is looked at in a browser.
    monkeypatch.setattr("svrl.paper.catalogue.load_all", lambda: [load_experiment("toy_rank")])
    shown = svrl("paper", "report", "--store", store, "--out", tmp_path / "report")
    assert shown.exit_code == 0, shown.stderr
    page = tmp_path / "report" / "index.html"
    assert f"written: {page}" in shown.stdout
    content = page.read_bytes()
    for word in (b"Figure 1", b"toy", b"reproduced", b"svrl paper run toy_rank"):
        assert word in content


@pytest.fixture
def cartpole(svrl, tmp_path):
    """`svrl paper run cartpole` with a store of its own."""

    def run(*options: object):
        return svrl("paper", "run", "cartpole", *options, "--store", tmp_path / "store", "--out", tmp_path / "out")

    return run


def arms_kept(root: Path) -> dict[str, dict[str, Any]]:
    """What the trainings of a store came to, by arm."""
    found = [json.loads((folder / "result.json").read_text()) for _, folder in Store(root).kept()]
    return {kept["settings"]["arm"]: kept for kept in found}


def test_only_runs_that_fit_are_done(cartpole, tmp_path):
    assert [spec.settings["arm"] for spec in load_experiment("cartpole_learning").budgets["smoke"].runs] == ARMS
    shown = cartpole("--where", "arm=sv-dqn", "--where", "seed=0")
    assert shown.exit_code == 0, shown.stderr
    assert "smoke scale: 2 runs" in shown.stderr, "a training and its study"
    found = arms_kept(tmp_path / "store")
    assert list(found) == ["sv-dqn"]
    assert "written:" not in shown.stdout  # the figure needs the other arm too
    command = "svrl paper run cartpole --scale smoke --where arm=sv-dqn --where seed=0"
    assert found["sv-dqn"]["provenance"]["command"] == command
    shown = cartpole("--where", "arm=*dqn")
    assert "smoke scale: 2 runs" in shown.stderr
    assert sorted(arms_kept(tmp_path / "store")) == ARMS
    assert f"written: {tmp_path / 'out' / 'cartpole-smoke.svg'}" in shown.stdout


def test_trainings_of_a_sweep_are_found(svrl, cartpole, tmp_path):
    training = load_experiment("cartpole_learning").budgets["smoke"].runs[1].after[0]
    settings = {name: value for name, value in training.settings.items() if value is not None}
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (tmp_path / "sweep.toml").write_text(f"[fixed]\n{lines}\n")
    assert svrl("sweep", "run", tmp_path / "sweep.toml", "--store", tmp_path / "store").exit_code == 0
    shown = cartpole("--where", "arm=sv-dqn")
    assert shown.exit_code == 0, shown.stderr
    assert list(arms_kept(tmp_path / "store")) == ["sv-dqn"]
    assert sum("began" in row for row in Store(tmp_path / "store").attempts(training.id)) == 1


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("weather=rain", "these runs have no setting 'weather'. Did you mean batches? They have "),
        ("arm=dueling", "At smoke scale these figures have no run with arm=dueling. arm is dqn or sv-dqn."),
        ("dqn", "--where is NAME=VALUE, as in --where seed=0; got 'dqn'."),
    ],
)
def test_what_no_run_has_is_refused_before_any_work(cartpole, tmp_path, where, words):
    shown = cartpole("--where", where)
    assert shown.exit_code == 2
    assert words in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_a_signal_keeps_what_is_done_and_the_same_command_resumes(cartpole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Follower, "begins", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        shown = cartpole()
    assert shown.exit_code == 130
    assert f"Stopped; what was done is in {tmp_path / 'store'}. Resume with: svrl paper run cartpole" in shown.stderr
    assert arms_kept(tmp_path / "store") == {}
    assert cartpole().exit_code == 0
    assert sorted(arms_kept(tmp_path / "store")) == ARMS
