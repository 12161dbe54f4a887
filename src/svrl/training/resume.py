"""Read the settings of runs from their folders: you resume runs by naming their folder.

config.json holds the settings of a run. A folder around several runs has a runs.json with the settings of all
requested runs, by the names of their folders, including those that have not begun yet. svrl imports no package only
because one of these files names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from svrl.agents.config import AgentConfig, check_precision
from svrl.runtime.files import read_object, write_json
from svrl.runtime.run_directory import CONFIG, RUNS, read_config
from svrl.training.population import Member
from svrl.training.session import Habits

_MOST_THREADS = 1024


def begun_run(folder: Path, env: str | None = None) -> Member:
    """The run in a folder, with its original settings.

    Args:
        folder: The folder of the run.
        env: Its environment, as the user named it; None uses the name in config.json.

    Raises:
        ValueError: If there is no run, if its config.json is damaged, or if the environment would import a package.
    """
    settings = read_config(folder)
    if settings.get("batched"):
        raise ValueError(
            f"{folder} is one of many seeds that are trained at once, without checkpoints. Repeat its whole command, "
            "with --batched --resume."
        )
    return _member(folder, settings, folder / CONFIG, env)


def asked_runs(folder: Path) -> list[Member]:
    """The runs of a folder: those in its runs.json, begun or not, and any others that were begun there.

    Raises:
        ValueError: As in `begun_run`.
    """
    asked = _listed(folder)
    begun = sorted(file.parent.name for file in folder.glob(f"*/{CONFIG}"))
    begun = [name for name in begun if name in asked or "env" in read_config(folder / name)]  # others are plans
    if not asked and not begun:
        raise ValueError(f"{folder} holds no training to resume.")
    return [
        begun_run(folder / name) if name in begun else _member(folder / name, asked[name], folder / RUNS)
        for name in dict.fromkeys([*asked, *begun])
    ]


@contextmanager
def listed(folder: Path, members: Sequence[Member]) -> Iterator[None]:
    """Write runs.json around several runs, and remove it again if none of them could begin."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = {}
    with suppress(ValueError):  # a damaged list is replaced
        asked = _listed(folder)
    for member in members:
        asked[member.folder.name] = {**member.settings, "habits": asdict(member.habits or Habits())}
    write_json(folder / RUNS, asked)
    try:
        yield
    finally:
        if not any(folder.glob(f"*/{CONFIG}")):
            (folder / RUNS).unlink(missing_ok=True)
            with suppress(OSError):  # it holds something else
                folder.rmdir()


def _listed(folder: Path) -> dict[str, dict[str, Any]]:
    if not (folder / RUNS).exists():
        return {}
    found = read_object(folder / RUNS)
    for name, settings in found.items():
        if Path(name).name != name or name in ("", "..") or not isinstance(settings, dict):
            raise ValueError(f"{folder / RUNS} is damaged: {name!r} is not the name of a run with its settings.")
    return found


def _member(folder: Path, settings: Mapping[str, Any], file: Path, env: str | None = None) -> Member:
    """A run with the settings of a file, which may come from anyone."""
    named = settings.get("env")
    if not isinstance(named, str):
        raise ValueError(f"{file} names no environment, so nothing can be trained from it. Start a new run.")
    if env is None and ":" in named:
        command = shlex.join(["svrl", "train", named, "--out", str(folder), "--resume"])
        raise ValueError(
            f"{folder} was trained on {named!r}, which would import {named.partition(':')[0]}, and nothing is imported "
            f"because a file says so. Name the environment yourself: {command}"
        )
    try:
        config = AgentConfig.from_json(
            {name: settings[name] for name in AgentConfig.__dataclass_fields__ if name in settings}
        )
        seed, threads = _whole(settings, "seed", 0, 2**63 - 1), _whole(settings, "threads", 1, _MOST_THREADS)
        device, precision = str(settings["device"]), settings.get("precision", "float32")
        check_precision(precision, device)
    except KeyError as error:
        raise ValueError(f"{file} is not that of a training: {error} is missing.") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    return Member(
        env=env or named,
        config=config,
        folder=folder,
        seed=seed,
        device=device,
        precision=precision,
        threads=threads,
        resume=(folder / CONFIG).exists(),
        habits=Habits.of(settings, file),
    )


def _whole(settings: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = settings[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is a whole number from {least} to {most}, got {value!r}.")
    return value
