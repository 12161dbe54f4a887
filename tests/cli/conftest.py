from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from svrl.cli.main import app


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pictures, which take longer than everything else."""
    importlib.import_module("svrl.plots.rank")  # keeps the function that it finds when it is imported

    monkeypatch.setattr("svrl.plots.style.save_figure", lambda figure, path: path.write_bytes(b"picture"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a control task with 5 actions."""
    return _trained(tmp_path_factory, "control/inverted-pendulum", "--actions", "5")


@pytest.fixture(scope="session")
def trained_minatar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on MinAtar, structured and double."""
    return _trained(tmp_path_factory, "minatar/breakout", "--structured", "--agent", "double")


def _trained(factory: pytest.TempPathFactory, env: str, *options: str) -> Path:
    run = factory.mktemp("trained") / "run"
    short = ("--preset", "smoke", "--hidden", "32", "--steps", "150", "--threads", "1", "--device", "cpu")
    result = CliRunner().invoke(app, ["train", env, *short, *options, "--out", str(run), "--json"])
    assert result.exit_code == 0, result.stderr
    return run
