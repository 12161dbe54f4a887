"""A run directory: config.json says what was asked, result.json that it is finished, the rest is in between.

A finished run is never written over, an unfinished one is only gone on with, and only when the
configuration is the same. Every file is written atomically.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.runtime.atomic import writing
from svrl.runtime.regular_file import read_object

CONFIG = "config.json"
RESULT = "result.json"
ROWS = "rows.jsonl"
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, kw_only=True)
class RunDirectory:
    """One run on disk.

    Attributes:
        path: The folder.
    """

    path: Path

    @classmethod
    def begin(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Make a folder, or take an empty one, for a new run.

        Raises:
            ValueError: If the folder holds a run, or anything else.
        """
        _refuse_finished(path)
        if (path / CONFIG).exists():
            raise ValueError(f"{path} holds an unfinished run. Add --resume to go on with it, or give another folder.")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file. Give a folder for the run.")
        half_written = list(path.glob(".config-*.json"))  # by a process that was killed before its config was whole
        if path.is_dir() and set(path.iterdir()) - set(half_written):
            raise ValueError(f"{path} holds files that are not of a run. Give a new or an empty folder.")
        path.mkdir(parents=True, exist_ok=True)
        directory = cls(path=path)
        directory.write_json(CONFIG, config)
        for left in half_written:
            left.unlink(missing_ok=True)
        return directory

    @classmethod
    def resume(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Go on with a run that was interrupted.

        Raises:
            ValueError: If there is none, if it is finished, or if its configuration differs; the sentence says where.
        """
        _refuse_finished(path)
        refuse_changes(path, read_config(path), config)
        return cls(path=path)

    @property
    def checkpoint(self) -> Path:
        """Where the state of an unfinished run is kept."""
        return self.path / CHECKPOINT

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A temporary path that becomes the file `name` when the block ends well."""
        return writing(self.path / name)

    def write_json(self, name: str, value: object) -> None:
        """One JSON value; numbers that JSON cannot hold are refused."""
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
        with self.writing(name) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """rows.jsonl: one JSON object a line. A number that is not finite becomes null with its reason beside it."""
        lines = [json.dumps(finite(row), allow_nan=False) + "\n" for row in rows]
        with self.writing(ROWS) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")

    def take_back(self) -> None:
        """Remove a run that failed before its first checkpoint: its config, and the folder if that leaves it empty."""
        if self.checkpoint.exists():
            return
        (self.path / CONFIG).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the result, which marks the run as finished, and drop its checkpoint."""
        self.write_json(RESULT, result)
        self.checkpoint.unlink(missing_ok=True)


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of the run in a folder.

    Raises:
        ValueError: If the folder holds no run, or a damaged one.
    """
    if not (path / CONFIG).exists():
        raise ValueError(f"{path} holds no run to resume. Start one without --resume.")
    try:
        config = read_object(path / CONFIG)
        steps = config.get("steps", 0)
        if type(steps) is not int or not 0 <= steps < 2**63:
            raise ValueError(f"{path / CONFIG} is damaged: steps is {reprlib.repr(steps)}, not a whole number to 2^63.")
    except ValueError as error:
        raise ValueError(f"{error} So the run cannot be resumed. Start a new one.") from error
    return config


def refuse_changes(path: Path, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> None:
    """Raise ValueError, with a sentence that names them, if two configurations of a run differ."""
    changed = differences(earlier, later)
    if changed:
        raise ValueError(
            f"{path} was begun with another configuration: {'; '.join(changed)}. "
            "Repeat its options, or give another folder."
        )


def differences(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[str]:
    """Where two configurations differ, as phrases: "observe was 0.2 and is 0.3"."""
    later = json.loads(json.dumps(later))  # tuples become lists, as they have on disk
    names = [*earlier, *(name for name in later if name not in earlier)]
    return [
        f"{name.replace('_', '-')} was {_shown(earlier.get(name))} and is {_shown(later.get(name))}"
        for name in names
        if earlier.get(name) != later.get(name)
    ]


def finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with NaN and infinity, also in lists, as None; each with a field that says what it was."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            out |= {name: None, f"{name}_reason": f"not finite: {value}"}
        elif isinstance(value, list | tuple) and not all(math.isfinite(x) for x in value if isinstance(x, float)):
            shown = [None if isinstance(x, float) and not math.isfinite(x) else x for x in value]
            out |= {name: shown, f"{name}_reason": "some are not finite"}
        else:
            out[name] = value
    return out


def _refuse_finished(path: Path) -> None:
    if (path / RESULT).exists():
        raise ValueError(f"{path} holds a finished run, which is not written over. Give another folder, or delete it.")


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)
