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
    table = tmp_path / "dest" / "training-atari.jsonl"
    lines = table.read_text()
    assert {json.loads(line)["settings"]["arm"] for line in lines.splitlines()} == {"dqn", "sv-dqn"}
    again = add(tmp_path, "frostbite")
    assert "0 new cells" in again.stdout
    assert table.read_text() == lines


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
