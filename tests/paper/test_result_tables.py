"""The scripts that print the tables of docs/evidence.md, on the committed cells."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What a script prints."""

    def run(script: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [script, *words])
        monkeypatch.syspath_prepend(str(RESULTS))
        runpy.run_path(str(RESULTS / script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_a_game_with_another_technique(printed):
    page = (RESULTS.parent / "docs" / "evidence.md").read_text()
    shown = printed("game_table.py", "frostbite", "--technique", "dueling")
    assert shown.startswith("| | `dueling` | `sv-dueling` | `sv-dueling-network` |\n")
    (scores,) = (line for line in shown.splitlines() if line.startswith("| score, last 100 games"))
    assert scores.removeprefix("| score, last 100 games | ").removesuffix(" |") in page


def test_a_game_with_larger_batches(printed):
    page = (RESULTS.parent / "docs" / "evidence.md").read_text()
    shown = printed("game_table.py", "seaquest", "--batch-size", "128")
    assert "| beats `dqn` | | 4 of 9 pairs | 4 of 9 pairs |" in shown
    (pooled,) = (line for line in shown.splitlines() if "all arms as repetitions: score" in line)
    assert pooled.endswith("score, last 100 games +227 [128, 326] on 441")
    assert "by 227 points [128, 326] (last 100 games; Welch)" in page


def test_what_is_not_complete_is_said(printed):
    with pytest.raises(SystemExit, match=r"gopher is not complete: double has 0 of 3 seeds\. results/add_game"):
        printed("game_table.py", "gopher", "--technique", "double")
    with pytest.raises(SystemExit, match=r"gopher is not complete: dqn with \{'batch_size': 64\} has 0 of 3"):
        printed("game_table.py", "gopher", "--batch-size", "64")


def test_ways_to_add_structure(printed):
    shown = printed("control_ways_table.py").splitlines()
    assert shown[0].endswith("| beats plain | beats the authors' | beats rows centred |")
    assert [line.split(" | ")[0] for line in shown[2:4]] == ["| plain", "| authors"]
    assert "0.27 [0.17, 0.38]" in shown[3]
