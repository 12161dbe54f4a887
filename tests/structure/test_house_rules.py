"""Rules that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
VAGUE = {"utils", "util", "common", "helpers", "core", "manager", "misc"}


def test_files_stay_small_and_named() -> None:
    assert SOURCES
    texts = {path: path.read_text() for path in SOURCES}
    assert [path for path, text in texts.items() if text.count("\n") > 700] == [], "split it: one file does one thing"
    assert [path for path in SOURCES if path.stem in VAGUE] == [], "the name says nothing"
    assert [path for path, text in texts.items() if not text.startswith('"""')] == [], "say what the file is for"


def test_nothing_is_left_for_later() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")
    assert [path for path in SOURCES if pattern.search(path.read_text())] == []


def test_global_random_state_is_never_used() -> None:
    # torch.manual_seed and np.random.<draw> move state that other people's code reads.
    pattern = re.compile(
        r"(?<!\.Generator\(\)\.)\btorch\.manual_seed|np\.random\.(?!default_rng|Generator|get_state)\w+\("
    )
    offenders = [path.name for path in SOURCES if pattern.search(path.read_text())]
    assert offenders == []
