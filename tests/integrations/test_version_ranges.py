"""What the code refuses, what pip installs and what the page says are one thing."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from svrl.integrations.versions import LIBRARIES, versions_table

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("package", LIBRARIES)
def test_the_extra_installs_the_tested_range(package: str) -> None:
    library = LIBRARIES[package]
    wanted = [re.sub(r"\[.*?\]", "", line) for line in EXTRAS[library.extra]]
    assert f"{package}{library.range}" in wanted


@pytest.mark.parametrize("package", LIBRARIES)
def test_the_pinned_version_is_in_the_range(package: str) -> None:
    from svrl.integrations.versions import numbers

    pins = (ROOT / "constraints.txt").read_text() + (ROOT / "constraints-integrations.txt").read_text()
    normal = re.sub(r"[-_]", "[-_]", re.escape(package).replace(r"\-", "-"))
    found = re.search(rf"^{normal}==(\S+)$", pins, re.MULTILINE | re.IGNORECASE)
    assert found, f"{package} is pinned nowhere"
    assert numbers(LIBRARIES[package].lowest) <= numbers(found[1]) < numbers(LIBRARIES[package].below)


def test_the_page_has_the_table() -> None:
    assert (ROOT / "docs" / "output" / "integration_versions.md").read_text() == versions_table()
