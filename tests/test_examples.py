"""Every script in examples/ runs and says something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
LONG = {"structured_dqn_in_one_file.py", "compare_estimators.py", "plan_pendulum.py"}
"""Run with the slow tests."""
EXAMPLES = [
    pytest.param(path, marks=[pytest.mark.slow] if path.name in LONG else [], id=path.name)
    for path in sorted(FOLDER.glob("*.py"))
]


@pytest.mark.parametrize("script", EXAMPLES)
def test_runs(script: Path, tmp_path: Path) -> None:
    # The folder of the interpreter is on the path, as in an activated environment: examples may call svrl.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
