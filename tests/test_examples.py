"""Every script in examples/ runs and says something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.running_examples import output_of

FOLDER = Path(__file__).parents[1] / "examples"
LONG = {"structured_dqn_in_one_file.py", "compare_estimators.py", "plan_pendulum.py"}
"""Run with the slow tests."""
SMALLER = {
    "gymnasium_planning.py": {
        "agent_from_plan(found, model), 500,": "agent_from_plan(found, model), 50,",
        "mean_return(pendulum, agent, 40,": "mean_return(pendulum, agent, 4,",
    },
    "impute_with_scikit_learn.py": {
        "train_size=500": "train_size=150",
        '"ratio": [0.02, 0.1, 0.2, 0.4]': '"ratio": [0.1, 0.4]',
    },
    "own_simulator.py": {"shops=10_000": "shops=100", "range(3)]": "range(1)]"},
    "own_task.py": {
        "points=21": "points=11",
        "points=41": "points=21",
        "2 * math.pi, 61": "2 * math.pi, 13",
        "starts=500": "starts=20",
    },
    "shrinkage_bias.py": {
        "rng.normal(size=(200, 32, 2)) @ rng.normal(size=(200, 2, 18))": (
            "rng.normal(size=(5, 32, 2)) @ rng.normal(size=(5, 2, 18))"
        )
    },
    "your_own_environment.py": {
        "steps=8_000, epsilon_steps=4_000": "steps=400, epsilon_steps=200, learning_starts=100",
        "episodes=50": "episodes=4",
        "states=5_000, batches=2_000": "states=200, batches=20",
    },
    "your_own_network.py": {"steps=10_000": "steps=1_200", "episodes=20": "episodes=2"},
}
"""What stands for which part of a script; the slow tests run it as it is."""
DOCS = FOLDER.parent / "docs" / "output"
TIMED = {"batches.py"}
"""Say how long they took."""
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
SCRIPTS = {path.name: path for path in sorted(FOLDER.glob("*.py"))}


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in LONG])
def test_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    output = output_of(SCRIPTS[name], tmp_path, capsys, monkeypatch, SMALLER.get(name))
    assert output.strip()
    shown = DOCS / f"{SCRIPTS[name].stem}.txt"
    if shown.exists() and name not in SMALLER and name not in TIMED:
        assert _alike(output, shown.read_text()), f"refresh it: python examples/{name} > docs/output/{shown.name}"


def _alike(ours: str, theirs: str) -> bool:
    """The same words, and numbers that differ by less than a factor of 2, or are both rounding: the processor's."""
    words = [NUMBER.sub("#", text).split() for text in (ours, theirs)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (ours, theirs)]
    pairs = zip(*numbers, strict=False)
    return words[0] == words[1] and all(
        x == y or max(abs(x), abs(y)) < 1e-9 or (x * y > 0 and 0.5 < x / y < 2) for x, y in pairs
    )


@pytest.mark.parametrize(
    "name",
    ["first_steps.py", *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(LONG | set(SMALLER)))],
)
def test_runs_by_itself(name: str, tmp_path: Path) -> None:
    # The folder of the interpreter is on the path, as in an activated environment: examples may call svrl.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, str(SCRIPTS[name])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
