"""Rules that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
VAGUE = {"utils", "util", "common", "helpers", "core", "manager", "misc"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_files_stay_small_and_named(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400, "split it: one file does one thing"
    assert path.stem not in VAGUE, "the name says nothing"
    assert text.startswith('"""'), "say what the file is for"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nothing_is_left_for_later(path: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|XXX)\b|NotImplementedError", path.read_text())


def test_global_random_state_is_never_used() -> None:
    # torch.manual_seed and np.random.<draw> move state that other people's code reads.
    pattern = re.compile(
        r"(?<!\.Generator\(\)\.)\btorch\.manual_seed|np\.random\.(?!default_rng|Generator|get_state)\w+\("
    )
    offenders = [path.name for path in SOURCES if pattern.search(path.read_text())]
    assert offenders == []
