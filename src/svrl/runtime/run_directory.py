"""One run on disk, a plan or a training: what a folder may be used for, and which process works in it.

```
config.json         the settings; of a training also versions, machine and commit
result.json         written last: the run is finished

rows.jsonl          a plan: a row for every iteration
checkpoint.pt       a plan: the state of an unfinished one

episodes.jsonl      a training: a row for every game that ended     learning.jsonl    diagnostics
evaluations.jsonl   a row for every evaluation                      q_star.jsonl      error against a planned Q*
checkpoints/ replay/   the state of an unfinished training
agent.npz  learning_curve.png                                       a finished training
tensorboard/ wandb/    what those programs write
```

A finished run is never written over. A run is resumed under its own settings only; `steps` of a training may grow,
also after its end if its state was kept. The agent of a finished run is removed only when its state has been loaded.
While a process trains, it holds a lock on the folder, which the system releases however the process ends. Every file
is written atomically.
"""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.runtime.files import read_object, writing

CONFIG = "config.json"
RESULT = "result.json"
TRACE = "rows.jsonl"
CHECKPOINT = "checkpoint.pt"
EPISODES = "episodes.jsonl"
LEARNING = "learning.jsonl"
EVALUATIONS = "evaluations.jsonl"
Q_STAR = "q_star.jsonl"
AGENT = "agent.npz"
CURVE = "learning_curve.png"
TENSORBOARD = "tensorboard"
STATE = ("checkpoints", "replay")
"""Folders with the state of an unfinished training."""
ROWS = (EPISODES, LEARNING, EVALUATIONS, Q_STAR)
NOT_COMPARED = ("versions", "begun", "machine", "commit")
"""Fields of config.json that say how a run came about, not what it is."""
_WRITTEN = re.compile(r"\.?(segment-)?\d{6,}(-\w+)?\.npz")
"""Names of files that a training writes to the folders of its state, whole or half; no other file is removed."""
_AT_WORK = "{} is being trained by another process. Wait for it, or stop it."
_PATIENCE = 1.0
"""Seconds to wait for a lock that a process may hold only to look."""


@dataclass(frozen=True, kw_only=True)
class RunDirectory:
    """One run on disk.

    Attributes:
        path: The folder.
        config: What config.json holds; of a run that grows what it will hold, see `reopen`.
        earlier_steps: The length that a resumed run was to have; None if this process began the run.
    """

    path: Path
    config: dict[str, Any]
    earlier_steps: int | None = None

    @property
    def is_new(self) -> bool:
        """Begun by this process."""
        return self.earlier_steps is None

    @property
    def grows(self) -> bool:
        """Whether the run gets more steps than it was to have."""
        return self.earlier_steps is not None and int(self.config.get("steps", 0)) > self.earlier_steps

    @property
    def checkpoint(self) -> Path:
        """The state of an unfinished plan."""
        return self.path / CHECKPOINT

    @classmethod
    def begin(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Make a folder, or take an empty one, for a new run.

        Raises:
            ValueError: If the folder holds a run, or anything else.
        """
        refuse_running(path)
        if is_finished(path):
            raise ValueError(_finished(path))
        if (path / CONFIG).exists():
            raise ValueError(f"{path} holds an unfinished run. Add --resume to resume it, or give another folder.")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file. Give a folder for the run.")
        half_written = list(path.glob(".config-*.json"))  # by a process that was killed before its config was whole
        if path.is_dir() and set(path.iterdir()) - set(half_written):
            raise ValueError(f"{path} holds files that are not of a run. Give a new or an empty folder.")
        path.mkdir(parents=True, exist_ok=True)
        directory = cls(path=path, config=dict(config))
        directory.write_json(CONFIG, config)
        for left in half_written:
            left.unlink(missing_ok=True)
        return directory

    @classmethod
    def resume(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Resume a run, perhaps for more steps than it was begun with. Nothing is written; see `reopen`.

        Raises:
            ValueError: If there is none, if it is finished and cannot grow, or if its settings differ.
        """
        earlier = read_config(path)
        if "env" in config:
            refuse_another_env(path, config["env"])
        steps = int(earlier.get("steps", 0))
        grows = int(config.get("steps", 0)) > steps
        if is_finished(path):
            if not grows:
                raise ValueError(_finished(path, steps))
            if not _has_state(path):
                raise ValueError(
                    f"{path} was finished without --keep-replay, so it cannot be trained for more steps. "
                    "Give another folder."
                )
        refuse_other_settings(path, config, but=("steps",) if grows else ())
        merged = {**earlier, **({"steps": config["steps"]} if grows else {})}
        return cls(path=path, config=merged, earlier_steps=steps)

    def reopen(self) -> None:
        """Make a run that grows an unfinished one of its new length.

        Call it when everything that may fail has been made: the agent of a finished run is removed.
        """
        if self.grows:
            # In this order a crash in between leaves an unfinished run, which can be resumed.
            for name in (RESULT, AGENT, CURVE):
                (self.path / name).unlink(missing_ok=True)
            self.write_json(CONFIG, self.config)

    def take_back(self) -> None:
        """Remove a run that this process began and that failed before its first checkpoint, rows and all."""
        if not self.is_new or _has_state(self.path):
            return
        for name in (*ROWS, CONFIG):
            (self.path / name).unlink(missing_ok=True)
        for name in (*STATE, TENSORBOARD, "wandb"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def finish(self, result: Mapping[str, Any], *, keep_state: bool = False) -> None:
        """Write the result, which marks the run as finished, and remove its checkpoints unless they are kept."""
        self.write_json(RESULT, result)
        if keep_state:
            return
        self.checkpoint.unlink(missing_ok=True)
        for name in STATE:
            remove_written(self.path / name)
            with suppress(OSError):  # not there, a link, or with files of others in it
                (self.path / name).rmdir()

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A temporary path that becomes the file `name` when the block ends well."""
        return writing(self.path / name)

    def write_json(self, name: str, value: object) -> None:
        """One JSON value; numbers that JSON cannot hold raise ValueError."""
        text = json.dumps(value, indent=2, allow_nan=False) + "\n"
        with self.writing(name) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """rows.jsonl: one JSON object a line. A number that is not finite becomes null with its reason beside it."""
        lines = [json.dumps(finite(row), allow_nan=False) + "\n" for row in rows]
        with self.writing(TRACE) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")


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


def is_finished(path: Path) -> bool:
    """Whether the folder holds a finished run."""
    return (path / RESULT).exists()


def refuse_other_settings(path: Path, config: Mapping[str, Any], *, but: Collection[str] = ()) -> None:
    """Raise ValueError, with a sentence that names them, if a run has other settings than these.

    Args:
        path: The folder of the run.
        config: The settings; when the run was begun, and with which versions, is not compared.
        but: Names of more settings that may differ.
    """
    if "env" in config:
        refuse_another_env(path, config["env"])
    earlier, later = (
        {name: value for name, value in settings.items() if name not in (*NOT_COMPARED, *but)}
        for settings in (read_config(path), config)
    )
    if changed := differences(earlier, later):
        raise ValueError(
            f"{path} was begun with another configuration: {'; '.join(changed)}. "
            "Repeat its options, or give another folder."
        )


def refuse_another_env(path: Path, env: str) -> None:
    """Raise ValueError if a run is on another environment: then no other difference matters."""
    earlier = read_config(path).get("env")
    if not isinstance(earlier, str):
        raise ValueError(f"{path / CONFIG} names no environment, so nothing can be trained from it. Start a new run.")
    if earlier != env:
        raise ValueError(f"{path} holds a run on {earlier}, and {env} was asked for. Name its own, or another folder.")


def differences(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[str]:
    """Where two configurations differ, as phrases: "p was 0.2 and is 0.3"."""
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


def remove_written(folder: Path, *, but: Collection[str] = ()) -> None:
    """Remove what a training has written to a folder of its state, and nothing behind a link.

    Args:
        folder: "checkpoints" or "replay" of a run.
        but: Names of files that stay.
    """
    if folder.is_symlink():
        return
    for path in folder.glob("*.npz"):
        if _WRITTEN.fullmatch(path.name) and path.name not in but:
            path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a folder for this process.

    Raises:
        ValueError: If another process trains in it.
    """
    with _lock(path, shared=False, patience=_PATIENCE) as held:
        if not held:
            raise ValueError(_AT_WORK.format(path))
        yield


def refuse_running(path: Path) -> None:
    """Raise ValueError if another process works on the run in the folder."""
    if (path / CONFIG).exists() and is_running(path):
        raise ValueError(_AT_WORK.format(path))


def is_running(path: Path) -> bool:
    """Whether a process holds the folder at this moment."""
    with _lock(path, shared=True, patience=0.0) as held:
        return not held


@contextmanager
def _lock(path: Path, *, shared: bool, patience: float) -> Iterator[bool]:
    # Imported here, because names of files are needed on systems without fcntl too.
    import fcntl

    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(folder, kind | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                held = False
            except OSError:
                held = True  # a file system without locks: other processes cannot be detected
            if held or time.monotonic() >= until:
                break
            time.sleep(0.05)
        yield held
    finally:
        os.close(folder)


def _has_state(path: Path) -> bool:
    numbered = (file.stem.isdecimal() for file in (path / STATE[0]).glob("*.npz"))
    return (path / CHECKPOINT).exists() or any(numbered)


def _finished(path: Path, steps: int = 0) -> str:
    if steps:
        return (
            f"{path} holds a finished run of {steps:,} steps, which is not written over. "
            "Give more --steps to train it further, or another folder."
        )
    return f"{path} holds a finished run, which is not written over. Give another folder, or delete it."


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)
