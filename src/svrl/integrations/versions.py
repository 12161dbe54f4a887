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
from typing import NamedTuple


class Library(NamedTuple):
    """The extra of svrl that installs a library, the first version that is let in, and the first not tested."""

    extra: str
    lowest: str
    below: str

    @property
    def range(self) -> str:
        """What was tested, as pip writes it."""
        return f">={self.lowest},<{self.below}"


LIBRARIES = {
    "stable-baselines3": Library("sb3", "2.9", "2.10"),
    "sb3-contrib": Library("sb3", "2.9", "2.10"),
    "tianshou": Library("tianshou", "2.0", "2.1"),
    "torchrl": Library("torchrl", "0.14", "0.15"),
    "ray": Library("ray", "2.60", "2.61"),
    "quantecon": Library("quantecon", "0.8", "0.12"),
    "scikit-learn": Library("sklearn", "1.6", "1.10"),
    "safetensors": Library("safetensors", "0.4", "0.9"),
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
    rows = [f"| {name} | `{library.range}` | `svrl[{library.extra}]` |" for name, library in LIBRARIES.items()]
    return "\n".join(["| library | tested | install |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(versions_table())
