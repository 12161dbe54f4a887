"""The run directory of an agent in training: what may be resumed, what may grow, and who is at work in it.

```
config.json         what was asked for, and with which versions
episodes.jsonl      a row for every game that ended           learning.jsonl    diagnostics
evaluations.jsonl   a row for every evaluation                q_star.jsonl      error against a planned Q*
checkpoints/ replay/   what an unfinished run goes on from
agent.npz  learning_curve.png  result.json                    a finished run
tensorboard/ wandb/    what those programs write
```

A run is gone on with under its own configuration; only `steps` may grow, also after the end if its
checkpoints were kept. The agent of a finished run is given up only when its state has been loaded.
While a process trains, it holds a lock on the folder, which the system takes back however the process
ends.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.runtime.run_directory import CONFIG, RESULT, RunDirectory, read_config, refuse_changes

EPISODES = "episodes.jsonl"
LEARNING = "learning.jsonl"
EVALUATIONS = "evaluations.jsonl"
Q_STAR = "q_star.jsonl"
AGENT = "agent.npz"
CURVE = "learning_curve.png"
TENSORBOARD = "tensorboard"
STATE = ("checkpoints", "replay")
"""Folders that an unfinished run goes on from."""
NOT_COMPARED = ("versions", "begun", "machine", "commit")
"""Fields of config.json that say how a run came about, not what it is."""
ROWS = (EPISODES, LEARNING, EVALUATIONS, Q_STAR)
_WRITTEN = re.compile(r"\.?(segment-)?\d{6,}(-\w+)?\.npz")
"""Names of what a run writes to the folders of its state, whole or half; all other files are somebody else's."""
_BOARDS = (TENSORBOARD, "wandb")
_AT_WORK = "{} is being trained by another process. Wait for it, or stop it."
_PATIENCE = 1.0
"""Seconds to wait for a lock: somebody may only be looking."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A folder with an agent in training.

    Attributes:
        directory: The folder.
        config: What config.json shall hold.
        earlier_steps: The length that the run was to have before this process; None if this one began it.
    """

    directory: RunDirectory
    config: dict[str, Any]
    earlier_steps: int | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        return self.directory.path

    @property
    def is_new(self) -> bool:
        """Begun by this process."""
        return self.earlier_steps is None

    @property
    def grows(self) -> bool:
        """Whether the run gets more steps than it was to have."""
        return self.earlier_steps is not None and int(self.config["steps"]) > self.earlier_steps

    @classmethod
    def begin(cls, path: Path, config: Mapping[str, Any]) -> TrainingRun:
        """Make a folder, or take an empty one, for a new run; ValueError if it holds anything."""
        refuse_running(path)
        return cls(directory=RunDirectory.begin(path, config), config=dict(config))

    @classmethod
    def resume(cls, path: Path, config: Mapping[str, Any]) -> TrainingRun:
        """Go on with a run, perhaps for more steps than it was begun with. Nothing is written; see `reopen`.

        Raises:
            ValueError: If there is none, if it is finished and cannot grow, or if its configuration differs.
        """
        earlier = read_config(path)
        refuse_another_env(path, config["env"])
        steps = int(earlier.get("steps", 0))
        grows = int(config["steps"]) > steps
        if is_finished(path):
            if not grows:
                raise ValueError(
                    f"{path} holds a finished run of {steps:,} steps, which is not written over. "
                    "Give more --steps to go on with it, or another folder."
                )
            if not _has_state(path):
                raise ValueError(
                    f"{path} was finished without --keep-replay, so it cannot be trained for more steps. "
                    "Give another folder."
                )
        refuse_other_settings(path, config, but=("steps",) if grows else ())
        merged = {**earlier, "steps": config["steps"]}
        return cls(directory=RunDirectory(path=path), config=merged, earlier_steps=steps)

    def reopen(self) -> None:
        """Make a run that grows an unfinished one of its new length.

        Call it when everything that may fail has been made: the agent of a finished run goes.
        """
        if self.grows:
            # In this order a crash in between leaves an unfinished run, which can be gone on with.
            for name in (RESULT, AGENT, CURVE):
                (self.path / name).unlink(missing_ok=True)
            self.directory.write_json(CONFIG, self.config)

    def take_back(self) -> None:
        """Remove a run that this process began and that failed before its first checkpoint, rows and all."""
        if not self.is_new or _has_state(self.path):
            return
        for name in ROWS:
            (self.path / name).unlink(missing_ok=True)
        for name in (*STATE, *_BOARDS):
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.directory.take_back()

    def finish(self, result: Mapping[str, Any], *, keep_state: bool) -> None:
        """Write the result, which marks the run as finished, and drop its checkpoints unless they shall stay."""
        self.directory.finish(result)
        if not keep_state:
            for name in STATE:
                remove_written(self.path / name)
                with suppress(OSError):  # a link, or somebody else's files are in it
                    (self.path / name).rmdir()


def remove_written(folder: Path, *, but: Collection[str] = ()) -> None:
    """Remove what a run has written to a folder of its state, and nothing behind a link.

    Args:
        folder: "checkpoints" or "replay" of a run.
        but: Names of files that stay.
    """
    if folder.is_symlink():
        return
    for path in folder.glob("*.npz"):
        if _WRITTEN.fullmatch(path.name) and path.name not in but:
            path.unlink(missing_ok=True)


def refuse_other_settings(path: Path, config: Mapping[str, Any], *, but: tuple[str, ...] = ()) -> None:
    """Raise ValueError, with a sentence that names them, if a run has other settings than these.

    Args:
        path: The folder of the run.
        config: The settings; when the run was begun, and with which versions, is not compared.
        but: Names of more settings that may differ.
    """
    refuse_another_env(path, config["env"])
    aside = (*NOT_COMPARED, *but)
    refuse_changes(path, _without(read_config(path), aside), _without(config, aside))


def refuse_another_env(path: Path, env: str) -> None:
    """Raise ValueError if a run is on another environment: then whatever else differs says nothing."""
    earlier = read_config(path).get("env")
    if not isinstance(earlier, str):
        raise ValueError(f"{path / CONFIG} names no environment, so nothing can be trained from it. Start a new run.")
    if earlier != env:
        raise ValueError(f"{path} holds a run on {earlier}, and {env} was asked for. Name its own, or another folder.")


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
    """Raise ValueError if the folder holds a run that a process is at work in."""
    if (path / CONFIG).exists() and is_running(path):
        raise ValueError(_AT_WORK.format(path))


def is_finished(path: Path) -> bool:
    """Whether the folder holds a finished run."""
    return (path / RESULT).exists()


def is_running(path: Path) -> bool:
    """Whether a process is at work in the folder at this moment."""
    with _lock(path, shared=True, patience=0.0) as held:
        return not held


@contextmanager
def _lock(path: Path, *, shared: bool, patience: float) -> Iterator[bool]:
    # Here, because the names of files above are wanted on systems without it too.
    import fcntl

    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _take(folder, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, patience)
    finally:
        os.close(folder)


def _take(folder: int, kind: int, patience: float) -> bool:
    import fcntl

    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        except OSError:
            return True  # a file system without locks: nobody can be found out, so nobody is kept out


def _has_state(path: Path) -> bool:
    return any(file.stem.isdecimal() for file in (path / STATE[0]).glob("*.npz"))


def _without(config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}
