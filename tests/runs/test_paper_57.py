"""The paper's grid end to end, at the smallest scale: every game, plain and structured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from svrl.envs.atari_games import GAMES


@pytest.mark.slow  # about half an hour on two busy cores
def test_all_57_games_run_in_two_arms(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "svrl", "sweep", "run", "paper-57", "--store", str(tmp_path), "--json"]
    command += ["--set", "preset=smoke", "--set", "device=cpu", "--where", "agent=dqn", "--where", "seed=0"]
    done = subprocess.run([*command, "--cores", "1", "--jobs", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    runs = json.loads(done.stdout)["runs"]
    assert {run["state"] for run in runs} == {"done"}
    assert {(run["subject"], run["arm"]) for run in runs} == {
        (f"atari/{game}", arm) for game in GAMES for arm in ("dqn", "sv-dqn")
    }
    assert len(GAMES) == 57
