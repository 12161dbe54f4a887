"""Which versions of other people's libraries were tested, and what to say when another one is there.

An integration reaches into a library, so it asks here before it imports it. A library that is missing or too old is an
ImportError with the pip command. A version that is newer than those that were tested warns once: what keeps structure
from getting lost there is that every integration holds the number of matrices that it completed against the number of
updates that the library made, and raises if they differ.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
import warnings
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Library:
    """What an integration needs.

    Attributes:
        package: Its name on the package index.
        extra: Of svrl, that installs it.
        lowest: The first version that was tested, and the first that is let in.
        below: The first that was not tested.
    """

    package: str
    extra: str
    lowest: str
    below: str

    @property
    def range(self) -> str:
        """What was tested, as pip writes it."""
        return f">={self.lowest},<{self.below}"


LIBRARIES = {
    library.package: library
    for library in (
        Library(package="stable-baselines3", extra="sb3", lowest="2.9", below="2.10"),
        Library(package="sb3-contrib", extra="sb3", lowest="2.9", below="2.10"),
        Library(package="tianshou", extra="tianshou", lowest="2.0", below="2.1"),
        Library(package="torchrl", extra="torchrl", lowest="0.14", below="0.15"),
        Library(package="ray", extra="ray", lowest="2.60", below="2.61"),
        Library(package="quantecon", extra="quantecon", lowest="0.8", below="0.12"),
        Library(package="scikit-learn", extra="sklearn", lowest="1.6", below="1.10"),
        Library(package="safetensors", extra="safetensors", lowest="0.4", below="0.9"),
    )
}


def require(package: str) -> str:
    """The version of a library that is installed.

    Args:
        package: One of `LIBRARIES`. A version newer than those that were tested warns, once in a process.

    Raises:
        ImportError: If it is missing, or older than the first version that was tested.
    """
    library = LIBRARIES[package]
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            f"This integration needs {package}, which is not installed. Run: pip install 'svrl[{library.extra}]'"
        ) from None
    if numbers(found) < numbers(library.lowest):
        raise ImportError(
            f"This integration needs {package} {library.lowest} or newer, and {found} is installed. "
            f"Run: pip install '{package}>={library.lowest}'"
        )
    if numbers(found) >= numbers(library.below):
        _warn(package, found)
    return found


def changed(package: str, what: str) -> RuntimeError:
    """The error where a library does not ask for what structure replaces, so that targets would be plain ones."""
    return RuntimeError(
        f"{what}, so structure does not reach the targets as it did in {package} {LIBRARIES[package].range}. "
        "Use a tested version, or structure=None."
    )


@functools.cache
def _warn(package: str, found: str) -> None:
    warnings.warn(
        f"svrl was tested with {package} {LIBRARIES[package].range}, and {found} is installed. "
        f"If something fails, run: pip install '{package}{LIBRARIES[package].range}'",
        stacklevel=3,
    )


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, as in (2, 60, 0): enough to compare, without a parser of versions."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()  # 2.0 and 2.0.0 are the same version
    return tuple(parts)


def versions_table() -> str:
    """The libraries and their ranges in Markdown.

    python -m svrl.integrations.versions > docs/output/integration_versions.md
    """
    rows = [f"| {library.package} | `{library.range}` | `svrl[{library.extra}]` |" for library in LIBRARIES.values()]
    return "\n".join(["| library | tested | install |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(versions_table())
