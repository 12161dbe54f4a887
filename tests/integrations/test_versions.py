"""What is said about a library that is missing, too old or too new; and what pip installs and the page says."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
import warnings
from pathlib import Path

import pytest

from svrl.integrations.versions import LIBRARIES, range_of, release, require

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Say that a version of ray is installed, or none."""
    monkeypatch.setitem(LIBRARIES, "ray", ("ray", "2.60", "2.61"))

    def say(version: str | None) -> None:
        def of(package: str) -> str:
            if version is None:
                raise importlib.metadata.PackageNotFoundError(package)
            return version

        monkeypatch.setattr(importlib.metadata, "version", of)

    return say


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (None, "This integration needs ray, which is not installed. Run: pip install 'svrl[ray]'"),
        *(
            (
                version,
                f"This integration needs ray 2.60 or newer, and {version} is installed. Run: pip install 'ray>=2.60'",
            )
            for version in ("2.59.9", "2.6")
        ),
    ],
)
def test_a_missing_or_old_library_is_refused_with_its_pip_command(installed, version, sentence: str) -> None:
    installed(version)
    with pytest.raises(ImportError) as error:
        require("ray")
    assert str(error.value) == sentence


@pytest.mark.parametrize("version", ["2.61.0rc1", "10.0"])
def test_a_newer_library_warns(installed, version: str) -> None:
    installed(version)
    with pytest.warns(UserWarning, match=rf"tested with ray >=2.60,<2.61, and {version} is installed"):
        require("ray")


@pytest.mark.parametrize("version", ["2.60", "2.60.0.post1", "2.60.1+cpu"])
def test_a_tested_version_is_let_in(installed, version: str) -> None:
    installed(version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require("ray")


@pytest.mark.parametrize("package", LIBRARIES)
def test_the_extra_the_pins_the_page_and_the_tested_range_agree(package: str) -> None:
    extra, lowest, below = LIBRARIES[package]
    wanted = [re.sub(r"\[.*?\]|,.*", "", line) for line in EXTRAS[extra]]
    assert f"{package}>={lowest}" in wanted
    pins = (ROOT / "constraints.txt").read_text() + (ROOT / "constraints-integrations.txt").read_text()
    normal = re.sub(r"[-_]", "[-_]", re.escape(package).replace(r"\-", "-"))
    found = re.search(rf"^{normal}==(\S+)$", pins, re.MULTILINE | re.IGNORECASE)
    assert found, f"{package} is pinned nowhere"
    assert release(lowest) <= release(found[1]) < release(below)
    page = (ROOT / "docs" / "integrations" / "index.md").read_text()
    assert f"| {package} | `{range_of(package)}` | `svrl[{extra}]` |" in page
