"""What is said about a library that is missing, too old or too new."""

from __future__ import annotations

import importlib.metadata

import pytest

from svrl.integrations.versions import LIBRARIES, Library, numbers, require

RAY = Library(package="ray", extra="ray", lowest="2.60", below="2.61")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Say that a version of ray is installed, or none."""
    monkeypatch.setitem(LIBRARIES, "ray", RAY)

    def say(version: str | None) -> None:
        def of(package: str) -> str:
            assert package == "ray"
            if version is None:
                raise importlib.metadata.PackageNotFoundError(package)
            return version

        monkeypatch.setattr(importlib.metadata, "version", of)

    return say


def test_a_missing_library_names_its_pip_command(installed) -> None:
    installed(None)
    with pytest.raises(ImportError) as error:
        require("ray")
    assert str(error.value) == ("This integration needs ray, which is not installed. Run: pip install 'svrl[ray]'")


@pytest.mark.parametrize("version", ["2.59.9", "1.0", "2.61", "2.61.0", "2.61.0rc1", "3.0", "10.0"])
def test_an_untested_version_names_both(installed, version: str) -> None:
    installed(version)
    with pytest.raises(ImportError) as error:
        require("ray")
    assert str(error.value) == (
        f"This integration was tested with ray >=2.60,<2.61, and {version} is installed. "
        "Run: pip install 'ray>=2.60,<2.61'"
    )


@pytest.mark.parametrize("version", ["2.60", "2.60.0", "2.60.7", "2.60.0.post1", "2.60.1+cpu"])
def test_a_tested_version_is_let_in(installed, version: str) -> None:
    installed(version)
    assert require("ray") == version


def test_versions_are_compared_as_numbers() -> None:
    assert numbers("2.9") < numbers("2.10") < numbers("2.10.1") < numbers("3")
    assert numbers("2") == numbers("2.0") == numbers("2.0.0")
    assert numbers("4.0b3") == (4,)
    assert numbers("unknown") == ()


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=lambda library: library.package)
def test_every_range_holds_something(library: Library) -> None:
    assert numbers(library.lowest) < numbers(library.below)
    assert library.range == f">={library.lowest},<{library.below}"


@pytest.mark.parametrize("package", LIBRARIES)
def test_what_is_installed_here_is_let_in(package: str) -> None:
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here")
    assert require(package) == found
