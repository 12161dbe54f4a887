"""Which versions of other people's libraries were tested, and what to say when another one is there.

An integration asks here before it imports its library. One that is missing or too old is an ImportError with the pip
command. A newer one than was tested warns: what keeps structure from getting lost there is that every integration
counts the matrices that it completed and the updates that the library made, and raises if the two differ.
"""

from __future__ import annotations

import importlib.metadata
import re
import warnings

LIBRARIES = {
    "stable-baselines3": ("sb3", "2.9", "2.10"),
    "sb3-contrib": ("sb3", "2.9", "2.10"),
    "tianshou": ("tianshou", "2.0", "2.1"),
    "torchrl": ("torchrl", "0.14", "0.15"),
    "ray": ("ray", "2.60", "2.61"),
    "quantecon": ("quantecon", "0.8", "0.12"),
    "scikit-learn": ("sklearn", "1.6", "1.10"),
}
"""The extra of svrl that installs a library, the first version that is let in, and the first that was not tested."""


def require(package: str) -> None:
    """Warn of a version of a library, one of `LIBRARIES`, that is newer than those that were tested.

    Raises:
        ImportError: If it is missing, or older than the first version that was tested.
    """
    extra, lowest, below = LIBRARIES[package]
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            f"This integration needs {package}, which is not installed. Run: pip install 'svrl[{extra}]'"
        ) from None
    if release(found) < release(lowest):
        raise ImportError(
            f"This integration needs {package} {lowest} or newer, and {found} is installed. "
            f"Run: pip install '{package}>={lowest}'"
        )
    if release(found) >= release(below):
        warnings.warn(
            f"svrl was tested with {package} {range_of(package)}, and {found} is installed. "
            f"If something fails, run: pip install '{package}{range_of(package)}'",
            stacklevel=2,
        )


def changed(package: str, what: str) -> RuntimeError:
    """The error where a library does not ask for what structure replaces, so that targets would be plain ones."""
    return RuntimeError(
        f"{what}, so structure does not reach the targets as it did in {package} {range_of(package)}. "
        "Use a tested version, or structure=None."
    )


def range_of(package: str) -> str:
    """The versions that were tested, as pip writes them."""
    _, lowest, below = LIBRARIES[package]
    return f">={lowest},<{below}"


def release(version: str) -> tuple[int, ...]:
    """(2, 60) of 2.60.1: what the ranges above are given in."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
