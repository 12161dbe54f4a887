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


def add(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {"SCALE": "smoke", "DEVICE": "cpu", "TOGETHER": "2", "PYTHON": sys.executable}
    settings |= {"STORE": str(tmp_path / "store"), "DEST": str(tmp_path / "dest")}
    command = ["bash", str(ROOT / "results" / "add_game.sh"), *words]
    return subprocess.run(command, env=os.environ | settings, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_game_is_added_once_and_never_written_over(tmp_path: Path) -> None:
    for words in (("frostbite", "0", "arm=dqn"), ("frostbite", "0")):
        done = add(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        assert "1 new runs" in done.stdout
    table = tmp_path / "dest" / "training-atari.jsonl"
    lines = table.read_text()
    assert {json.loads(line)["settings"]["arm"] for line in lines.splitlines()} == {"dqn", "sv-dqn"}
    assert "0 new runs" in add(tmp_path, "frostbite").stdout
    assert table.read_text() == lines


def test_no_game_says_how_it_is_used(tmp_path: Path) -> None:
    done = add(tmp_path)
    assert done.returncode == 2
    assert "usage: results/add_game.sh GAME" in done.stderr
