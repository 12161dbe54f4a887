"""Every script in examples/integrations runs and says something, where its library is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"cleanrl_style.py"}
"""Run by the tests of the hook, which look at its score, too."""
FOLDER = Path(__file__).parents[2] / "examples" / "integrations"
NEEDS = {
    "sb3_dqn": "stable_baselines3",
    "qr_dqn": "sb3_contrib",
    "rllib": "ray",
    "tianshou_dqn": "tianshou",
    "torchrl_dqn": "torchrl",
}


@pytest.mark.parametrize(
    "script", sorted(path for path in FOLDER.glob("*.py") if path.name not in ELSEWHERE), ids=lambda path: path.name
)
def test_runs(script: Path, tmp_path: Path) -> None:
    library = NEEDS.get(script.stem)
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed in this environment; make test or make test-integrations has it")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
