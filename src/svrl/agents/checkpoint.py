"""Checkpoints of training, with the replay buffer: a process killed at any moment leaves a complete one behind.

    checkpoints/000000123.npz   the state, where the replay buffer stands, which segments it needs, and the size and
                                checksum of each file of rows
    replay/segment-000001.npz   slots of the replay buffer; written once, never changed

A save writes the new segments, then the checkpoint that lists them with their sizes and checksums, and only then
removes what neither of the two newest checkpoints needs. Every file appears whole or not at all, and loading executes
nothing. If files are damaged, `load` uses the newest checkpoint that is intact with all its segments and rows, or else
the newest that is intact with its segments.

A slot of the buffer is complete once the next one is open, and keeps its content until it is overwritten. A segment
holds the complete slots first .. last - 1 of each environment, one environment after another, numbered absolutely. The
rest is small: the position of each environment, and its open slot. Together they restore a buffer that draws the same
batches and grows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from svrl.agents.replay import Replay
from svrl.runtime.arrays import arrays_checksum, read_arrays, write_arrays
from svrl.runtime.rows import read_rows, rows_mark
from svrl.runtime.run_directory import ROWS, STATE, remove_written

FORMAT = 1
KEPT = 2
PIECE_BYTES = 1 << 28
"""Bytes of frames in one segment: the most that saving and loading need in addition to the buffer."""
OUTCOMES = ("frames", "actions", "rewards", "terminal", "life_lost")
_CONTRADICTION = "The saved replay buffer contradicts itself."


class Loaded(NamedTuple):
    """A loaded checkpoint.

    Attributes:
        state: The saved tree, with tensors as NumPy arrays.
        note: What was damaged and what replaces it, an older checkpoint or the remaining rows; None if nothing was
            damaged.
    """

    state: Any
    note: str | None


class Checkpoints:
    """The checkpoints of one run and its one replay buffer.

    Attributes:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._checkpoints, self._segments = (self.folder / name for name in STATE)
        self._whole: list[tuple[Path, list[dict[str, Any]]]] = []  # files and entries of their segments, oldest first

    def save(self, state: Any, replay: Replay) -> None:
        """Write a checkpoint of a tree (see `svrl.runtime.arrays`) and the replay buffer, between two steps.

        The rows up to this step must be in their files already.

        Raises:
            OSError: If, for example, the disk is full. The earlier checkpoints stay intact.
            ValueError: If the state holds something that cannot be written.
        """
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        self._segments.mkdir(exist_ok=True)
        earlier = self._whole[-1][1] if self._whole else []
        oldest = needed_from(replay)
        entries = [entry for entry in earlier if (entry["last"] > oldest).any()]
        begun = len(entries)
        path = self._checkpoints / f"{max(map(_number, self._files()), default=0) + 1:09d}.npz"
        try:
            entries.extend(map(self._write_segment, segments(replay, earlier[-1]["last"] if earlier else None)))
            rows = {name: rows_mark(self.folder / name) for name in ROWS}
            tree = {"format": FORMAT, "state": state, "replay": positions(replay), "segments": entries, "rows": rows}
            write_arrays(path, tree)
        except BaseException:
            for entry in entries[begun:] if not path.exists() else ():
                (self._segments / entry["name"]).unlink(missing_ok=True)
            raise
        self._whole = [*self._whole, (path, entries)][-KEPT:]
        # Remove older checkpoints, segments that none needs, and half-written files of a killed process.
        needed = {entry["name"] for _, listed in self._whole for entry in listed} | {
            kept.name for kept, _ in self._whole
        }
        for folder in (self._checkpoints, self._segments):
            remove_written(folder, but=needed)

    def load(self, replay: Replay | None) -> Loaded | None:
        """Read the newest intact checkpoint and fill the replay buffer from it; None if there is no checkpoint.

        Without a buffer it reads only the state, and does not check the segments.

        Raises:
            ValueError: If all are damaged, or if the buffer's layout differs from the saved one.
        """
        files = self._files()[::-1]
        damage: dict[Path, str] = {}
        trees: dict[Path, dict[str, Any]] = {}
        for path in files:
            try:
                trees[path] = _read_checkpoint(path)
            except (ValueError, OSError) as error:
                damage[path] = str(error)
                continue
            if replay is None:
                break
            if lost := self._lost_rows(trees[path]):
                damage[path] = lost
        # A run resumed from before the rows were lost writes them again, so checkpoints with all rows come first.
        for path in sorted(trees, key=damage.__contains__):
            tree, note = trees[path], damage.get(path)
            if replay is not None:
                _check_layout(replay, tree["replay"])
                try:
                    paths = [self._checked(entry) for entry in tree["segments"]]  # all before the first is read
                    restore(replay, tree["replay"], map(read_arrays, paths))
                except (ValueError, OSError) as error:
                    damage[path] = str(error)
                    continue
                self._whole = [(path, tree["segments"])]
            if path != files[0]:
                note = f"{damage[files[0]]} Used the checkpoint before it, {path.name}."
            return Loaded(state=tree["state"], note=note)
        if damage:
            agent = ", or evaluate the agent, which is intact" if trees and replay is not None else ""
            raise ValueError(
                f"No checkpoint in {self._checkpoints} can be used. Start a new run{agent}. The newest: "
                f"{damage[files[0]]}"
            )
        return None

    def _lost_rows(self, tree: dict[str, Any]) -> str:
        """Say which files of rows changed since a checkpoint; empty for an older version without checksums."""
        return " ".join(
            f"{path} is damaged: rows are missing or changed. The run continues with {len(read_rows(path)):,} of them."
            for path, mark in ((self.folder / name, mark) for name, mark in tree.get("rows", {}).items())
            if rows_mark(path, mark[0]) != mark
        )

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

    def _checked(self, entry: dict[str, Any]) -> Path:
        """Return the file of a segment; raise ValueError if it has changed since it was written."""
        path = self._segments / Path(entry["name"]).name
        if not path.exists():
            raise ValueError(f"{path} is missing.")
        if path.stat().st_size != entry["bytes"] or arrays_checksum(path) != entry["checksum"]:
            raise ValueError(f"{path} is damaged: it is not the file that was written.")
        return path


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


def needed_from(replay: Replay) -> np.ndarray:
    """(N,): the oldest slot of each environment that a transition still needs; the open one if none is left."""
    oldest = replay.heads.copy()
    for env in np.flatnonzero(replay.tails < replay.made):
        slot = replay.order[env, replay.tails[env] % replay.layout.per_env]
        oldest[env] = slot - replay.ages[env, slot % replay.layout.slots]
    return oldest


def segments(replay: Replay, since: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    """Yield the complete slots from `since` (N,) on, or all needed ones, in pieces of bounded size.

    Each piece is a tree of arrays: `first` and `last` (N,), and for the K slots in between, one environment after
    another, `frames` (K, bytes), `actions`, `rewards`, `terminal`, `life_lost`, `ages`, and `drawable`, which is False
    for a final frame.
    """
    first = np.maximum(needed_from(replay), 0 if since is None else since)
    span = max(1, PIECE_BYTES // (replay.layout.n_envs * replay.layout.frame_bytes))
    while (first < replay.heads).any():
        last = np.minimum(first + span, replay.heads)
        rows = _rows(replay, first, last)
        places = torch.from_numpy(rows).to(replay.device)
        drawable = []
        for env, (begin, end) in enumerate(zip(first, last, strict=True)):
            numbers = np.arange(replay.tails[env], replay.made)
            drawable.append(np.isin(np.arange(begin, end), replay.order[env, numbers % replay.layout.per_env]))
        yield {
            "first": first,
            "last": last,
            **{name: getattr(replay, name).index_select(0, places).cpu().numpy() for name in _kept(replay)},
            "ages": replay.ages.reshape(-1)[rows],
            "drawable": np.concatenate(drawable),
        }
        first = last


def positions(replay: Replay) -> dict[str, Any]:
    """All that segments do not hold: the layout, each environment's position, and its open slot's frame and age."""
    rows = _rows(replay, replay.heads, replay.heads + 1)
    return {
        "layout": asdict(replay.layout),
        "made": replay.made,
        "heads": replay.heads.copy(),
        "tails": replay.tails.copy(),
        "open_ages": replay.ages.reshape(-1)[rows],
        "open_frames": replay.frames[torch.from_numpy(rows).to(replay.device)].cpu().numpy(),
        **({} if replay.masks is None else {"open_masks": replay.masks[torch.from_numpy(rows)].cpu().numpy()}),
        **({} if replay.priorities is None else {"priorities": replay.priorities.state()}),
    }


def restore(replay: Replay, saved: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Fill a buffer of the same layout from the results of `positions` and `segments`, the segments in order.

    Raises:
        ValueError: If the saved data are incomplete or contradict themselves.
    """
    layout, made, heads, tails = replay.layout, int(saved["made"]), saved["heads"], saved["tails"]
    counts = made - tails
    # The kernels trust these numbers, and files may come from strangers.
    if not ((heads >= -1) & (tails >= 0) & (counts >= 0) & (counts <= layout.per_env)).all():
        raise ValueError(_CONTRADICTION)
    reached = heads
    for name, held in (("priorities", replay.priorities), ("open_masks", replay.masks)):
        if held is not None and name not in saved:
            raise ValueError(_CONTRADICTION)
    if "open_masks" in saved and replay.masks is None:
        replay.add_masks()
    drawable: list[list[np.ndarray]] = [[np.zeros(0, np.int64)] for _ in counts]
    for piece in pieces:
        reached = piece["last"]
        if not set(_kept(replay)) <= set(piece):
            raise ValueError(_CONTRADICTION)
        _write(
            replay, _rows(replay, piece["first"], reached), piece["ages"], {name: piece[name] for name in _kept(replay)}
        )
        lengths = np.cumsum(reached - piece["first"])[:-1]
        for env, flags in enumerate(np.split(piece["drawable"], lengths)):
            drawable[env].append(piece["first"][env] + np.flatnonzero(flags))
    if (reached != heads).any():
        raise ValueError("The saved replay buffer lacks its newest segment.")
    slots = [np.concatenate(parts) for parts in drawable]
    for env, (found, count) in enumerate(zip(slots, counts, strict=True)):
        if len(found) < count:
            raise ValueError(
                f"The saved replay buffer has {len(found)} of the {count} transitions of environment {env}."
            )
    opened = {"frames": saved["open_frames"]} | ({} if replay.masks is None else {"masks": saved["open_masks"]})
    _write(replay, _rows(replay, heads, heads + 1), saved["open_ages"], opened)
    for env, found in enumerate(slots):  # list the newest of the slots that can be drawn
        numbers = np.arange(tails[env], made)
        replay.order[env, numbers % layout.per_env] = found[len(found) - len(numbers) :]
    replay.made = made
    replay.tails[:], replay.heads[:] = tails, heads
    if replay.priorities is not None:
        replay.priorities.restore(saved["priorities"])
    replay.synchronise()


def _kept(replay: Replay) -> tuple[str, ...]:
    """Names of the buffer's arrays that make up a slot."""
    return OUTCOMES if replay.masks is None else (*OUTCOMES, "masks")


def _check_layout(replay: Replay, saved: Mapping[str, Any]) -> None:
    """Raise ValueError that lists the differences unless the buffer has the saved layout."""
    now = asdict(replay.layout)
    changed = [f"{name} was {was} and is {now.get(name)}" for name, was in saved["layout"].items() if was != now[name]]
    if changed:
        raise ValueError(
            f"The saved replay buffer has a different layout: {', '.join(changed)}. "
            "Use the same environment, buffer_size and n_envs."
        )


def _write(replay: Replay, rows: np.ndarray, ages: np.ndarray, kept: Mapping[str, np.ndarray]) -> None:
    if len(ages) and ages.max() >= replay.layout.stack:
        raise ValueError(_CONTRADICTION)
    places = torch.from_numpy(rows).to(replay.device)
    for name, values in kept.items():
        getattr(replay, name).index_copy_(0, places, torch.from_numpy(values).to(replay.device))
    replay.ages.reshape(-1)[rows] = ages


def _rows(replay: Replay, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Rows (among all N * M) of the slots first .. last - 1 of each environment."""
    slots = replay.layout.slots
    return np.concatenate([env * slots + np.arange(first[env], last[env]) % slots for env in range(len(first))])
