"""How much memory can still be had, so that environments or a replay memory that do not fit are refused at once.

In RAM it is the least of what the machine has available and of what every control group around the process
leaves: a container may have far less than its machine. A group's own count of what it uses includes files that
the system keeps at hand and gives up when memory is short, so its `inactive_file` counts as free.

    version 2    memory.max              memory.current           inactive_file of memory.stat
    version 1    memory.limit_in_bytes   memory.usage_in_bytes    total_inactive_file
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from svrl.agents.config import family_of

LEAST_BYTES = {"atari": 1_000_000, "minatar": 4_000, "control": 200, "gymnasium": 4_000}
"""RAM that an environment of each family takes at least; of Gymnasium's, that is CartPole, and others take more."""


def refuse_too_many(env: str, lanes: int, capacity: int) -> None:
    """Refuse environments that do not fit into RAM, or whose every step is more than the replay memory holds.

    Raises:
        ValueError: With what they take and what is free, or with what the memory must hold.
    """
    need, free = lanes * LEAST_BYTES[family_of(env)], free_ram()
    if need > free:
        raise ValueError(
            f"{lanes:,} environments {env} take at least {need / 1e9:,.1f} GB, and {free / 1e9:.1f} GB of RAM are "
            "free. Lower envs."
        )
    refuse_few_transitions(lanes, capacity)


def refuse_few_transitions(lanes: int, capacity: int) -> None:
    """Refuse a replay memory of fewer transitions than one for each environment."""
    if capacity < lanes:
        raise ValueError(
            f"A replay memory for {lanes} environments holds at least {lanes} transitions, got {capacity}. "
            "Raise replay or lower envs."
        )


def free_bytes(device: torch.device) -> float:
    """Memory that can still be had on a device; infinity where nobody says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + unused)
    return free_ram()


def free_ram(root: Path = Path("/")) -> float:
    """RAM that can still be had, in bytes; infinity where nobody says.

    Args:
        root: Where proc and sys are.
    """
    machine = 1024.0 * _named(root / "proc/meminfo", "MemAvailable:")
    return min(machine, *(_left(group) for group in _groups(root)), float("inf"))


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the control groups that the process may be in, each with those around it."""
    top = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, place = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mount = top / controllers
        group = mount / place.strip("/")
        # A container may see the path that its group has outside, of which only the top is there inside.
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))


def _left(group: Path) -> float:
    """What a group leaves; infinity if it sets no limit or is not there."""
    for limit, used, files in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        numbers = [line for name in (limit, used) for line in _lines(group / name)]
        if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            idle = _named(group / "memory.stat", files)
            return max(0.0, float(numbers[0]) - float(numbers[1]) + (idle if idle < float("inf") else 0.0))
    return float("inf")


def _named(path: Path, name: str) -> float:
    """The number behind a name, in a file with one to a line; infinity if it is not there."""
    found = [line.split()[1] for line in _lines(path) if line.startswith(f"{name} ")]
    return float(found[0]) if found and found[0].isdecimal() else float("inf")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
