from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from svrl.cli.main import app

THREADS = torch.get_num_threads()


def pytest_configure() -> None:
    """Let Ctrl-C be heard, here and in what tests start: a shell lets background jobs ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Workers that crash before their first test leave nothing behind, and pytest-xdist calls that a success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    shared_out = session.config.getoption("numprocesses", None) and not session.config.option.collectonly
    if exitstatus == pytest.ExitCode.OK and shared_out and reporter and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


@pytest.fixture(autouse=True)
def _threads_as_they_were() -> None:
    """Importing QuantEcon raises torch's number of threads, and small tensors on several are many times slower."""
    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)


@pytest.fixture
def svrl() -> Callable[..., Result]:
    """Run the program in this process; stdout and stderr are kept apart."""
    runner = CliRunner()

    def run(*arguments: object) -> Result:
        return runner.invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def svrl_json(svrl: Callable[..., Result]) -> Callable[..., object]:
    def run(*arguments: object) -> object:
        result = svrl(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.fixture
def truth() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.standard_normal((40, 3)) @ rng.standard_normal((3, 25))


@pytest.fixture
def holes(tmp_path: Path, truth: np.ndarray) -> Path:
    """A file with a rank-3 matrix, 40 x 25, 60% observed."""
    rng = np.random.default_rng(4)
    path = tmp_path / "holes.npy"
    np.save(path, np.where(rng.random(truth.shape) < 0.6, truth, np.nan))
    return path
