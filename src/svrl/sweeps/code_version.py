"""Which code computes: results of another one are kept apart.

The version says too little while the code is worked on, and a commit too much, because it changes with the docs. So
the name is the version and a digest of the parts that results come from.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from svrl import __version__

COMPUTES = (
    "runs",
    "matrix",
    "mdp",
    "envs",
    "planning",
    "agents",
    "training",
    "stats.py",
    "cli/plan.py",
    "cli/plan_report.py",
    "cli/plan_request.py",
    "cli/plan_run.py",
)
"""Folders and files of the package; a plan is put together and judged in the last. The rest starts runs, draws them
and tells of them."""
ENDINGS = (".py", ".cu", ".csv")


@functools.cache
def code_version() -> str:
    """As in "0.1.0-1a2b3c4d"."""
    return f"{__version__}-{digest_of(Path(__file__).parents[1])[:8]}"


def digest_of(package: Path) -> str:
    """Of the names and the contents of all files that results come from."""
    found = hashlib.sha256()
    for part in COMPUTES:
        place = package / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in ENDINGS:
                text = path.read_bytes()
                found.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode())
                found.update(text)
    return found.hexdigest()
