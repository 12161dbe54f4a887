"""The page of settings is what its program prints now, and every flag in it is one of `svrl train`."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path

import typer

from svrl.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "output" / "config_table.md"


def test_the_docs_show_the_settings_as_they_are() -> None:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        runpy.run_path(str(PAGE.with_suffix(".py")))
    refresh = "refresh it: python docs/output/config_table.py > docs/output/config_table.md"
    assert PAGE.read_text(encoding="utf-8") == text.getvalue(), refresh
    command = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"`(--[\w-]+)`", text.getvalue())) <= known
