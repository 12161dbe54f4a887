from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import svrl as package


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svrl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_names_every_command(svrl):
    result = svrl("--help")
    assert result.exit_code == 0
    for word in ("complete", "bench", "--install-completion"):
        assert word in result.stdout


def test_version(svrl):
    assert svrl("--version").stdout.strip() == f"svrl {package.__version__}"


def test_an_unknown_command_is_answered_without_a_traceback():
    done = run("complet")
    assert done.returncode == 2
    assert "complete" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("update", "--quick", "--device", "cuda")])
def test_bench_says_how_to_run_the_benchmarks(svrl, words):
    answer = svrl("bench", *words)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert f"run python -m benchmarks {' '.join(words) or 'matrix'} in a checkout" in " ".join(answer.stderr.split())


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
    words = {"_SVRL_COMPLETE": "complete_bash", "COMP_WORDS": "svrl complete --method ", "COMP_CWORD": "3"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env={**environment, **words})
    assert "soft-impute" in done.stdout


@pytest.mark.parametrize("arguments", [("paper", "list"), ("runs", "EMPTY"), ("--help",)])
def test_what_cannot_be_printed_ends_with_a_sentence(tmp_path: Path, arguments: tuple[str, ...]):
    words = [str(tmp_path) if word == "EMPTY" else word for word in arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "svrl", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "Error: What was to be printed: No space left on device.\n")
