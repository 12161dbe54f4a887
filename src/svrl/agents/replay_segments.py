"""The replay memory in pieces that never change, so that saving it again costs only what is new.

A slot is complete once the next one is open, and what it holds never changes before it is overwritten. A
segment is the complete slots first .. last - 1 of each lane, lane after lane, numbered absolutely. What is left
is small: where each lane stands, and its open slot. Both together give back a memory that draws the same
batches, and goes on in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from svrl.agents.replay import Replay

PIECE_BYTES = 1 << 28
"""Bytes of frames in one segment; the most that saving and loading need beside the memory."""

OUTCOMES = ("frames", "actions", "rewards", "terminal", "life_lost")


def needed_from(replay: Replay) -> np.ndarray:
    """(N,): the oldest slot of each lane that a transition still needs; the open one where there is none."""
    oldest = replay.heads.copy()
    for lane in np.flatnonzero(replay.tails < replay.made):
        slot = replay.order[lane, replay.tails[lane] % replay.layout.per_lane]
        oldest[lane] = slot - replay.ages[lane, slot % replay.layout.slots]
    return oldest


def segments(replay: Replay, since: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    """The complete slots from `since` (N,) on, or all that are needed, in pieces of bounded size.

    Each piece is a tree of arrays: `first` and `last` (N,), and for the K slots in between, lane after lane, `frames`
    (K, bytes), `actions`, `rewards`, `terminal`, `life_lost`, `ages`, and `drawable`: not a final frame.
    """
    first = np.maximum(needed_from(replay), 0)
    if since is not None:
        first = np.maximum(first, since)
    span = max(1, PIECE_BYTES // (replay.layout.lanes * replay.layout.frame_bytes))
    while (first < replay.heads).any():
        last = np.minimum(first + span, replay.heads)
        yield _segment(replay, first, last)
        first = last


def _segment(replay: Replay, first: np.ndarray, last: np.ndarray) -> dict[str, Any]:
    rows = _rows(replay, first, last)
    places = torch.from_numpy(rows).to(replay.device)
    kept = {name: getattr(replay, name).index_select(0, places).cpu().numpy() for name in OUTCOMES}
    drawable = [np.isin(np.arange(first[lane], last[lane]), _listed(replay, lane)) for lane in range(len(first))]
    return {
        "first": first,
        "last": last,
        **kept,
        "ages": replay.ages.reshape(-1)[rows],
        "drawable": np.concatenate(drawable),
    }


def _rows(replay: Replay, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    slots = replay.layout.slots
    lanes = (lane * slots + np.arange(first[lane], last[lane]) % slots for lane in range(len(first)))
    return np.concatenate(list(lanes))


def _listed(replay: Replay, lane: int) -> np.ndarray:
    """Slots of a lane's transitions that can be drawn, oldest first."""
    numbers = np.arange(replay.tails[lane], replay.made)
    return replay.order[lane, numbers % replay.layout.per_lane]


def standing(replay: Replay) -> dict[str, Any]:
    """All that segments do not hold: the layout, where each lane stands, and its open slot's frame and age."""
    lanes, slots = np.arange(replay.layout.lanes), replay.layout.slots
    opened = replay.heads % slots
    return {
        "layout": asdict(replay.layout),
        "made": replay.made,
        "heads": replay.heads.copy(),
        "tails": replay.tails.copy(),
        "open_ages": replay.ages[lanes, opened],
        "open_frames": replay.frames[torch.from_numpy(lanes * slots + opened).to(replay.device)].cpu().numpy(),
    }


def refuse_another_layout(replay: Replay, stands: Mapping[str, Any]) -> None:
    """Raise unless the memory is laid out as the one that was saved.

    Raises:
        ValueError: The sentence says what differs.
    """
    now = asdict(replay.layout)
    changed = [f"{name} was {was} and is {now.get(name)}" for name, was in stands["layout"].items() if was != now[name]]
    if changed:
        raise ValueError(
            f"The saved replay memory is laid out otherwise: {', '.join(changed)}. "
            "Use the same environment, replay and envs."
        )


def restore(replay: Replay, stands: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Fill a memory from what `standing` and `segments` gave, the segments in their order.

    Raises:
        ValueError: If the memory is laid out otherwise, or if what was saved is incomplete or contradicts itself.
    """
    refuse_another_layout(replay, stands)
    layout = replay.layout
    made, heads, tails = int(stands["made"]), stands["heads"], stands["tails"]
    counts = made - tails
    if not ((heads >= -1) & (tails >= 0) & (counts >= 0) & (counts <= layout.per_lane)).all():
        raise ValueError("The saved replay memory contradicts itself.")
    reached: np.ndarray | None = None
    listed: list[list[np.ndarray]] = [[np.zeros(0, np.int64)] for _ in range(layout.lanes)]
    for piece in pieces:
        reached = piece["last"]
        _write_piece(replay, piece)
        begin = 0
        for lane, (first, last) in enumerate(zip(piece["first"], piece["last"], strict=True)):
            drawable = piece["drawable"][begin : begin + last - first]
            listed[lane].append(first + np.flatnonzero(drawable))
            begin += last - first
    if reached is not None and (reached != heads).any():
        raise ValueError("The saved replay memory lacks its newest segment.")
    _list_transitions(replay, made, tails, listed)
    replay.made = made
    replay.heads[:] = heads
    replay.tails[:] = tails
    rows = np.arange(layout.lanes) * layout.slots + heads % layout.slots
    replay.ages.reshape(-1)[rows] = _ages(replay, stands["open_ages"])
    replay.frames[torch.from_numpy(rows).to(replay.device)] = torch.from_numpy(stands["open_frames"]).to(replay.device)
    replay.synchronise()


def _write_piece(replay: Replay, piece: Mapping[str, Any]) -> None:
    rows = _rows(replay, piece["first"], piece["last"])
    places = torch.from_numpy(rows).to(replay.device)
    for name in OUTCOMES:
        getattr(replay, name).index_copy_(0, places, torch.from_numpy(piece[name]).to(replay.device))
    replay.ages.reshape(-1)[rows] = _ages(replay, piece["ages"])


def _ages(replay: Replay, ages: np.ndarray) -> np.ndarray:
    """The kernels trust ages, and files may come from strangers."""
    if len(ages) and ages.max() >= replay.layout.stack:
        raise ValueError("The saved replay memory contradicts itself.")
    return ages


def _list_transitions(replay: Replay, made: int, tails: np.ndarray, listed: list[list[np.ndarray]]) -> None:
    """Fill the order of each lane from the slots that can be drawn, of which the newest count."""
    for lane, parts in enumerate(listed):
        numbers = np.arange(tails[lane], made)
        slots = np.concatenate(parts)
        if len(slots) < len(numbers):
            raise ValueError(
                f"The saved replay memory has {len(slots)} of the {len(numbers)} transitions of lane {lane}."
            )
        replay.order[lane, numbers % replay.layout.per_lane] = slots[len(slots) - len(numbers) :]
