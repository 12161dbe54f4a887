"""The table of settings: complete, right about every preset, and the one that the docs show."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import typer

from svrl.agents.config import PRESETS, AgentConfig
from svrl.cli.main import app
from svrl.reporting.config_table import config_table, shown

PAGE = Path(__file__).parents[2] / "docs" / "output" / "config_table.md"


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_docs_show_this_table() -> None:
    refresh = "refresh it: python -m svrl.reporting.config_table > docs/output/config_table.md"
    assert PAGE.read_text(encoding="utf-8") == config_table(), refresh


def test_every_flag_is_one_of_svrl_train() -> None:
    command = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    listed = [row[0] for row in rows_of(config_table()) if row[0].startswith("`--")]
    flags = [flag.strip("`") for cell in listed for flag in cell.split(", ")]
    assert len(listed) == len(dataclasses.fields(AgentConfig))
    assert len(set(flags)) == len(flags)
    assert set(flags) <= known


@pytest.mark.parametrize("preset", PRESETS)
def test_the_second_table_says_what_a_preset_is(preset: str) -> None:
    """Read back from the table, a preset is the one that AgentConfig makes."""
    rows = rows_of(config_table())
    start = next(k for k, row in enumerate(rows) if row[0] == "setting")
    column = rows[start].index(f"`{preset}`")
    cells = {row[0].strip("`"): row[column] or row[1] for row in rows[start + 1 :]}
    config = AgentConfig.of(preset)
    for field in dataclasses.fields(AgentConfig):
        if field.name != "preset":
            assert shown(getattr(config, field.name)) == cells.get(field.name, shown(field.default)), field.name


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "on"), (False, "off"), ((128, 64), "128x64"), (100_000, "100,000"), (1e-5, "1e-05"), ("adam", "adam")],
)
def test_values_as_people_write_them(value: object, text: str) -> None:
    assert shown(value) == text
