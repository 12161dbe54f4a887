"""Checkpoints of training, with the replay buffer: a process killed at any moment leaves a whole one behind.

    checkpoints/000000123.npz   the state, where the replay buffer stands, which segments it needs, and which rows
                                the run had, as the size and the checksum of each file
    replay/segment-000001.npz   slots of the replay buffer; written once, never changed

A save writes the segments that are new, then the checkpoint that lists them with their sizes and checksums, and
only then removes what neither of the two newest checkpoints needs. Every file appears whole or not at all.
Nothing in them is ever executed.

Of damaged files the newest checkpoint that is whole with all its segments and rows is used, or else the newest that is
whole with its segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from svrl.agents.replay import Replay
from svrl.agents.replay_io import needed_from, positions, refuse_another_layout, restore, segments
from svrl.runtime.arrays import arrays_checksum, read_arrays, write_arrays
from svrl.runtime.rows import read_rows, rows_mark
from svrl.runtime.run_directory import ROWS, STATE, remove_written

FORMAT = 1
KEPT = 2


class Loaded(NamedTuple):
    """A checkpoint that was found.

    Attributes:
        state: The tree that was saved; tensors have become NumPy arrays.
        note: What was damaged and what was used instead, an older checkpoint or the rows that are left; None if
            nothing was.
    """

    state: Any
    note: str | None


class _Checkpoint(NamedTuple):
    """A checkpoint that is known to be whole: its file, and the entries of its segments."""

    path: Path
    segments: list[dict[str, Any]]


class Checkpoints:
    """The checkpoints of one run and its one replay buffer.

    Attributes:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._checkpoints, self._segments = (self.folder / name for name in STATE)
        self._whole: list[_Checkpoint] = []  # oldest first

    def save(self, state: Any, replay: Replay) -> None:
        """Write a checkpoint of a tree (see `svrl.runtime.arrays`) and the replay buffer, between two of its steps.

        The rows up to this step are in their files already.

        Raises:
            OSError: For instance if the disk is full. The earlier checkpoints stay as they were.
            ValueError: If the state holds something that cannot be written.
        """
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        self._segments.mkdir(exist_ok=True)
        earlier = self._whole[-1].segments if self._whole else []
        since = earlier[-1]["last"] if earlier else None
        oldest = needed_from(replay)
        entries = [entry for entry in earlier if (entry["last"] > oldest).any()]
        begun = len(entries)
        path = self._checkpoints / f"{max(map(_number, self._files()), default=0) + 1:09d}.npz"
        try:
            entries.extend(map(self._write_segment, segments(replay, since)))
            rows = {name: rows_mark(self.folder / name) for name in ROWS}
            tree = {"format": FORMAT, "state": state, "replay": positions(replay), "segments": entries, "rows": rows}
            write_arrays(path, tree)
        except BaseException:
            for entry in entries[begun:] if not path.exists() else ():
                (self._segments / entry["name"]).unlink(missing_ok=True)
            raise
        self._whole = [*self._whole, _Checkpoint(path, entries)][-KEPT:]
        self._remove_the_rest()

    def load(self, replay: Replay | None) -> Loaded | None:
        """Read the newest whole checkpoint and fill the replay buffer from it; None if there is no checkpoint.

        Without a buffer only the state is read, and the segments are not checked.

        Raises:
            ValueError: If all are damaged, or if the buffer has another layout than the saved one.
        """
        files = self._files()[::-1]
        damage: dict[Path, str] = {}
        trees: dict[Path, dict[str, Any]] = {}
        rows: dict[Path, str] = {}
        for path in files:
            try:
                trees[path] = _read_checkpoint(path)
            except (ValueError, OSError) as error:
                damage[path] = str(error)
                continue
            if replay is None:
                break
            if lost := self._lost_rows(trees[path]):
                damage[path] = rows[path] = lost
        for path in sorted(trees, key=rows.__contains__):  # resuming from before the rows were lost makes them again
            tree = trees[path]
            if replay is not None:
                refuse_another_layout(replay, tree["replay"])
                try:
                    self._restore(replay, tree)
                except (ValueError, OSError) as error:
                    damage[path] = str(error)
                    continue
                self._whole = [_Checkpoint(path, tree["segments"])]
            note = rows.get(path)
            if path != files[0]:
                note = f"{damage[files[0]]} Used the checkpoint before it, {path.name}."
            return Loaded(state=tree["state"], note=note)
        if damage:
            agent = ", or evaluate the agent, which is whole" if trees and replay is not None else ""
            raise ValueError(
                f"No checkpoint in {self._checkpoints} can be used. Start a new run{agent}. The newest: "
                f"{damage[files[0]]}"
            )
        return None

    def _lost_rows(self, tree: dict[str, Any]) -> str:
        """Which files of rows are not as they were at a checkpoint; one from before that was kept says nothing."""
        return " ".join(
            f"{path} is damaged: rows are missing or changed. The run goes on with {len(read_rows(path)):,} of them."
            for path, mark in ((self.folder / name, mark) for name, mark in tree.get("rows", {}).items())
            if rows_mark(path, mark[0]) != mark
        )

    def _restore(self, replay: Replay, tree: dict[str, Any]) -> None:
        for entry in tree["segments"]:  # check all before the first is read, which takes much longer
            self._check_segment(entry)
        restore(replay, tree["replay"], map(self._read_segment, tree["segments"]))

    def _files(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted((path for path in self._checkpoints.glob("*.npz") if path.stem.isdecimal()), key=_number)

    def _write_segment(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        number = max(map(_number, self._segments.glob("segment-*.npz")), default=0) + 1
        path = self._segments / f"segment-{number:06d}.npz"
        write_arrays(path, piece)
        return {
            "name": path.name,
            "bytes": path.stat().st_size,
            "checksum": arrays_checksum(path),
            "last": np.array(piece["last"]),
        }

    def _check_segment(self, entry: dict[str, Any]) -> None:
        path = self._segments / Path(entry["name"]).name
        if not path.exists():
            raise ValueError(f"{path} is missing.")
        if path.stat().st_size != entry["bytes"] or arrays_checksum(path) != entry["checksum"]:
            raise ValueError(f"{path} is damaged: it is not the file that was written.")

    def _read_segment(self, entry: dict[str, Any]) -> dict[str, Any]:
        piece: dict[str, Any] = read_arrays(self._segments / Path(entry["name"]).name)
        return piece

    def _remove_the_rest(self) -> None:
        """Remove what the whole checkpoints do not need, and what a killed process has left half written."""
        needed = {entry["name"] for checkpoint in self._whole for entry in checkpoint.segments}
        needed |= {checkpoint.path.name for checkpoint in self._whole}
        for folder in (self._checkpoints, self._segments):
            remove_written(folder, but=needed)


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("segment-")
    return int(digits) if digits.isdecimal() else 0


def _read_checkpoint(path: Path) -> dict[str, Any]:
    tree = read_arrays(path)
    if not isinstance(tree, dict) or not {"format", "state", "replay", "segments"} <= set(tree):
        raise ValueError(f"{path} is not a checkpoint.")
    if tree["format"] != FORMAT:
        raise ValueError(f"{path} was written by another version of svrl (format {tree['format']}, not {FORMAT}).")
    return tree
