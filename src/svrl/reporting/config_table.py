"""The settings of an agent as Markdown, read off AgentConfig so that the page cannot fall behind the program.

Two tables: every field with its flag, its default and its help; and what each preset changes. Refresh the page with

    python -m svrl.reporting.config_table > docs/output/config_table.md
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from svrl.agents.config import BY_FAMILY, PRESETS, AgentConfig

BASE = "authors"
"""The preset that the defaults are."""


def config_table() -> str:
    """Both tables, with a line between them; ends with a newline."""
    return "\n".join([*_fields(), "", "An empty cell is the default, that of `authors`.", "", *_presets(), ""])


def shown(value: Any) -> str:
    """A value as people write it: 100,000, 1e-05, 128x128, on."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fields() -> Iterable[str]:
    yield from _head("flag", "default", "meaning")
    for field in dataclasses.fields(AgentConfig):
        flag = f"--{field.name.replace('_', '-')}"
        flags = f"`{flag}`, `--no-{flag[2:]}`" if isinstance(field.default, bool) else f"`{flag}`"
        default = "by family" if field.name == "preset" else shown(field.default)
        meaning = _preset_help() if field.name == "preset" else field.metadata["help"]
        yield _row(flags, default, meaning)


def _preset_help() -> str:
    families = ", ".join(f"`{preset}` for {family}" for family, preset in BY_FAMILY.items())
    return f"Where all other settings take their values: {families}."


def _presets() -> Iterable[str]:
    """Fields that a preset changes, one column a preset."""
    yield from _head("setting", *(f"`{name}`" for name in PRESETS))
    for field in dataclasses.fields(AgentConfig):
        default = shown(field.default)
        values = {name: shown(changes.get(field.name, field.default)) for name, changes in PRESETS.items()}
        if set(values.values()) != {default}:
            cells = (value if name == BASE or value != default else "" for name, value in values.items())
            yield _row(f"`{field.name}`", *cells)


def _head(*names: str) -> Sequence[str]:
    return _row(*names), f"|{'---|' * len(names)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(config_table())
