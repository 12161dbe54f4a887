"""A cell is the smallest piece of an experiment that is computed, kept and read again.

Its settings are plain data, and with the version of its kind they are its identity: two experiments that
ask for the same cell share it, and a changed setting touches the cells that have it and no others. What is
random is seeded by the settings. The device is not part of them: on another one the same seed may draw other
masks, which is another sample of the same thing, and the provenance says where a cell was computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a cell came to.

    Attributes:
        rows: JSON objects; numbers are numbers.
        arrays: What is too long for rows, policies and trajectories say.
        trained: Machine, versions and commit of a training that the rows are about; empty if there is none.
    """

    rows: list[dict[str, Any]]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    trained: dict[str, str] = field(default_factory=dict)


def _silent(share: float) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a computation is given beside its settings.

    Attributes:
        folder: Its own. It stays after an interruption, so that what is there can be gone on with, and goes
            when the cell is kept. It may not exist yet.
        device: "cpu", "cuda" or "cuda:1".
        progress: To be called with the share done, from 0 to 1.
    """

    folder: Path
    device: str = "cpu"
    progress: Callable[[float], None] = _silent


def _nothing_more(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}  # a function of the module, not a lambda: kinds travel to other processes


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How cells of one kind are computed.

    Attributes:
        name: Of the kind, and of the folder where its cells are kept.
        version: To be raised when the same settings lead to another result; what was kept is then computed anew.
        compute: A function of a module, so that other processes find it.
        extra: What has to be installed, as in svrl[atari]; empty if nothing.
        together: Does the long part of several cells, given with what each works with, in this process and so many
            at a time; `compute` then finds it done. It says how many seconds each took, or why it failed.
        implied: All that the settings of a cell imply, those of its preset say, by name; for choosing cells only.
    """

    name: str
    version: int
    compute: Callable[[Mapping[str, Any], Work], CellResult]
    extra: str = ""
    together: Callable[[Sequence[tuple[Mapping[str, Any], Work]], int], list[float | Exception]] | None = None
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _nothing_more


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One computation.

    Attributes:
        kind: How it is computed.
        settings: All that its result depends on: strings, numbers, booleans, None, and lists and objects of them.
        weight: About how long it takes, in minutes of one core; for progress and estimates only.
    """

    kind: Kind
    settings: Mapping[str, Any]
    weight: float = field(default=0.1, compare=False)

    @property
    def key(self) -> str:
        """16 hexadecimal digits that stand for kind, version and settings."""
        text = json.dumps([self.kind.name, self.kind.version, self.settings], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {_shown(value)}" for name, value in self.settings.items())
        return f"{self.kind.name}: {shown}"


def _shown(value: Any) -> str:
    return "[" + " ".join(map(str, value)) + "]" if isinstance(value, list | tuple) else str(value)
