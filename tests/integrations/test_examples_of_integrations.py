"""Every script in examples/integrations runs and says something, where its library is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.running_examples import output_of

ELSEWHERE = {"cleanrl_style.py"}
"""Run by the tests of the hook, which look at its score, too."""
FOLDER = Path(__file__).parents[2] / "examples" / "integrations"
NEEDS = {
    "sb3_dqn.py": "stable_baselines3",
    "qr_dqn.py": "sb3_contrib",
    "rllib.py": "ray",
    "tianshou_dqn.py": "tianshou",
    "torchrl_dqn.py": "torchrl",
}
SMALLER = {
    "own_pytorch.py": {"range(200)": "range(60)"},
    "qr_dqn.py": {
        "learning_starts=1_000": "learning_starts=200",
        "model.learn(8_000)": "model.learn(600)",
    },
    "sb3_dqn.py": {"model.learn(3_000)": "model.learn(300)"},
}
"""What stands for which part of a script."""
SCRIPTS = {path.name: path for path in sorted(FOLDER.glob("*.py")) if path.name not in ELSEWHERE}


@pytest.mark.parametrize("name", SCRIPTS)
def test_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    library = NEEDS.get(name)
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed in this environment; make test or make test-integrations has it")
    if name in SMALLER:
        assert output_of(SCRIPTS[name], tmp_path, capsys, monkeypatch, SMALLER[name]).strip()
        return
    command = [sys.executable, str(SCRIPTS[name])]  # Ray wants a process for itself
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
