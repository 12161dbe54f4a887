"""Record where a result comes from: versions, machine, time, command, and the commit of a checkout."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from svrl.runtime.device import usable_cores


def provenance(*, device: str, command: str, seconds: float) -> dict[str, Any]:
    """The record to write next to rows.

    Args:
        device: The device that computed them.
        command: The command that computes them again.
        seconds: The time from start to end; after an interruption, only of the rest.
    """
    return {
        **versions(),
        "machine": machine(device),
        "device": device,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "command": command,
        **({"commit": found} if (found := commit()) else {}),
    }


@cache
def commit() -> str:
    """The commit of the checkout that svrl runs from, with a + if files have changed since; empty without a checkout.

    For a copy of a checkout without its history, set the variable SVRL_COMMIT.
    """
    if given := os.environ.get("SVRL_COMMIT"):
        return given
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    run = partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True, timeout=20)
    try:
        head = run(["git", "rev-parse", "--short=7", "HEAD"]).stdout.strip()
        changed = run(["git", "status", "--porcelain", "--untracked-files=no", "--", "src"]).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changed else "")


@cache
def versions() -> dict[str, str]:
    """Versions of svrl, python, torch and numpy."""
    import numpy as np
    import torch

    from svrl import __version__

    return {
        "svrl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


@cache
def machine(device: str) -> str:
    """Processor and cores, or the name of the GPU; if there is no GPU, the name of the device."""
    import torch

    if device != "cpu":
        return str(torch.cuda.get_device_name(device)) if torch.cuda.is_available() else device
    name = platform.machine()
    with suppress(OSError):  # only Linux has this file
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        name = found[1] if found else name
    return f"{name}, {usable_cores()} cores"
