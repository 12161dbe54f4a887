"""results/add_game.sh: the real command at smoke scale; what is there is never written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ale_py")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "results" / "add_game.sh"


def add(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "SCALE": "smoke",
        "DEVICE": "cpu",
        "TOGETHER": "2",
        "JOBS": "1",
        "STORE": str(tmp_path / "store"),
        "DEST": str(tmp_path / "dest"),
        "PYTHON": sys.executable,
    }
    everything = {**os.environ, **settings}
    command = ["bash", str(SCRIPT), *words]
    return subprocess.run(command, env=everything, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_game_is_added_once_and_never_written_over(tmp_path: Path) -> None:
    one = add(tmp_path, "frostbite", "0", "arm=dqn")
    assert one.returncode == 0, one.stderr
    assert "1 new cells" in one.stdout
    done = add(tmp_path, "frostbite", "0")
    assert done.returncode == 0, done.stderr
    assert "1 new cells" in done.stdout
    cells = sorted((tmp_path / "dest" / "training-atari").glob("*.json"))
    assert {json.loads(cell.read_text())["settings"]["arm"] for cell in cells} == {"dqn", "sv-dqn"}
    assert not list((tmp_path / "dest").rglob("*.new"))
    cells[0].write_text("mine")
    again = add(tmp_path, "frostbite")
    assert "0 new cells" in again.stdout
    assert cells[0].read_text() == "mine"


@pytest.mark.slow  # the sentence is that of svrl paper run --where, which has tests of its own
def test_a_game_that_is_not_there_is_one_sentence_and_adds_nothing(tmp_path: Path) -> None:
    done = add(tmp_path, "chess")
    assert done.returncode == 2
    assert (
        "No cell of these figures at smoke scale has env=atari/chess. There are atari/alien, atari/frostbite."
        in done.stderr
    )
    assert not (tmp_path / "dest").exists()


def test_no_game_says_how_it_is_used(tmp_path: Path) -> None:
    done = add(tmp_path)
    assert done.returncode != 0
    assert "usage: results/add_game.sh GAME" in done.stderr
