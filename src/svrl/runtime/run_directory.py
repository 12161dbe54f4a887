"""One run on disk, a plan or a training: its files, the permitted uses of its folder, and its lock.

```
config.json         the settings; of a training also versions, machine and commit
result.json         written last: the run is finished

rows.jsonl          a plan: a row for every iteration
checkpoint.pt       a plan: the state of an unfinished one

episodes.jsonl      a training: a row for every game that ended     learning.jsonl    diagnostics
evaluations.jsonl   a row for every evaluation                      q_star.jsonl      error against a planned Q*
checkpoints/ replay/   the state of an unfinished training
agent.npz  learning_curve.png                                       a finished training
best.npz            the agent with the best evaluation so far, if it is kept
tensorboard/ wandb/    what those programs write

runs.json           in a folder around several trainings: the settings of each
```

A finished run is never overwritten. A run resumes only under its own settings; `steps` of a training may grow, even
after its end if its state was kept. The agent of a finished run is removed only when its state has been loaded.
While a process trains, it holds a lock on the folder, which the system releases however the process ends. Every file
is written atomically.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import reprlib
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.runtime.files import finite, read_object, write_json, writing

CONFIG = "config.json"
RESULT = "result.json"
RUNS = "runs.json"
TRACE = "rows.jsonl"
CHECKPOINT = "checkpoint.pt"
EPISODES = "episodes.jsonl"
LEARNING = "learning.jsonl"
EVALUATIONS = "evaluations.jsonl"
Q_STAR = "q_star.jsonl"
AGENT = "agent.npz"
BEST = "best.npz"
CURVE = "learning_curve.png"
TENSORBOARD = "tensorboard"
STATE = ("checkpoints", "replay")
"""Folders with the state of an unfinished training."""
ROWS = (EPISODES, LEARNING, EVALUATIONS, Q_STAR)
NOT_COMPARED = ("versions", "begun", "machine", "commit", "habits")
"""Fields of config.json that say how a run came about and is kept, not what it is."""
_WRITTEN = re.compile(r"\.?(segment-)?\d{6,}(-\w+)?\.npz")
"""Names of files that a training writes to the folders of its state, whole or half written. No others are removed."""
_AT_WORK = "{} is being trained by another process. Wait for it, or stop it."
_FINISHED = "{} holds a finished run, which is not written over. Give another folder, or delete it."
_FINISHED_TRAINING = (
    "{} holds a finished run of {:,} steps, which is not written over. "
    "Give more --steps to train it further, or another folder."
)
_PATIENCE = 1.0
"""Seconds to wait for a lock that a process may hold only for a check."""


@dataclass(frozen=True, kw_only=True)
class RunDirectory:
    """One run on disk.

    Attributes:
        path: The folder.
        config: What config.json holds; for a run that grows, what it will hold after `reopen`.
        earlier_steps: The number of steps that a resumed run was begun with; None if this process began the run.
    """

    path: Path
    config: dict[str, Any]
    earlier_steps: int | None = None

    @property
    def grows(self) -> bool:
        """Whether the run gets more steps than it was begun with."""
        return self.earlier_steps is not None and int(self.config.get("steps", 0)) > self.earlier_steps

    @classmethod
    def begin(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Create a folder, or use an empty one, for a new run.

        Raises:
            ValueError: If the folder holds a run, or anything else.
        """
        refuse_running(path)
        if is_finished(path):
            raise ValueError(_FINISHED.format(path))
        if (path / CONFIG).exists():
            raise ValueError(f"{path} holds an unfinished run. Add --resume to resume it, or give another folder.")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file. Give a folder for the run.")
        path.mkdir(parents=True, exist_ok=True)
        # A process that is killed while it begins a run leaves .config-*.json.
        if any(not file.match(".config-*.json") for file in path.iterdir()):
            raise ValueError(f"{path} holds files that are not of a run. Give a new or an empty folder.")
        write_json(path / CONFIG, config)
        return cls(path=path, config=dict(config))

    @classmethod
    def resume(cls, path: Path, config: Mapping[str, Any]) -> RunDirectory:
        """Resume a run, perhaps for more steps than before. This writes nothing; see `reopen`.

        Raises:
            ValueError: If there is no run, if it is finished and cannot grow, or if its settings differ.
        """
        earlier = read_config(path)
        if "env" in config:
            refuse_another_env(path, config["env"])
        steps = int(earlier.get("steps", 0))
        grows = int(config.get("steps", 0)) > steps
        if is_finished(path):
            if not grows:
                raise ValueError((_FINISHED_TRAINING if steps else _FINISHED).format(path, steps))
            if not _has_state(path):
                raise ValueError(
                    f"{path} was finished without --keep-replay, so it cannot be trained for more steps. "
                    "Give another folder."
                )
        refuse_other_settings(path, config, but=("steps",) if grows else ())
        may_change = {"habits", *(["steps"] if grows else [])} & set(config)
        merged = {**earlier, **{name: config[name] for name in may_change}}
        return cls(path=path, config=merged, earlier_steps=steps)

    def reopen(self) -> None:
        """Write changes to a resumed run's config.json, and mark a run that grows as unfinished.

        Call it after everything that may fail, because it removes the agent of a finished run.
        """
        if self.grows:
            # In this order a crash in between leaves an unfinished run, which can be resumed.
            for name in (RESULT, AGENT, CURVE):
                (self.path / name).unlink(missing_ok=True)
        if self.earlier_steps is not None and self.config != read_config(self.path):
            write_json(self.path / CONFIG, self.config)

    def take_back(self) -> None:
        """Remove a run that this process began and that failed before its first checkpoint, rows and all."""
        if self.earlier_steps is not None or _has_state(self.path):
            return
        for name in (*ROWS, CONFIG):
            (self.path / name).unlink(missing_ok=True)
        for name in (*STATE, TENSORBOARD, "wandb"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def finish(self, result: Mapping[str, Any], *, keep_state: bool = False) -> None:
        """Write the result, which marks the run as finished, and remove its checkpoints unless they are kept."""
        write_json(self.path / RESULT, result)
        if keep_state:
            return
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        for name in STATE:
            remove_written(self.path / name)
            with suppress(OSError):  # not there, a link, or with files of others in it
                (self.path / name).rmdir()

    def write_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows.jsonl, one JSON object per line. Numbers that are not finite become null, with a reason."""
        lines = [json.dumps(finite(row), allow_nan=False) + "\n" for row in rows]
        with writing(self.path / TRACE) as temporary:
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


def holds_runs(path: Path) -> bool:
    """Whether a path is the folder of a run, or one around several."""
    return (path / CONFIG).exists() or (path / RUNS).exists() or any(path.glob(f"*/{CONFIG}"))


def is_finished(path: Path) -> bool:
    """Whether the folder holds a finished run."""
    return (path / RESULT).exists()


def refuse_other_settings(path: Path, config: Mapping[str, Any], *, but: Collection[str] = ()) -> None:
    """Raise ValueError that names the differences if a run has other settings than these.

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
    later = json.loads(json.dumps(later))  # tuples become lists, as they have on disk
    changed = [
        f"{name.replace('_', '-')} was {_shown(earlier.get(name))} and is {_shown(later.get(name))}"
        for name in {**earlier, **later}
        if earlier.get(name) != later.get(name)
    ]
    if changed:
        raise ValueError(
            f"{path} was begun with another configuration: {'; '.join(changed)}. "
            "Resume it with its own options, or give another folder."
        )


def refuse_another_env(path: Path, env: str) -> None:
    """Raise ValueError if a run is on another environment, since no other difference matters then."""
    earlier = read_config(path).get("env")
    if not isinstance(earlier, str):
        raise ValueError(f"{path / CONFIG} names no environment, so nothing can be trained from it. Start a new run.")
    if earlier != env:
        raise ValueError(f"{path} holds a run on {earlier}, and {env} was asked for. Name its own, or another folder.")


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
    until = time.monotonic() + _PATIENCE
    while (folder := _hold(path, fcntl.LOCK_EX)) is None:
        if time.monotonic() >= until:
            raise ValueError(_AT_WORK.format(path))
        time.sleep(0.05)
    try:
        yield
    finally:
        os.close(folder)


def refuse_running(path: Path) -> None:
    """Raise ValueError if another process works on the run in the folder."""
    if (path / CONFIG).exists() and is_running(path):
        raise ValueError(_AT_WORK.format(path))


def is_running(path: Path) -> bool:
    """Whether a process holds the folder at this moment."""
    folder = _hold(path, fcntl.LOCK_SH)
    if folder is not None:
        os.close(folder)
    return folder is None


def _hold(path: Path, kind: int) -> int | None:
    """Lock a folder; the handle that holds it until it is closed, or None if another process holds it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        return None
    except OSError:  # a file system without locks: other processes cannot be detected
        pass
    return folder


def _has_state(path: Path) -> bool:
    numbered = (file.stem.isdecimal() for file in (path / STATE[0]).glob("*.npz"))
    return (path / CHECKPOINT).exists() or any(numbered)


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)
