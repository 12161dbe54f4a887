"""svrl runs: every run below a folder, what became of it, and how far it is."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from svrl.cli.answers import answer, show, tell
from svrl.cli.flags import Json
from svrl.runtime import run_directory as files
from svrl.runtime.files import read_object
from svrl.runtime.rows import last_rows
from svrl.runtime.run_directory import CHECKPOINT, CONFIG, RESULT

RUNS = Path("runs")
"""Where svrl train and svrl plan put them by default: if it does not exist, there are no runs yet."""
WINDOW = 100


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look, at any depth.")] = RUNS,
    as_json: Json = False,
) -> None:
    """A table of the runs below a folder, of training and of planning; those of sweeps by their names.

    A run is finished, running (a process is at work in it), interrupted (svrl train --resume resumes it) or
    damaged.
    """
    if not folder.is_dir() and (folder != RUNS or folder.exists()):
        raise ValueError(f"{folder} is not a folder. Give the one that the runs are in.")
    rows = sorted(({**describe(path), **_of_a_sweep(path)} for path in found(folder)), key=_place)
    answer(rows, as_json, lambda rows: _print(rows, folder))


def found(folder: Path) -> Iterator[Path]:
    """Folders of runs, in the order of their names; what lies inside a run is not looked at."""
    for place, inside, names in os.walk(folder):
        inside.sort()
        if CONFIG in names:
            inside.clear()
            yield Path(place)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Runs of a sweep stand together, in the order of what they are called; numbers in it count as such."""
    path = Path(row["run"])
    if "label" not in row:
        return path.parts, ()
    words = re.split(r"(\d{1,18})", row["label"])
    return path.parents[1].parts, tuple((int(word), "") if word.isdigit() else (-1, word) for word in words)


def describe(path: Path) -> dict[str, Any]:
    """One run as a row; a file that cannot be read, or holds what no run has, makes it damaged, not an error."""
    from svrl.cli.tables import runs_table

    row: dict[str, Any] = {"run": str(path)}
    try:
        config = read_object(path / CONFIG)
        result = read_object(path / RESULT) if (path / RESULT).exists() else None
        if "env" in config:
            whole = {**row, "kind": "train", **_training(path, config, result)}
        elif "task" in config:
            whole = {**row, "kind": "plan", **_plan(path, config, result)}
        else:
            return row | {"state": "unknown", "reason": f"{CONFIG} is not of a run"}
        runs_table([whole], title="")  # raises for a number that is a text, and the like
        json.dumps(whole, allow_nan=False)
    except Exception as error:  # files may hold anything, and no run hides the others
        said = str(error) if isinstance(error, OSError | ValueError) else f"Its files hold what no run writes: {error}."
        return row | {"state": "damaged", "reason": said}
    return whole


def _of_a_sweep(path: Path) -> dict[str, str]:
    """What a sweep calls its run: the folder is named by a hash."""
    from svrl.runs.store import RUN, label_in

    label = label_in(path.parent) if path.name == RUN else ""
    return {"label": label} if label else {}


def _training(path: Path, config: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
    from svrl.agents.config import AgentConfig, arm_of

    row = {
        "env": config["env"],
        "arm": arm_of({**AgentConfig().as_json(), **config}),
        "seed": config.get("seed"),
        "steps_wanted": config.get("steps"),
    }
    if result is not None:
        from svrl.runtime.arrays import read_arrays

        names = ("steps", "updates", "episodes", "score_last_100", "score_episodes", "evaluation", "steps_per_second")
        wanted = {*names, *(f"{name}_reason" for name in names)}
        try:
            read_arrays(path / files.AGENT)
        except (OSError, ValueError) as error:  # without its agent no run is finished
            return {**row, "state": "damaged", "reason": str(error)}
        return {**row, "state": "finished", **{name: value for name, value in result.items() if name in wanted}}
    if files.is_running(path):
        return {**row, "state": "running", **_so_far(path)}
    _refuse_damaged(path)
    return {**row, "state": "interrupted", **_so_far(path)}


def _refuse_damaged(path: Path) -> None:
    """Raise ValueError if a run has checkpoints and none can be read: it cannot be resumed."""
    from svrl.runtime.arrays import read_arrays

    damage = ""
    for file in sorted(file for file in (path / files.STATE[0]).glob("*.npz") if file.stem.isdecimal()):
        try:
            read_arrays(file)
            return
        except (OSError, ValueError) as error:
            damage = str(error)
    if damage:
        raise ValueError(f"No checkpoint can be used. The newest: {damage}")


def _so_far(path: Path) -> dict[str, Any]:
    """Of an unfinished run what its rows say."""
    episodes = last_rows(path / files.EPISODES, WINDOW)
    learning = last_rows(path / files.LEARNING, 1)
    evaluations = last_rows(path / files.EVALUATIONS, 1)
    row: dict[str, Any] = {"steps": max((some[-1]["steps"] for some in (episodes, learning) if some), default=0)}
    scores = [episode["score"] for episode in episodes if episode.get("score") is not None]
    if scores:
        row |= {"score_last_100": sum(scores) / len(scores), "score_episodes": len(scores)}
    if evaluations and evaluations[0].get("mean") is not None:
        row["last_evaluation"] = {name: evaluations[0][name] for name in ("steps", "mean")}
    return row


def _plan(path: Path, config: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
    row = {"task": config["task"], "method": config.get("method"), "seed": config.get("seed")}
    if result is None:
        if (path / CHECKPOINT).exists() and not zipfile.is_zipfile(path / CHECKPOINT):  # as torch writes it
            raise ValueError(f"{path / CHECKPOINT} is damaged.")
        return {**row, "state": "interrupted"}
    wanted = ("iterations", "policy_loss_relative", "policy_loss_relative_reason", "outcome")
    return {**row, "state": "finished", **{name: value for name, value in result.items() if name in wanted}}


def _print(rows: list[dict[str, Any]], folder: Path) -> None:
    from svrl.cli.tables import runs_table

    if not rows:
        tell(f"No runs in {folder}.")
        return
    # What is wrong with a run is as long as a path, and would widen the table of all others.
    shown = [{**row, "run": _name(row, folder)} for row in rows]
    bare = [{name: value for name, value in row.items() if name != "reason"} for row in shown]
    show(runs_table(bare, title=str(folder)))
    for row in shown:
        if "reason" in row:
            tell(f"{row['run'].splitlines()[-1]} is {row['state']}: {row['reason']}")


def _name(row: dict[str, Any], folder: Path) -> str:
    """Where the run is; one of a sweep begins with what it is called."""
    place = str(Path(row["run"]).relative_to(folder))
    return f"{row['label']}\n{place}" if "label" in row else place
