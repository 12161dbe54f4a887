"""The settings of an agent as Markdown, read off AgentConfig so that the page cannot fall behind the program.

Two tables: every field with its flag, its default and its help; and what each preset changes. Refresh the page with

    python docs/output/config_table.py > docs/output/config_table.md
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from svrl.agents.config import BY_FAMILY, PRESETS, AgentConfig

BASE = "authors"
"""The preset that the defaults are."""
FAMILIES = ", ".join(f"`{preset}` for {family}" for family, preset in BY_FAMILY.items())


def shown(value: Any) -> str:
    """A value as people write it: 100,000, 1e-05, 128x128, on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def fields() -> Iterator[str]:
    """Every field with its flag, its default and its help."""
    yield row("flag", "default", "meaning")
    yield row(*["---"] * 3)
    for field in dataclasses.fields(AgentConfig):
        flag = f"--{field.name.replace('_', '-')}"
        flags = f"`{flag}`, `--no-{flag[2:]}`" if isinstance(field.default, bool) else f"`{flag}`"
        if field.name == "preset":
            yield row(flags, "by family", f"Where all other settings take their values: {FAMILIES}.")
        else:
            yield row(flags, shown(field.default), field.metadata["help"])


def presets() -> Iterator[str]:
    """Fields that a preset changes, one column a preset."""
    yield row("setting", *(f"`{name}`" for name in PRESETS))
    yield row(*["---"] * (1 + len(PRESETS)))
    for field in dataclasses.fields(AgentConfig):
        default = shown(field.default)
        values = {name: shown(changes.get(field.name, field.default)) for name, changes in PRESETS.items()}
        if set(values.values()) != {default}:
            cells = (value if name == BASE or value != default else "" for name, value in values.items())
            yield row(f"`{field.name}`", *cells)


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |".replace("| --- |", "|---|").replace(" --- |", "---|")


print(*fields(), "", "An empty cell is the default, that of `authors`.", "", *presets(), sep="\n")
