from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import svrl as package
from svrl.agents.config import PRESETS, AgentConfig
from svrl.runs.plan_run import METHODS, TASKS, PlanSettings


def test_version(svrl):
    assert svrl("--version").stdout.strip() == f"svrl {package.__version__}"


def test_completion_installs_and_completes(tmp_path: Path):
    # Typer's own switch: name the shell instead of asking which one is running.
    program = str(Path(sys.executable).parent / "svrl")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [program, "--install-completion", "bash"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "svrl" in (tmp_path / ".bashrc").read_text()


COMPLETIONS = {
    "svrl complete --method ": {"soft-impute"},
    "svrl plan ": set(TASKS),
    "svrl plan toy --method ": set(METHODS),
    "svrl train ": {"CartPole-v1", "minatar/breakout", "control/mountain-car"},
    "svrl train CartPole-v1 --agent ": {"dqn", "double", "dueling"},
    "svrl train CartPole-v1 --preset ": set(PRESETS),
}


@pytest.mark.parametrize("line", COMPLETIONS)
def test_words_for_completion(line: str):
    program = str(Path(sys.executable).parent / "svrl")
    words = {"_SVRL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env={**os.environ, **words})
    assert COMPLETIONS[line] <= set(done.stdout.split())


@pytest.mark.parametrize("record", [AgentConfig, PlanSettings], ids=["train", "plan"])
def test_every_field_is_a_flag_with_its_help(svrl, record):
    shown = re.sub(r"[│\s]+", " ", svrl("train" if record is AgentConfig else "plan", "--help").stdout)
    for field in dataclasses.fields(record):
        assert f"--{field.name.replace('_', '-')} " in shown or field.name == "task", field.name


@pytest.mark.parametrize("arguments", [("paper", "list"), ("runs", "EMPTY"), ("--help",)])
def test_what_cannot_be_printed_ends_with_a_sentence(tmp_path: Path, arguments: tuple[str, ...]):
    words = [str(tmp_path) if word == "EMPTY" else word for word in arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "svrl", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "Error: What was to be printed: No space left on device.\n")
