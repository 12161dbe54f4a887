from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from svrl.cli.paper_work import PaperWork
from svrl.paper.catalogue import FIGURES, load_experiment
from svrl.paper.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The toy at smoke scale, computed once."""
    root = tmp_path_factory.mktemp("paper") / "cells"
    PaperWork(scale="smoke", store=root).compute(
        [figure for figure in FIGURES if figure.id == "fig1"], device="cpu", jobs=1, command="svrl paper run fig1"
    )
    return root


def test_the_list_has_every_figure(svrl, svrl_json, tmp_path):
    rows = svrl_json("paper", "list", "--store", tmp_path)
    assert [row["figure"] for row in rows] == [figure.id for figure in FIGURES]
    for row in rows:
        assert row["minutes"] >= 0
        assert row["kept"] <= row["cells"]
    shown = svrl("paper", "list", "--scale", "laptop", "--store", tmp_path).stdout
    assert "fig30" in shown
    assert "atari_batch_size" in shown


def test_the_list_counts_as_kept_what_run_does_not_compute(svrl, svrl_json, tmp_path):
    """At laptop scale everything is computed again, though it ships with svrl; at short scale it is read."""
    toy, ways = ({row["figure"]: row for row in _listed(svrl_json, scale, tmp_path)} for scale in ("laptop", "short"))
    assert toy["fig1"]["kept"] == 0
    assert toy["fig1"]["shipped"] == toy["fig1"]["cells"] > 0
    assert ways["ways"]["kept"] == ways["ways"]["shipped"] == ways["ways"]["cells"] > 0


def _listed(svrl_json, scale: str, store: Path) -> list[dict]:
    return svrl_json("paper", "list", "--scale", scale, "--store", store)


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
    assert "to compute" not in shown.stderr
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*.json")} == before


def test_only_what_is_missing_is_computed(svrl, store, tmp_path):
    cells = load_experiment("toy_rank").budgets["smoke"].cells
    mine = tmp_path / "cells"
    shutil.copytree(store, mine)
    Store(root=mine)._file(cells[0]).unlink()
    before = {path: path.stat().st_mtime_ns for path in mine.rglob("*.json")}
    shown = svrl("paper", "run", "fig1", "--store", mine, "--out", tmp_path)
    assert "1 cells to compute" in shown.stderr
    after = {path: path.stat().st_mtime_ns for path in mine.rglob("*.json")}
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


def test_the_claims_of_some_figures_can_be_checked_alone(svrl, svrl_json, store):
    rows = svrl_json("paper", "check", "fig1", "table1", "--store", store)
    assert {row["figure"] for row in rows} == {"fig1", "table1"}
    shown = svrl("paper", "check", "ways", "--store", store)
    assert "Claims that smoke scale cannot judge or settle were judged from short scale." in shown.stdout
    wrong = svrl("paper", "check", "fig99", "--store", store)
    assert wrong.exit_code == 2
    assert "There is no figure or experiment 'fig99'." in wrong.stderr


def test_names_of_claims_are_not_broken_within_a_word(svrl, store, monkeypatch):
    monkeypatch.setattr("svrl.cli.paper_tables._console", lambda: Console(width=90))
    shown = svrl("paper", "check", "fig1", "--store", store).stdout
    lines = [line for line in shown.splitlines() if "toy-rank-stays-low-under-" in line]
    assert len(lines) == 1
    assert "reconstruction" in shown


def test_a_half_finished_run_is_not_judged(svrl_json, store, tmp_path):
    mine = tmp_path / "cells"
    shutil.copytree(store, mine)
    cells = load_experiment("toy_rank").budgets["smoke"].cells
    Store(root=mine)._file(cells[0]).unlink()
    rows = svrl_json("paper", "check", "--store", mine)
    assert not [row for row in rows if row["scale"] == "smoke" and row["source"] == "here" and row["figure"] == "fig1"]


def test_results_of_another_version_are_left_out_and_said(svrl, store, tmp_path):
    mine = tmp_path / "cells"
    shutil.copytree(store, mine)
    for path in mine.rglob("*.json"):
        text = json.loads(path.read_text())
        text["provenance"]["svrl"] = "0.0.0"
        path.write_text(json.dumps(text))
    shown = svrl("paper", "check", "--store", mine)
    assert f"cells that lie in {mine} are of another version and are left out" in shown.stderr
    shown = svrl("paper", "run", "fig1", "--store", mine, "--out", tmp_path)
    assert "to compute" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "fig31"), "There is no figure or experiment 'fig31'. Did you mean fig"),
        (("run", "fig1", "--scale", "huge"), "There is no scale 'huge'"),
        (("run", "fig1", "--format", "gif"), "There is no format 'gif'. Choose one of pdf, png, svg."),
        (("report", "--format", "pdf"), "The browser makes the PDF: write the page with --format html"),
        (("report", "--format", "htm"), "There is no format 'htm'. Did you mean html?"),
        (("--scale", "laptop", "check"), "--scale stands before check"),
        (("run", "fig1", "--device", "gpu"), "There is no device 'gpu'"),
    ],
)
def test_bad_use_gets_one_sentence(svrl, arguments, words):
    shown = svrl("paper", *arguments)
    assert shown.exit_code == 2
    assert words in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_damaged_cell_is_named(svrl, store, tmp_path):
    mine = tmp_path / "cells"
    shutil.copytree(store, mine)
    path = next(mine.rglob("*.json"))
    path.write_text("{")
    shown = svrl("paper", "check", "--store", mine)
    assert shown.exit_code == 2
    assert f"{path} is damaged" in shown.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_write_permission(svrl, store, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    for command in (("run", "fig1"), ("report",)):
        shown = svrl("paper", *command, "--store", store, "--out", closed / "inside")
        assert shown.exit_code == 2
        assert "cannot be written to" in shown.stderr


def test_a_file_in_the_way(svrl, store, tmp_path):
    (tmp_path / "file").write_text("mine")
    shown = svrl("paper", "report", "--store", store, "--out", tmp_path / "file" / "report")
    assert shown.exit_code == 2
    assert "is a file" in shown.stderr
    assert svrl("paper", "check", "--store", tmp_path / "file").exit_code == 2
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("form", ["html", pytest.param("md", marks=pytest.mark.slow)])
def test_the_page_is_written(svrl, store, tmp_path, monkeypatch, form):
    # One experiment draws everything that is looked at here; the whole page is looked at in a browser.
    monkeypatch.setattr("svrl.cli.paper_work.load_all", lambda: [load_experiment("toy_rank")])
    shown = svrl("paper", "report", "--store", store, "--out", tmp_path / "report", "--format", form)
    assert shown.exit_code == 0, shown.stderr
    page = tmp_path / "report" / f"index.{form}"
    assert f"written: {page}" in shown.stdout
    content = page.read_bytes()
    content += (tmp_path / "report" / "toy_rank.md").read_bytes() if form == "md" else b""
    for word in (b"Figure 1", b"toy", b"reproduced", b"svrl paper run toy_rank"):
        assert word in content
